//! REST API of the administrator: login, settings, sessions of museum clients, statistics and the
//! audit log. Not for the logic behind them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use actix_web::{HttpRequest, HttpResponse, web};
use hearken_ports::store::{AuditEntry, ListedMuseumSession};
use hearken_proto::fault::Fault;
use hearken_proto::ids::SessionId;
use hearken_providers::LlmFigures;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::admin::{ChangeError, LoginError, Source, TokenPair};
use crate::config::names;
use crate::http::ToolsApi;
use crate::http::admin_access::{Admin, Attempt, Figures, not_logged_in};
use crate::http::extract::{AdminSession, JsonBody};
use crate::http::fault::{Faults, Refusal, RouteResult, refusal, store_failed};
use crate::http::middleware::traffic::TrafficShown;
use crate::http::middleware::{address_of, middleware_state};
use crate::http::params;
use crate::http::request_identity::json as json_body;

/// Default page size.
const PAGE: u32 = 50;
/// Maximum page size.
const MAX_PAGE: u32 = 500;
/// Settings that name a role.
const ROLES: [&str; 2] = ["chat.role", "gateway.role"];

/// Renders all changeable settings by section, with the source of each value.
fn shown(admin: &Admin) -> HttpResponse {
    let mut settings: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    let mut sources = BTreeMap::new();
    for (key, value, source) in admin.settings.shown() {
        let (section, field) = key.split_once('.').unwrap_or(("", key));
        settings.entry(section).or_default().insert(field, value);
        sources.insert(key, source);
    }
    let unusable = admin.settings.unusable();
    HttpResponse::Ok().json(SettingsShown { settings, sources, unusable })
}

/// Credentials for a login.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct LogIn {
    /// Name: `admin`, or that of an account.
    username: String,
    /// Password. For `admin`: `admin.password`, else the password that was set, else the admin token.
    password: String,
}

/// Logs in with a name and a password, and returns a token pair.
#[utoipa::path(post, path = "/api/admin/login", tag = "administrator", request_body = LogIn,
    responses((status = 200, body = TokenPair), Faults))]
pub(crate) async fn log_in(
    request: HttpRequest,
    payload: web::Payload,
    admin: web::Data<Admin>,
) -> RouteResult {
    admin.attempt(&request, Attempt::LogIn).await?;
    let LogIn { username, password } = json_body(payload).await?;
    let from = address_of(&request);
    let pair = admin.admin_sessions.log_in(&username, &password, &from, Timestamp::now()).await;
    let pair = pair.map_err(|error| {
        if matches!(error, LoginError::Wrong) {
            tracing::warn!(from, "refused a log-in");
        }
        not_logged_in(&error)
    })?;
    Ok(HttpResponse::Ok().insert_header(("cache-control", "no-store")).json(pair))
}

/// Refresh token to exchange for a new token pair.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Refresh {
    /// Refresh token of the last pair; single-use.
    refresh_token: String,
}

/// Exchanges a refresh token for a new token pair.
#[utoipa::path(post, path = "/api/admin/refresh", tag = "administrator", request_body = Refresh,
    responses((status = 200, body = TokenPair), Faults))]
pub(crate) async fn refresh(
    request: HttpRequest,
    payload: web::Payload,
    admin: web::Data<Admin>,
) -> RouteResult {
    admin.attempt(&request, Attempt::Refresh).await?;
    let Refresh { refresh_token } = json_body(payload).await?;
    let pair =
        admin.admin_sessions.refresh(&refresh_token, &address_of(&request), Timestamp::now()).await;
    let pair = pair.map_err(|error| not_logged_in(&error))?;
    Ok(HttpResponse::Ok().insert_header(("cache-control", "no-store")).json(pair))
}

/// Ends the session of the access token.
#[utoipa::path(post, path = "/api/admin/logout", tag = "administrator",
    responses((status = 204), Faults))]
