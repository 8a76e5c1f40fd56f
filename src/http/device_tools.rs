//! Which sources of tools one device's conversations have, or one session, for people. Not for the
//! sources themselves.

use actix_web::{HttpRequest, HttpResponse, web};
use hearken_proto::fault::Fault;
use serde::Deserialize;
use utoipa::ToSchema;

use super::AccessControl;
use super::chat::session_of;
use super::devices::{id_of, no_such_device};
use super::fault::{Faults, Refusal, refusal, rendered, store_failed};
use super::request_identity::{json as json_body, tidy};
use super::tools_api::ToolsApi;

/// Where they are.
pub(super) const PATH: &str = "/api/devices/{id}/tools";
/// Where those of a running session are.
pub(super) const OF_SESSION: &str = "/api/sessions/{id}/tools";
/// Most sources that a device or session goes without.
const MAX_OFF: usize = 64;
/// Longest name of a source.
const MAX_NAME_CHARS: usize = 64;

/// `GET /api/devices/{id}/tools`.
#[utoipa::path(get, path = "/api/devices/{id}/tools", tag = "devices", params(("id" = String, Path,)),
    responses((status = 200, body = Object), Faults))]
pub(super) async fn get(
    request: HttpRequest,
    id: web::Path<String>,
    desk: web::Data<ToolsApi>,
    access: web::Data<AccessControl>,
) -> HttpResponse {
    let shown = async {
        access.auth.admin(&request)?;
        let device = access.store.device(&id_of(&id)).await.map_err(|e| store_failed(&e))?;
        let device = device.ok_or_else(no_such_device)?;
        Ok(HttpResponse::Ok().json(desk.registry.tools_of(&device)))
    };
    rendered(shown.await)
}

/// What `put` wants.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Off {
    off: Vec<String>,
}

impl Off {
    /// The names, each once; a name may be of a source that is not there now.
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

/// `PUT /api/devices/{id}/tools` with `{"off": [..]}`: the names of the sources that the device
/// goes without from its next turn on; `endpoint` stands for all tool clients.
#[utoipa::path(put, path = "/api/devices/{id}/tools", tag = "devices", params(("id" = String, Path,)),
    request_body = Off,
    responses((status = 200, body = Object), Faults))]
pub(super) async fn put(
    request: HttpRequest,
    id: web::Path<String>,
    payload: web::Payload,
    desk: web::Data<ToolsApi>,
    access: web::Data<AccessControl>,
) -> HttpResponse {
    let changed = async {
        access.auth.admin(&request)?;
        let off = json_body::<Off>(payload).await?.checked()?;
        let device = desk.registry.set_off(&id_of(&id), &off).await;
        let device = device.map_err(|e| store_failed(&e))?.ok_or_else(no_such_device)?;
        Ok(HttpResponse::Ok().json(desk.registry.tools_of(&device)))
    };
    rendered(changed.await)
}

fn no_such_session() -> Refusal {
    refusal(Fault::NotFound, "no session of this id is running")
}

/// `GET /api/sessions/{id}/tools`, by the `session_id` of the hello.
#[utoipa::path(get, path = "/api/sessions/{id}/tools", tag = "devices", params(("id" = String, Path,)),
    responses((status = 200, body = Object), Faults))]
pub(super) async fn get_session(
    request: HttpRequest,
    id: web::Path<String>,
    desk: web::Data<ToolsApi>,
    access: web::Data<AccessControl>,
) -> HttpResponse {
    let shown = || {
        access.auth.admin(&request)?;
        let tools = desk.registry.tools_of_session(&session_of(&id));
        Ok(HttpResponse::Ok().json(tools.ok_or_else(no_such_session)?))
    };
    rendered(shown())
}

/// `PUT /api/sessions/{id}/tools` with `{"off": [..]}`: the names of the sources that the session
/// goes without from its next turn on and until it ends, in place of its device's.
#[utoipa::path(put, path = "/api/sessions/{id}/tools", tag = "devices", params(("id" = String, Path,)),
    request_body = Off,
    responses((status = 200, body = Object), Faults))]
pub(super) async fn put_session(
    request: HttpRequest,
    id: web::Path<String>,
    payload: web::Payload,
    desk: web::Data<ToolsApi>,
    access: web::Data<AccessControl>,
) -> HttpResponse {
    let changed = async {
        access.auth.admin(&request)?;
        let off = json_body::<Off>(payload).await?.checked()?;
        let tools = desk.registry.set_session_off(&session_of(&id), off);
        Ok(HttpResponse::Ok().json(tools.ok_or_else(no_such_session)?))
    };
    rendered(changed.await)
}
