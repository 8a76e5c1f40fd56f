//! REST API of museum clients: register, heartbeat, ask, unregister. Not for the answers.
//!
//! Errors have the envelope of the document, and `detail`, which the original clients read. For an
//! expired session these clients expect 401 and the word 会话 in `detail`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::{FromRequest, HttpRequest, HttpResponse, web};
use futures_util::future::LocalBoxFuture;
use hearken_base::wall_clock::now;
use hearken_cluster::RateLimit;
use hearken_museum::{Museum, MuseumError};
use hearken_proto::ids::SessionId;
use hearken_proto::json;
use hearken_proto::museum::{
    Alive, Envelope, FEATURES, Mistake, ParseRequest, Refused, Register, Registered, SessionInfo,
    Stats, Unregistered,
};
use serde_json::Value;
use utoipa::IntoResponses;
use utoipa::openapi::{RefOr, Response};

use crate::http::auth::{AccessRule, Admission};
use crate::http::extract::{admit, state};
use crate::http::fault::{Refusal, RouteResult, refusals};
use crate::http::middleware::{address_of, middleware_state, owner_of};
use crate::http::request_identity::{body, session_of};

/// Maximum size of a body, in bytes; 128 functions with long descriptions fit.
const MAX_BODY_BYTES: usize = 512 * 1024;
/// Time after which a client may retry if the server is busy or its store is unavailable.
const AGAIN: Duration = Duration::from_secs(5);

/// State of the routes of museum clients.
#[derive(Clone)]
pub struct MuseumClients {
    /// Service that executes requests.
    pub museum: Arc<Museum>,
    /// Rule of access.
    pub access: AccessRule,
    /// Rate limit; `None` for no limit.
    pub limit: Option<Arc<dyn RateLimit>>,
}

/// All error responses to a museum client, for the API description.
struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals("Refused", "detail")
    }
}

fn refusal(status: StatusCode, msg: impl Into<String>, errors: Vec<Mistake>) -> HttpResponse {
    let msg = msg.into();
    let told = Refused { code: status.as_u16(), msg: msg.clone(), data: None, detail: msg, errors };
    HttpResponse::build(status).json(told)
}

/// Builds an error response with a retry time.
fn refused_for_now(status: StatusCode, msg: impl Into<String>, wait: Duration) -> Refusal {
    let mut told = refusal(status, msg, Vec::new());
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    told.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    told.into()
}

/// Builds the response for a missing or expired session.
fn no_session(msg: &str) -> Refusal {
    let mut told = refusal(StatusCode::UNAUTHORIZED, msg, Vec::new());
    let challenge = HeaderValue::from_static("Session realm=\"museum\"");
    told.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    told.into()
}

fn failure_of(error: MuseumError) -> Refusal {
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    match error {
        MuseumError::Wrong(mistakes) => wrong(mistakes),
        MuseumError::Gone => no_session("会话不存在或已过期，请重新注册 (SESSION_NOT_FOUND)"),
        MuseumError::Full | MuseumError::Busy | MuseumError::TooHeavy(_) => {
            tracing::warn!(%error, "refused a museum client");
            let msg = match error {
                MuseumError::Full => "会话数量已达上限，请稍后再试 (BUSY)",
                _ => "上一个请求仍在处理，请稍后再试 (BUSY)",
            };
            refused_for_now(StatusCode::SERVICE_UNAVAILABLE, msg, AGAIN)
        }
        MuseumError::Store(_) | MuseumError::Lock(_) => {
            tracing::warn!(%error, cause, "cannot serve a museum client");
            let msg = "服务暂时不可用，请稍后再试 (UNAVAILABLE)";
            refused_for_now(StatusCode::SERVICE_UNAVAILABLE, msg, AGAIN)
        }
        MuseumError::LimitReached(_) => {
            let msg = "今天的使用额度已经用完，请明天再试 (LIMIT_REACHED)";
            refusal(StatusCode::TOO_MANY_REQUESTS, msg, Vec::new()).into()
        }
        MuseumError::Llm(_) | MuseumError::NoWords => {
            tracing::warn!(%error, cause, "cannot answer a museum client");
            let why = match &error {
                MuseumError::Llm(error) => error.kind.to_string(),
                _ => "no words".into(),
            };
            let msg = format!("大模型调用失败，请稍后再试 (LLM_ERROR: {why})");
            refusal(StatusCode::INTERNAL_SERVER_ERROR, msg, Vec::new()).into()
        }
    }
}

fn wrong(mistakes: Vec<Mistake>) -> Refusal {
    let all: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    refusal(StatusCode::UNPROCESSABLE_ENTITY, all.join("; "), mistakes).into()
}

impl MuseumClients {
    /// Checks the token and the rate limit of a request.
    async fn let_in(
        &self,
        request: &HttpRequest,
        session: Option<&SessionId>,
    ) -> Result<Admission, Refusal> {
        let admitted = admit(request, &self.access).await?;
        let admission = admitted.map_err(|missing| {
            let msg = format!("需要 museum.token 访问令牌 (UNAUTHORIZED: {missing})");
            let mut told = refusal(StatusCode::UNAUTHORIZED, msg, Vec::new());
            let challenge = HeaderValue::from_static("Bearer realm=\"museum\"");
            told.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            Refusal::from(told)
        })?;
        let Some(limit) = &self.limit else { return Ok(admission) };
        // Session ids in headers can be invented: they identify a client only if the request is trusted.
        let trusted = middleware_state(request).is_some_and(|state| state.is_trusted(request));
        let client = match session.filter(|_| trusted) {
            Some(id) => format!("session {id}"),
            None => address_of(request),
        };
        limit.take(&client).await.map_err(|wait| {
            let msg = "请求过于频繁，请稍后再试 (RATE_LIMITED)";
            refused_for_now(StatusCode::TOO_MANY_REQUESTS, msg, wait)
        })?;
        Ok(admission)
    }