pub(crate) async fn log_out(
    session: AdminSession,
    request: HttpRequest,
    admin: web::Data<Admin>,
) -> RouteResult {
    let left =
        admin.admin_sessions.log_out(&session.0, &address_of(&request), Timestamp::now()).await;
    left.map_err(|error| store_failed(&error))?;
    Ok(HttpResponse::NoContent().finish())
}

/// Settings that can change while the server runs.
#[derive(Serialize, ToSchema)]
struct SettingsShown {
    /// Values by section and field.
    #[schema(value_type = BTreeMap<String, BTreeMap<String, Value>>)]
    settings: BTreeMap<&'static str, BTreeMap<&'static str, Value>>,
    /// Sources of the values by name, such as `llm.model`.
    #[schema(value_type = BTreeMap<String, Source>)]
    sources: BTreeMap<&'static str, Source>,
    /// Settings that were changed at run time and cannot be used any more, by name, with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unusable: BTreeMap<String, String>,
}

/// Settings to change, by section and field (`{"llm": {"model": "x"}}`) or by name (`{"llm.model":
/// "x"}`); `null` restores the configured value.
#[derive(Deserialize, ToSchema)]
pub(crate) struct SettingsChange(Map<String, Value>);

/// Returns the changeable settings, with the source of each value.
#[utoipa::path(get, path = "/api/admin/config", tag = "administrator",
    responses((status = 200, body = SettingsShown), Faults))]
pub(crate) async fn config(_: AdminSession, admin: web::Data<Admin>) -> HttpResponse {
    shown(&admin)
}

/// Changes the given settings; all others stay as they are.
#[utoipa::path(method(put, patch), path = "/api/admin/config", tag = "administrator",
    request_body = SettingsChange,
    responses((status = 200, body = SettingsShown), Faults))]
pub(crate) async fn change(
    session: AdminSession,
    body: JsonBody<SettingsChange>,
    admin: web::Data<Admin>,
    tools: web::Data<ToolsApi>,
) -> RouteResult {
    let wanted = flat(body.0.0)?;
    if wanted.is_empty() {
        return Err(refusal(Fault::BadRequest, "name at least one setting"));
    }
    known_roles(&wanted, &admin, &tools).await?;
    let change = admin.settings.change(&wanted, &session.0.who, Timestamp::now());
    change.await.map_err(|error| match &error {
        ChangeError::Environment(_) => refusal(Fault::Conflict, &error.to_string()),
        ChangeError::Store(error) => store_failed(error),
        _ => refusal(Fault::BadRequest, &error.to_string()),
    })?;
    Ok(shown(&admin))
}

/// Checks that the roles among these settings exist. A role that is set already may be gone.
async fn known_roles(
    wanted: &BTreeMap<String, Value>,
    admin: &Admin,
    tools: &ToolsApi,
) -> Result<(), Refusal> {
    for (name, value) in wanted {
        let key = names::resolve(name).path;
        let called = value.as_str().unwrap_or_default();
        let is_set =
            || admin.settings.shown().iter().any(|(set, now, _)| *set == key && now == value);
        if called.is_empty() || !ROLES.contains(&key.as_str()) || is_set() {
            continue;
        }
        let roles = tools.registry.roles().await.map_err(|error| store_failed(&error))?;
        if !roles.iter().any(|role| role.role_id == called || role.name == called) {
            let about = format!(
                "`{key}` is neither the id nor the name of a role: list them with `GET /api/roles`"
            );
            return Err(refusal(Fault::BadRequest, &about));
        }
    }
    Ok(())
}

/// Flattens settings to dotted names: `{"llm": {"model": "x"}}` and `{"llm.model": "x"}` are
/// equivalent, and only one of them may be given. A setting may itself be a table.
fn flat(body: Map<String, Value>) -> Result<BTreeMap<String, Value>, Refusal> {
    let mut wanted = BTreeMap::new();
    let mut put = |name: String, value| match wanted.entry(name) {
        Entry::Vacant(place) => {
            place.insert(value);
            Ok(())
        }
        Entry::Occupied(place) => {
            Err(refusal(Fault::BadRequest, &format!("`{}` is given twice", place.key())))
        }
    };
    for (name, value) in body {
        match value {
            // Names of sections contain no dots: this is a setting that is a table.
            Value::Object(section) if !name.contains('.') => {
                let mut fields = section.into_iter();
                fields.try_for_each(|(field, value)| put(format!("{name}.{field}"), value))?;
            }
            value => put(name, value)?,
        }
    }
    Ok(wanted)
}

