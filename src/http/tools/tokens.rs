//! REST API of tokens: device tokens, which devices otherwise get from their OTA response, and
//! tokens of tool clients. Every action is written to the audit log. Not for the format of tokens.

use actix_web::{HttpResponse, web};
use hearken_base::{Secret, wall_clock};
use hearken_cluster::Cluster;
use hearken_ports::store::{AuditEntry, MAX_TOOL_TOKENS, SettingsStore, ToolToken};
use hearken_proto::fault::Fault;
use hearken_tool_sources::{DEFAULT_AGENT, MAX_AGENT_BYTES};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::auth::{next_token_at, same};
use crate::http::devices::device_identity::{agent_of, id_of};
use crate::http::devices::device_records::disconnect;
use crate::http::extract::{JsonBody, Operator};
use crate::http::fault::{Faults, Refusal, RouteResult, refusal, store_failed};
use crate::http::params;
use crate::http::request_identity::{Caller, check_named};
use crate::http::{AccessControl, DeviceEndpoint, ToolsApi};

/// Path of the tokens of a device.
pub(crate) const OF_DEVICE: &str = "/api/devices/{id}/tokens";
/// Path of the tokens of tool clients.
pub(crate) const OF_TOOLS: &str = "/api/tools/tokens";
/// Path of the token of one tool client.
pub(crate) const OF_TOOL: &str = "/api/tools/tokens/{serial}";

/// Maximum length of a client id and of a token's name, in characters.
const MAX_CHARS: usize = 64;
/// Number of digits of a serial number.
const SERIAL_DIGITS: usize = 12;

/// Writes an action of this caller to the audit log.
async fn note(
    audit: &web::Data<dyn SettingsStore>,
    by: &Operator,
    what: &str,
    details: Value,
) -> Result<(), Refusal> {
    let at = Timestamp::now();
    let who = by.name().to_owned();
    let what = what.to_owned();
    let entry = AuditEntry { number: 0, at, who, what, details };
    audit.note(&entry).await.map_err(|error| store_failed(&error))
}

/// Validates a field that may be omitted or blank.
fn given(field: &str, text: Option<&str>) -> Result<Option<String>, Refusal> {
    let about = format!("a `{field}` has at most {MAX_CHARS} characters");
    let text = text.map(str::trim).filter(|text| !text.is_empty());
    text.map(|text| params::text_of(text, MAX_CHARS, &about)).transpose()
}

/// Request to create a device token.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenOfDevice {
    /// `Client-Id` of the device, at most 64 characters; if omitted, the known one, else a new one,
    /// which the device must send.
    client_id: Option<String>,
}

/// New device token, which is shown only once.
#[derive(Serialize, ToSchema)]
struct DeviceToken {
    /// Device id.
    device_id: String,
    /// `Client-Id` that the device must send.
    client_id: String,
    /// Bearer token that the device must send.
    token: String,
    /// Expiry time.
    #[schema(value_type = String, format = DateTime)]
    expires: Timestamp,
}

/// Creates a token for a device, as its OTA response does; 409 if devices need no tokens, or if the
/// device belongs to another client.
#[utoipa::path(post, path = "/api/devices/{id}/tokens", tag = "devices", params(("id" = String, Path,)),
    request_body = TokenOfDevice,
    responses((status = 201, body = DeviceToken), Faults))]
pub(crate) async fn make_for_device(
    by: Operator,
    path: web::Path<String>,
    asked: JsonBody<TokenOfDevice>,
    access: web::Data<AccessControl>,
    audit: web::Data<dyn SettingsStore>,
) -> RouteResult {
    let device_id = id_of(&path);
    check_named(&device_id)?;
    let wanted = given("client_id", asked.0.client_id.as_deref())?.map(Secret::new);
    let holder = access.store.token_holder(&device_id).await.map_err(|e| store_failed(&e))?;
    let client_id = match (wanted, holder.client_id) {
        (Some(wanted), Some(own)) if !same(wanted.expose(), own.expose()) => {
            let about = "the device belongs to another client: enter the code of this one, or leave `client_id` out";
            return Err(refusal(Fault::Conflict, about));
        }
        (Some(client), _) => client,
        (None, Some(client)) => {
            let device = access.store.device(&device_id).await.map_err(|e| store_failed(&e))?;
            if let Some(device) = device {
                access.check_recorded_client(&device, Timestamp::now()).await?;
            }
            client
        }
        // An id without a client would be usable by anyone who knows it.
        (None, None) => Secret::new(uuid::Uuid::new_v4().to_string()),
    };
    let at = next_token_at(holder.revoked_until, Timestamp::now());
    let caller = Caller { device_id: device_id.clone(), client_id };
    let (token, expires) = access.auth.mint_for(&caller, at)?;
    // The token replaces the device's code: it binds the device, independent of its network.
    let bound = access.store.confirm(&device_id, &caller.client_id, Timestamp::now()).await;
    if bound.map_err(|e| store_failed(&e))?.is_none() {
        return Err(refusal(Fault::Conflict, "another client just claimed the device: try again"));
    }
    note(&audit, &by, "device token made", json!({"device_id": device_id.as_str()})).await?;
    let client_id = caller.client_id.expose().to_owned();
    let device_id = device_id.as_str().to_owned();
    Ok(HttpResponse::Created().json(DeviceToken { device_id, client_id, token, expires }))
}

/// Revokes all tokens of a device, and ends its connection; the device may request another token.
#[utoipa::path(delete, path = "/api/devices/{id}/tokens", tag = "devices", params(("id" = String, Path,)),
    responses((status = 204), Faults))]
