//! Extractors of routes: the caller, and the JSON body. A request without a valid one is refused
//! before its route runs. Not for the rules of access, nor for query parameters.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, web};
use futures_util::future::{Either, LocalBoxFuture};
use hearken_chat::Asker;
use hearken_proto::fault::Fault;
use hearken_proto::ids::SessionId;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::admin::sessions::{LoggedIn, USERNAME};
use crate::http::AccessControl;
use crate::http::admin_access::Admin;
use crate::http::audit::admitted;
use crate::http::auth::{AccessRule, Admission};
use crate::http::chat_access::{Chats, UNFIT, refusal_of, session_of};
use crate::http::fault::{Refusal, refusal};
use crate::http::middleware::owner_of;
use crate::http::request_identity::{bearer, json_or};

/// Caller with the admin token, or with a login whose right opens the route (`Some`); any caller if
/// no token is required.
pub(crate) struct Operator(pub(super) Option<LoggedIn>);

/// Caller on this machine or in its private networks, with the admin token, or with a login whose
/// right opens the route.
pub(crate) struct Near;

/// Application that may use chat sessions.
pub(crate) struct Application(pub(super) Asker);

/// Session named by the address, of an application that may use it. Every route of one session
/// takes its id from here.
pub(crate) struct OwnSession {
    pub(crate) id: SessionId,
    pub(crate) asker: Asker,
}

/// Common path parameter of the routes of one session.
#[derive(Deserialize)]
struct SessionPath {
    id: String,
}

/// User with a login whose right opens the route.
pub(crate) struct AdminSession(pub(super) LoggedIn);

/// Returns the state of this type; every route that needs it is registered together with it.
pub(crate) fn state<T: 'static>(request: &HttpRequest) -> Result<&T, Refusal> {
    let state = request.app_data::<web::Data<T>>().map(|data| &***data);
    state.ok_or_else(|| refusal(Fault::Internal, "this address is not set up"))
}

impl Operator {
    /// Returns the caller's name; the administrator's for the admin token.
    pub(crate) fn name(&self) -> &str {
        self.0.as_ref().map_or(USERNAME, |who| &who.who)
    }
}

impl FromRequest for Operator {
    type Error = Refusal;
    type Future =
        Either<Ready<Result<Self, Refusal>>, LocalBoxFuture<'static, Result<Self, Refusal>>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let access = state::<AccessControl>(request);
        let refused = match access.and_then(|access| access.auth.admin(request)) {
            Ok(()) => {
                admitted(request, USERNAME);
                return Either::Left(ready(Ok(Self(None))));
            }
            Err(refused) => refused,
        };
        let Some(admin) = log_ins(request) else { return Either::Left(ready(Err(refused))) };
        let request = request.clone();
        Either::Right(Box::pin(
            async move { logged_in(&admin, &request).await.map(Some).map(Self) },
        ))
    }
}

/// Returns the user of the request's access token, if their right opens this route.
async fn logged_in(admin: &Admin, request: &HttpRequest) -> Result<LoggedIn, Refusal> {
    let who = admin.verified(request).await?;
    admitted(request, &who.who);
    Ok(who)
}

/// Returns the service that verifies logins, if this request has an access token.
fn log_ins(request: &HttpRequest) -> Option<web::Data<Admin>> {
    // The admin token has no dots, an access token (JWT) has two.
    let has_access_token = bearer(request).matches('.').count() == 2;
    request.app_data::<web::Data<Admin>>().filter(|_| has_access_token).cloned()
}

impl FromRequest for Near {
    type Error = Refusal;
    type Future = LocalBoxFuture<'static, Result<Self, Refusal>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let request = request.clone();
        Box::pin(async move {
            let refused = match state::<AccessControl>(&request)?.auth.near(&request) {
                Ok(()) => return Ok(Self),
                Err(refused) => refused,
            };
            match log_ins(&request) {
                Some(admin) => admin.verified(&request).await.map(|_| Self),
                None => Err(refused),
            }
        })
    }
}