fn limit(request: &HttpRequest) -> Result<u32, Refusal> {
    let limit = params::number(request, "limit", 1..=MAX_PAGE, Fault::BadRequest)?;
    Ok(limit.unwrap_or(PAGE))
}

/// Session of a museum client, without its dialogue.
#[derive(Serialize, ToSchema)]
struct MuseumSessionShown {
    /// Metadata that the client sent about itself.
    #[schema(value_type = Object)]
    client_metadata: Value,
    /// Creation time.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Expiry time.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// Number of the client's functions.
    functions: u64,
    /// Session id.
    id: String,
    /// Always `museum`.
    kind: &'static str,
    /// Time of the last request.
    #[schema(value_type = String, format = DateTime)]
    last_used_at: Timestamp,
    /// Number of messages in its dialogue.
    messages: u64,
    /// Number of requests so far.
    requests: i64,
}

impl From<ListedMuseumSession> for MuseumSessionShown {
    fn from(session: ListedMuseumSession) -> Self {
        Self {
            client_metadata: session.metadata,
            created_at: session.created_at,
            expires_at: session.expires_at,
            functions: session.functions,
            id: session.id.as_str().to_owned(),
            kind: "museum",
            last_used_at: session.last_used_at,
            messages: session.messages,
            requests: session.requests,
        }
    }
}

/// Page of sessions of museum clients.
#[derive(Serialize, ToSchema)]
struct MuseumSessions {
    /// Maximum number of sessions in this page.
    limit: u32,
    /// Number of sessions before this page.
    offset: u32,
    /// Sessions, most recently used first.
    sessions: Vec<MuseumSessionShown>,
    /// Total number of sessions.
    total: u64,
}

/// Lists the sessions of museum clients, most recently used first.
#[utoipa::path(get, path = "/api/admin/sessions", tag = "administrator",
    params(("offset" = Option<u32>, Query,), ("limit" = Option<u32>, Query, minimum = 1, maximum = 500)),
    responses((status = 200, body = MuseumSessions), Faults))]
pub(crate) async fn sessions(
    _: AdminSession,
    request: HttpRequest,
    admin: web::Data<Admin>,
) -> RouteResult {
    let offset = params::number(&request, "offset", 0..=u32::MAX, Fault::BadRequest)?;
    let offset = offset.unwrap_or(0);
    let limit = limit(&request)?;
    let listed = admin.museum.sessions(offset, limit).await;
    let (sessions, total) = listed.map_err(|error| store_failed(&error))?;
    let sessions = sessions.into_iter().map(MuseumSessionShown::from).collect();
    Ok(HttpResponse::Ok().json(MuseumSessions { limit, offset, sessions, total }))
}

/// Ends the session of a museum client.
#[utoipa::path(delete, path = "/api/admin/sessions/{id}", tag = "administrator", params(("id" = String, Path,)),
    responses((status = 204), Faults))]
pub(crate) async fn end_session(
    session: AdminSession,
    request: HttpRequest,
    path: web::Path<String>,
    admin: web::Data<Admin>,
) -> RouteResult {
    let id = SessionId::new(path.into_inner());
    let ended = admin.museum.end(&id).await.map_err(|error| store_failed(&error))?;
    if !ended {
        return Err(refusal(Fault::NotFound, "no such session"));
    }
    let entry = AuditEntry {
        number: 0,
        at: Timestamp::now(),
        who: session.0.who,
        what: "session ended".into(),
        details: json!({"session_id": id.as_str(), "kind": "museum", "from": address_of(&request)}),
    };
    admin.store.note(&entry).await.map_err(|error| store_failed(&error))?;
    Ok(HttpResponse::NoContent().finish())
}