pub(crate) async fn revoke_of_device(
    by: Operator,
    path: web::Path<String>,
    access: web::Data<AccessControl>,
    device_endpoint: web::Data<DeviceEndpoint>,
    cluster: web::Data<Cluster>,
    audit: web::Data<dyn SettingsStore>,
) -> RouteResult {
    let id = id_of(&path);
    let revoked = access.store.revoke_tokens(&id, wall_clock::dates().latest).await;
    revoked.map_err(|error| store_failed(&error))?;
    disconnect(&cluster, &device_endpoint, &id).await?;
    note(&audit, &by, "device tokens revoked", json!({"device_id": id.as_str()})).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Token of a tool client, without its text.
#[derive(Serialize, ToSchema)]
struct ToolTokenShown {
    /// Serial number of the token.
    serial: String,
    /// Agent of the tool client; empty if the token was created by a command.
    agent: String,
    /// Name of the token; empty for none.
    name: String,
    /// Creation time; null if the token was created by a command.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    made: Option<Timestamp>,
    /// Name of its creator; empty if the token was created by a command.
    made_by: String,
    /// Revocation time; null while the token is valid.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    revoked: Option<Timestamp>,
}

impl From<ToolToken> for ToolTokenShown {
    fn from(token: ToolToken) -> Self {
        let ToolToken { serial, agent, name, made, made_by, revoked } = token;
        Self { serial, agent, name, made, made_by, revoked }
    }
}

/// Tokens of tool clients.
#[derive(Serialize, ToSchema)]
struct ToolTokens {
    /// Tokens that were created over the API or are revoked, newest first.
    tokens: Vec<ToolTokenShown>,
}

/// Lists the tokens of tool clients; those created by a command are listed once they are revoked.
#[utoipa::path(get, path = "/api/tools/tokens", tag = "tools",
    responses((status = 200, body = ToolTokens), Faults))]
pub(crate) async fn list(_: Operator, api: web::Data<ToolsApi>) -> RouteResult {
    let tokens = api.registry.tool_tokens().await.map_err(|error| store_failed(&error))?;
    let tokens = tokens.into_iter().map(ToolTokenShown::from).collect();
    Ok(HttpResponse::Ok().json(ToolTokens { tokens }))
}

/// Request to create a token of a tool client.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToolToken {
    /// Agent of the tool client, at most 64 bytes; `default` if omitted.
    agent: Option<String>,
    /// Name to identify the token, at most 64 characters.
    name: Option<String>,
}

/// New token of a tool client, which is shown only once.
#[derive(Serialize, ToSchema)]
struct MadeToolToken {
    /// Token that the client sends as bearer token, or as `token` in the query of `/mcp_endpoint/mcp/`.
    token: String,
    #[serde(flatten)]
    shown: ToolTokenShown,
}

/// Creates a token for a tool client; it is valid until it is revoked.
#[utoipa::path(post, path = "/api/tools/tokens", tag = "tools", request_body = NewToolToken,
    responses((status = 201, body = MadeToolToken), Faults))]
pub(crate) async fn make_for_tools(
    by: Operator,
    asked: JsonBody<NewToolToken>,
    api: web::Data<ToolsApi>,
    audit: web::Data<dyn SettingsStore>,
) -> RouteResult {
    let NewToolToken { agent, name } = asked.0;
    let agent = agent_of(agent.as_deref().unwrap_or(DEFAULT_AGENT))?;
    let name = given("name", name.as_deref())?.unwrap_or_default();
    let about = format!("an agent's name has 1 to {MAX_AGENT_BYTES} bytes");
    let made = api.agents.mint(&agent);
    let (token, serial) = made.ok_or_else(|| refusal(Fault::BadRequest, &about))?;
    let made = Some(Timestamp::now());
    let made_by = by.name().to_owned();
    let stored = ToolToken { serial, agent, name, made, made_by, revoked: None };
    full_unless(api.registry.add_tool_token(&stored).await.map_err(|e| store_failed(&e))?)?;
    let details = json!({"serial": stored.serial, "agent": stored.agent, "name": stored.name});
    note(&audit, &by, "tool token made", details).await?;
    Ok(HttpResponse::Created().json(MadeToolToken { token, shown: stored.into() }))
}

/// Revokes the token of a tool client permanently, and ends its connections; also for tokens created by a command.
#[utoipa::path(delete, path = "/api/tools/tokens/{serial}", tag = "tools", params(("serial" = String, Path,)),
    responses((status = 204), Faults))]
pub(crate) async fn revoke_of_tools(
    by: Operator,
    serial: web::Path<String>,
    api: web::Data<ToolsApi>,
    audit: web::Data<dyn SettingsStore>,
) -> RouteResult {
    let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    if serial.len() != SERIAL_DIGITS || !serial.bytes().all(is_digit) {
        return Err(refusal(Fault::NotFound, "a serial has 12 digits, 0 to 9 and a to f"));
    }
    let revoked = api.registry.revoke_tool_token(&serial, Timestamp::now()).await;
    full_unless(revoked.map_err(|error| store_failed(&error))?)?;
    note(&audit, &by, "tool token revoked", json!({"serial": *serial})).await?;
    Ok(HttpResponse::NoContent().finish())
}

fn full_unless(has_room: bool) -> Result<(), Refusal> {
    let about = format!(
        "there are {MAX_TOOL_TOKENS} tokens of tool clients, the maximum: `tools.revoked_tokens` revokes more"
    );
    if has_room { Ok(()) } else { Err(refusal(Fault::Conflict, &about)) }
}
