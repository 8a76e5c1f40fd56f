//! REST API of the tool sources that are disabled for one device or one session. Not for the sources themselves.

use actix_web::{HttpResponse, web};
use hearken_cluster::Cluster;
use hearken_ports::Unreachable;
use hearken_proto::fault::Fault;
use hearken_tool_sources::Registry;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::http::AccessControl;
use crate::http::chat_access::session_of;
use crate::http::devices::device_identity::{id_of, no_such_device};
use crate::http::devices::device_orders::{SESSION_TOOLS, Wanted};
use crate::http::devices::session_tools::SessionToolsRequest;
use crate::http::extract::{JsonBody, Operator};
use crate::http::fault::{Faults, Refusal, RouteResult, refusal, store_failed};
use crate::http::request_identity::tidy;
use crate::http::tools::tool_bodies::{DeviceToolsShown, SessionToolsShown};
use crate::http::tools::tools_api::ToolsApi;

/// Path of a device's tools.
pub(crate) const PATH: &str = "/api/devices/{id}/tools";
/// Path of a session's tools.
pub(crate) const OF_SESSION: &str = "/api/sessions/{id}/tools";
/// Maximum number of disabled sources per device or session.
const MAX_OFF: usize = 64;
/// Maximum length of a source's name, in characters.
const MAX_NAME_CHARS: usize = 64;

/// Returns the tool sources of a device, and which of them are disabled.
#[utoipa::path(get, path = "/api/devices/{id}/tools", tag = "devices", params(("id" = String, Path,)),
    responses((status = 200, body = DeviceToolsShown), Faults))]
pub(crate) async fn get(
    _: Operator,
    id: web::Path<String>,
    api: web::Data<ToolsApi>,
    access: web::Data<AccessControl>,
) -> RouteResult {
    let device = access.store.device(&id_of(&id)).await.map_err(|e| store_failed(&e))?;
    let device = device.ok_or_else(no_such_device)?;
    Ok(HttpResponse::Ok().json(DeviceToolsShown::from(api.registry.tools_of(&device))))
}

/// Tool sources to disable.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Off {
    /// Names of the sources, at most 64; `endpoint` stands for all tool clients, `token:SERIAL` for those with this token.
    off: Vec<String>,
}

impl Off {
    /// Returns the names without duplicates. A source of this name need not exist.
    fn checked(self) -> Result<Vec<String>, Refusal> {
        let about = format!("`off` is a list of at most {MAX_OFF} names of sources");
        let wrong = || refusal(Fault::BadRequest, &about);
        let fits = |name: &String| tidy(name, MAX_NAME_CHARS).as_ref() == Some(name);
        if self.off.len() > MAX_OFF || !self.off.iter().all(fits) {
            return Err(wrong());
        }
        let mut off = self.off;
        off.sort();
        off.dedup();
        Ok(off)
    }
}

/// Sets the tool sources that are disabled for a device, from its next turn on.
#[utoipa::path(put, path = "/api/devices/{id}/tools", tag = "devices", params(("id" = String, Path,)),
    request_body = Off,
    responses((status = 200, body = DeviceToolsShown), Faults))]
pub(crate) async fn put(
    _: Operator,
    id: web::Path<String>,
    off: JsonBody<Off>,
    api: web::Data<ToolsApi>,
) -> RouteResult {
    let off = off.0.checked()?;
    let device = api.registry.set_off(&id_of(&id), &off).await;
    let device = device.map_err(|e| store_failed(&e))?.ok_or_else(no_such_device)?;
    Ok(HttpResponse::Ok().json(DeviceToolsShown::from(api.registry.tools_of(&device))))
}

fn no_such_session() -> Refusal {
    refusal(Fault::NotFound, "no session of this id is running")
}

/// Executes a request about a session at this instance, or at the instance with its device.
async fn carried_out(
    registry: &Registry,
    cluster: &Cluster,
    request: SessionToolsRequest,
) -> RouteResult {
    if let Some(tools) = request.carry_out(registry) {
        return Ok(HttpResponse::Ok().json(tools));
    }
    let others = cluster.devices().await;
    let running = others.into_iter().find(|(_, session)| *session == request.session_id);
    let (device, _) = running.ok_or_else(no_such_session)?;
    let Value::Object(body) = json!(request) else { return Err(no_such_session()) };
    let wanted = Wanted { name: SESSION_TOOLS.into(), body };
    match cluster.order(&device, json!(wanted)).await {
        Ok(tools) => Ok(HttpResponse::Ok().json(tools)),
        Err(Unreachable::NotConnected) => Err(no_such_session()),
        Err(Unreachable::Busy | Unreachable::Unconfirmed) => {
            Err(refusal(Fault::Busy, "the instance with the session does not answer"))
        }
    }
}

/// Returns the tool sources of a running session, by the `session_id` of its hello.
#[utoipa::path(get, path = "/api/sessions/{id}/tools", tag = "devices", params(("id" = String, Path,)),
    responses((status = 200, body = SessionToolsShown), Faults))]
pub(crate) async fn get_session(
    _: Operator,
    id: web::Path<String>,
    api: web::Data<ToolsApi>,
    cluster: web::Data<Cluster>,
) -> RouteResult {
    let request = SessionToolsRequest { session_id: session_of(&id), off: None };
    carried_out(&api.registry, &cluster, request).await
}

/// Sets the tool sources that are disabled for a session, from its next turn until its end, instead
/// of those of its device.
#[utoipa::path(put, path = "/api/sessions/{id}/tools", tag = "devices", params(("id" = String, Path,)),
    request_body = Off,
    responses((status = 200, body = SessionToolsShown), Faults))]
pub(crate) async fn put_session(
    _: Operator,
    id: web::Path<String>,
    off: JsonBody<Off>,
    api: web::Data<ToolsApi>,
    cluster: web::Data<Cluster>,
) -> RouteResult {
    let off = Some(off.0.checked()?);
    let request = SessionToolsRequest { session_id: session_of(&id), off };
    carried_out(&api.registry, &cluster, request).await
}
