//! REST API of passwords: setting the administrator's first one with a code, and changing one's own. Not for logins.

use actix_web::{HttpRequest, HttpResponse, web};
use hearken_proto::fault::Fault;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::admin::password::{PasswordState, RULE, is_acceptable};
use crate::admin::sessions::USERNAME;
use crate::admin::{AdminSessions, LoginError, TokenPair};
use crate::http::admin_access::{Admin, Attempt, not_logged_in};
use crate::http::extract::{AdminSession, Near};
use crate::http::fault::{Faults, Refusal, RouteResult, refusal, store_failed};
use crate::http::middleware::address_of;
use crate::http::request_identity::json as json_body;

/// Path for setting the first password.
pub(crate) const SETUP: &str = "/api/admin/setup";

/// Source of the administrator's password.
#[derive(Serialize, ToSchema)]
struct SetupShown {
    /// `none` while the admin token logs in, `set` if a password was set, `configured` if `admin.password` is.
    password: PasswordState,
}

/// Request to set the first password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct First {
    /// Code from the server's log.
    code: String,
    /// New password, 8 to 128 characters, without spaces at its ends.
    password: String,
}

/// Request to change the password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PasswordChange)]
struct Change {
    /// Current password, or the admin token if no password is set.
    current: String,
    /// New password, 8 to 128 characters, without spaces at its ends.
    password: String,
}

pub(crate) fn checked(password: &str) -> Result<(), Refusal> {
    is_acceptable(password).then_some(()).ok_or_else(|| refusal(Fault::BadRequest, RULE))
}

fn logged_in(pair: Result<TokenPair, LoginError>) -> RouteResult {
    let pair = pair.map_err(|error| not_logged_in(&error))?;
    Ok(HttpResponse::Ok().insert_header(("cache-control", "no-store")).json(pair))
}

/// Returns whether the administrator's password is set; open to clients in private networks.
#[utoipa::path(get, path = "/api/admin/setup", tag = "administrator",
    responses((status = 200, body = SetupShown), Faults))]
pub(crate) async fn state(_: Near, admin: web::Data<Admin>) -> RouteResult {
    let password = password_state(&admin.admin_sessions).await?;
    Ok(HttpResponse::Ok().json(SetupShown { password }))
}

async fn password_state(sessions: &AdminSessions) -> Result<PasswordState, Refusal> {
    let credential = sessions.passwords().credential().await;
    Ok(credential.map_err(|error| store_failed(&error))?.state())
}

/// Sets the first password with the code from the server's log, and logs in.
#[utoipa::path(post, path = "/api/admin/setup", tag = "administrator", request_body = First,
    responses((status = 200, body = TokenPair), Faults))]
pub(crate) async fn choose_first(
    near: Option<Near>,
    request: HttpRequest,
    payload: web::Payload,
    admin: web::Data<Admin>,
) -> RouteResult {
    admin.attempt(&request, Attempt::Setup).await?;
    let First { code, password } = json_body(payload).await?;
    checked(&password)?;
    let from = address_of(&request);
    let sessions = &admin.admin_sessions;
    if !admin.setup_code.is(&code) {
        // Only clients that may request it at `state` learn whether a password is set.
        if near.is_some() && password_state(sessions).await? != PasswordState::None {
            return Err(not_logged_in(&LoginError::HasPassword));
        }
        tracing::warn!(from, "refused a wrong code for the first password");
        let about = "the code is wrong or expired: find it in the server's log, or restart the \
                     server for a new one";
        return Err(refusal(Fault::Unauthorized, about));
    }
    let pair = sessions.choose_first(&password, &from, Timestamp::now()).await;
    if pair.is_ok() {
        admin.setup_code.end();
        tracing::info!(from, "chose the first password of the administrator");
    }
    logged_in(pair)
}

/// Changes the password of the current user, and ends all their other sessions.
#[utoipa::path(post, path = "/api/admin/password", tag = "administrator", request_body = Change,
    responses((status = 200, body = TokenPair), Faults))]
pub(crate) async fn change(
    session: AdminSession,
    request: HttpRequest,
    payload: web::Payload,
    admin: web::Data<Admin>,
) -> RouteResult {
    admin.attempt(&request, Attempt::Password).await?;
    let Change { current, password } = json_body(payload).await?;
    checked(&password)?;
    let from = address_of(&request);
    let now = Timestamp::now();
    let who = session.0.who.as_str();
    let pair = admin.admin_sessions.change_password(who, &current, &password, &from, now).await;
    if pair.is_ok() && who == USERNAME {
        admin.setup_code.end();
        tracing::info!(from, "changed the password of the administrator");
    }
    logged_in(pair)
}