    /// Checks the request, and returns the session id from its header.
    async fn session(&self, request: &HttpRequest) -> Result<SessionId, Refusal> {
        let id = session_of(request).map(SessionId::new);
        self.let_in(request, id.as_ref()).await?;
        id.ok_or_else(|| no_session("缺少 session-id 请求头，请先注册会话 (SESSION_REQUIRED)"))
    }
}

/// Client that may use the service, with the name under which it is counted if it has no credential.
pub(crate) struct Client(Option<String>);

/// Session named by the request, of a client that may use the service.
pub(crate) struct ClientSession(SessionId);

impl FromRequest for Client {
    type Error = Refusal;
    type Future = LocalBoxFuture<'static, Result<Self, Refusal>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let request = request.clone();
        Box::pin(async move {
            let admission = state::<MuseumClients>(&request)?.let_in(&request, None).await?;
            Ok(Self((admission == Admission::Client).then(|| owner_of(&request))))
        })
    }
}

impl FromRequest for ClientSession {
    type Error = Refusal;
    type Future = LocalBoxFuture<'static, Result<Self, Refusal>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let request = request.clone();
        Box::pin(async move { state::<MuseumClients>(&request)?.session(&request).await.map(Self) })
    }
}

async fn read(payload: web::Payload) -> Result<Value, Refusal> {
    let bytes = body(payload, MAX_BODY_BYTES).await.map_err(|fault| {
        let msg = format!("a body has at most {MAX_BODY_BYTES} bytes, and must arrive in time");
        Refusal::from(refusal(fault.status(), msg, Vec::new()))
    })?;
    json::object(&bytes).map(Value::Object).map_err(|error| wrong(vec![error.into()]))
}

/// Registers a client and creates its session.
#[utoipa::path(post, path = "/api/session/register", tag = "museum", request_body = Register,
    responses((status = 200, body = Registered), Refusals))]
pub(crate) async fn register(
    client: Client,
    payload: web::Payload,
    clients: web::Data<MuseumClients>,
) -> RouteResult {
    let wanted = Register::read(&read(payload).await?).map_err(wrong)?;
    let session = clients.museum.register(wanted, client.0.as_deref()).await.map_err(failure_of)?;
    Ok(HttpResponse::Ok().json(Registered {
        session_id: session.id.to_string(),
        expires_at: session.expires_at,
        server_timestamp: now(),
        supported_features: FEATURES.map(str::to_owned).to_vec(),
    }))
}

/// Extends the client's session.
#[utoipa::path(post, path = "/api/session/heartbeat", tag = "museum", params(("session-id" = String, Header,)),
    responses((status = 200, body = Alive), Refusals))]
pub(crate) async fn heartbeat(
    session: ClientSession,
    clients: web::Data<MuseumClients>,
) -> RouteResult {
    let expires_at = clients.museum.heartbeat(&session.0).await.map_err(failure_of)?;
    let status = "alive".to_owned();
    let timestamp = now();
    let alive = Alive { status, timestamp, session_valid: true, expires_at };
    Ok(HttpResponse::Ok().json(alive))
}

/// Ends the client's session.
#[utoipa::path(delete, path = "/api/session/unregister", tag = "museum", params(("session-id" = String, Header,)),
    responses((status = 200, body = Unregistered), Refusals))]
pub(crate) async fn unregister(
    session: ClientSession,
    clients: web::Data<MuseumClients>,
) -> RouteResult {
    clients.museum.unregister(&session.0).await.map_err(failure_of)?;
    let status = "unregistered".to_owned();
    let timestamp = now();
    let left = Unregistered { status, timestamp, message: "会话已成功注销".into() };
    Ok(HttpResponse::Ok().json(left))
}

/// Returns the client's session.
#[utoipa::path(get, path = "/api/session/info", tag = "museum", params(("session-id" = String, Header,)),
    responses((status = 200, body = SessionInfo), Refusals))]
pub(crate) async fn info(session: ClientSession, clients: web::Data<MuseumClients>) -> RouteResult {
    Ok(HttpResponse::Ok().json(clients.museum.describe(&session.0).await.map_err(failure_of)?))
}

/// Returns statistics; clients use them to check that a server is reachable.
#[utoipa::path(get, path = "/api/session/stats", tag = "museum",
    responses((status = 200, body = Stats), Refusals))]
pub(crate) async fn stats(_: Client, clients: web::Data<MuseumClients>) -> RouteResult {
    Ok(HttpResponse::Ok().json(clients.museum.stats().await.map_err(failure_of)?))
}

/// Answers a user of the client.
#[utoipa::path(post, path = "/api/agent/parse", tag = "museum", params(("session-id" = String, Header,)),
    request_body = ParseRequest,
    responses((status = 200, body = Envelope), Refusals))]
pub(crate) async fn parse(
    session: ClientSession,
    payload: web::Payload,
    clients: web::Data<MuseumClients>,
) -> RouteResult {
    let said = ParseRequest::read(&read(payload).await?).map_err(wrong)?;
    let data = clients.museum.parse(&session.0, said).await.map_err(failure_of)?;
    let envelope = Envelope { code: 200, msg: "success".into(), data: Some(data) };
    Ok(HttpResponse::Ok().json(envelope))
}