/// Server statistics.
#[derive(Serialize, ToSchema)]
struct AdminMetrics {
    /// Number of connected devices.
    devices: usize,
    /// Request statistics; omitted if requests are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    http: Option<TrafficShown>,
    /// Usage of the language models, by frontend.
    #[schema(value_type = BTreeMap<String, LlmFigures>)]
    llm: BTreeMap<&'static str, LlmFigures>,
    /// Number of sessions of museum clients.
    museum_sessions: u64,
    /// Number of connected text clients.
    text_clients: usize,
}

/// Returns statistics: connections, sessions, model usage, and requests by route with their outcomes and durations.
#[utoipa::path(get, path = "/api/admin/metrics", tag = "administrator",
    responses((status = 200, body = AdminMetrics), Faults))]
pub(crate) async fn metrics(
    _: AdminSession,
    request: HttpRequest,
    admin: web::Data<Admin>,
) -> RouteResult {
    let Figures { devices, text_clients, llm } = (admin.figures)();
    let listed = admin.museum.sessions(0, 0).await;
    let (_, museum_sessions) = listed.map_err(|error| store_failed(&error))?;
    let http = middleware_state(&request).map(|state| state.traffic().shown());
    let told = AdminMetrics { devices, http, llm, museum_sessions, text_clients };
    Ok(HttpResponse::Ok().json(told))
}

/// Entry of the audit log.
#[derive(Serialize, ToSchema)]
struct AuditShown {
    /// Time of the action.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// Details, such as old and new values; contains no secrets.
    #[schema(value_type = Object)]
    details: Value,
    /// Number of the entry, in chronological order.
    number: i64,
    /// Name of the action.
    what: String,
    /// Name of the user who did it.
    who: String,
}

impl From<AuditEntry> for AuditShown {
    fn from(AuditEntry { number, at, who, what, details }: AuditEntry) -> Self {
        Self { at, details, number, what, who }
    }
}

/// Page of the audit log.
#[derive(Serialize, ToSchema)]
struct AuditPage {
    /// Entries, newest first.
    entries: Vec<AuditShown>,
    /// Value of `before` for the next page; null on the last page.
    #[schema(required)]
    next: Option<i64>,
}

impl AuditPage {
    /// Builds a page of at most `limit` of these entries. If there are more, another page follows.
    fn of(mut entries: Vec<AuditEntry>, limit: usize) -> Self {
        let is_last = entries.len() <= limit;
        entries.truncate(limit);
        let next = entries.last().map(|entry| entry.number).filter(|_| !is_last);
        Self { entries: entries.into_iter().map(AuditShown::from).collect(), next }
    }
}

/// Lists the entries of the audit log, newest first.
#[utoipa::path(get, path = "/api/admin/audit", tag = "administrator",
    params(("before" = Option<i64>, Query,), ("limit" = Option<u32>, Query, minimum = 1, maximum = 500)),
    responses((status = 200, body = AuditPage), Faults))]
pub(crate) async fn audit(
    _: AdminSession,
    request: HttpRequest,
    admin: web::Data<Admin>,
) -> RouteResult {
    let before = params::number(&request, "before", 1..=i64::MAX, Fault::BadRequest)?;
    let limit = limit(&request)?;
    // One entry more tells whether there is another page.
    let entries = admin.store.audit(before, limit + 1).await.map_err(|e| store_failed(&e))?;
    Ok(HttpResponse::Ok()
        .json(AuditPage::of(entries, usize::try_from(limit).unwrap_or(usize::MAX))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_page_with_another_after_it_has_a_next_one() {
        let entry = |number| AuditEntry {
            number,
            at: Timestamp::UNIX_EPOCH,
            who: "anna".into(),
            what: "a change".into(),
            details: Value::Null,
        };
        for (found, shown, next) in [(0, 0, None), (1, 1, None), (2, 2, None), (3, 2, Some(2))] {
            let page = AuditPage::of((1..=found).map(entry).collect(), 2);
            assert_eq!((page.entries.len(), page.next), (shown, next), "{found}");
        }
    }
}