impl FromRequest for Application {
    type Error = Refusal;
    type Future = LocalBoxFuture<'static, Result<Self, Refusal>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let request = request.clone();
        Box::pin(async move { asker(&request).await.map(Self) })
    }
}

/// Returns the caller as an owner of chat sessions.
async fn asker(request: &HttpRequest) -> Result<Asker, Refusal> {
    let admitted = admit(request, &state::<Chats>(request)?.access).await?;
    let admitted = admitted.map_err(|missing| refusal(Fault::Unauthorized, &missing))?;
    Ok(match admitted {
        Admission::Anybody => Asker::Anybody,
        Admission::Credential => Asker::Credential,
        Admission::Client => Asker::Client(owner_of(request)),
    })
}

/// Returns why a request may use routes with optional authentication, or what is missing. A login
/// whose right opens the route is a credential.
pub(crate) async fn admit(
    request: &HttpRequest,
    rule: &AccessRule,
) -> Result<Result<Admission, String>, Refusal> {
    let admitted = state::<AccessControl>(request)?.auth.admit(request, rule);
    if let Ok(Admission::Anybody | Admission::Credential) = admitted {
        return Ok(admitted);
    }
    // An invalid login does not matter if the client's network opens the route.
    match log_ins(request) {
        None => Ok(admitted),
        Some(admin) => match admin.verified(request).await {
            Ok(_) => Ok(Ok(Admission::Credential)),
            // The store failed: the login may be valid.
            Err(refused) if refused.status().is_server_error() => Err(refused),
            Err(_) => Ok(admitted),
        },
    }
}

impl FromRequest for OwnSession {
    type Error = Refusal;
    type Future = LocalBoxFuture<'static, Result<Self, Refusal>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let path = web::Path::<SessionPath>::from_request(request, payload);
        let request = request.clone();
        Box::pin(async move {
            let asker = asker(&request).await?;
            let path = path.await.map_err(|error| refusal(UNFIT, &error.to_string()))?;
            let id = session_of(&path.id);
            let admitted = state::<Chats>(&request)?.service.admit(&asker, &id).await;
            admitted.map_err(|error| refusal_of(&error))?;
            Ok(Self { id, asker })
        })
    }
}

impl FromRequest for AdminSession {
    type Error = Refusal;
    type Future = LocalBoxFuture<'static, Result<Self, Refusal>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let request = request.clone();
        Box::pin(async move { logged_in(state::<Admin>(&request)?, &request).await.map(Self) })
    }
}

/// JSON body from a caller who may use the route. Other callers are refused before the body is
/// read; an invalid body is a bad request.
pub(crate) struct JsonBody<T>(pub(super) T);

/// JSON body of a request about chat sessions, whose document defines its own fault for an invalid body.
pub(crate) struct ChatBody<T>(pub(super) T);

/// Reads and parses the body, and wraps it in this extractor.
fn read<T: DeserializeOwned + 'static, Body: 'static>(
    request: &HttpRequest,
    payload: &mut Payload,
    fault: Fault,
    body: fn(T) -> Body,
) -> LocalBoxFuture<'static, Result<Body, Refusal>> {
    let payload = web::Payload::from_request(request, payload);
    Box::pin(async move {
        let payload = payload.await.map_err(|error| refusal(fault, &error.to_string()))?;
        json_or(payload, fault).await.map(body)
    })
}

impl<T: DeserializeOwned + 'static> FromRequest for JsonBody<T> {
    type Error = Refusal;
    type Future = LocalBoxFuture<'static, Result<Self, Refusal>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let operator = Operator::from_request(request, &mut Payload::None);
        let body = read(request, payload, Fault::BadRequest, Self);
        Box::pin(async move {
            operator.await?;
            body.await
        })
    }
}

impl<T: DeserializeOwned + 'static> FromRequest for ChatBody<T> {
    type Error = Refusal;
    type Future = LocalBoxFuture<'static, Result<Self, Refusal>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        read(request, payload, UNFIT, Self)
    }
}
