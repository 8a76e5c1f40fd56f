//! A device's handshake: who it is, whether there is room, and its socket actor.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};
use hearken_actors::device::Visitor;
use hearken_actors::pipeline::Pipeline;
use hearken_actors::ws_link;
use hearken_proto::device::Framing;
use hearken_proto::fault::Fault;
use hearken_proto::ids::DeviceId;
use tokio::sync::Semaphore;

use super::fault::answer;
use crate::recorder::{Recorder, RecordingMeta};

/// Longest id that a device may give; a MAC address has 17 characters.
const MAX_ID_CHARS: usize = 64;

/// Lets devices in.
#[derive(Clone)]
pub struct Doorman {
    /// Makes their actors.
    pub pipeline: Pipeline,
    /// One place a connection.
    pub places: Arc<Semaphore>,
    /// Records their sessions, where that is on.
    pub recorder: Option<Arc<Recorder>>,
}

/// `GET /xiaozhi/v1/`: the WebSocket of a device. `Device-Id`, `Client-Id` and
/// `Protocol-Version` come as headers, or as query parameters from clients that cannot set any.
pub(super) async fn connect(
    request: HttpRequest,
    payload: web::Payload,
    doorman: web::Data<Doorman>,
) -> Result<HttpResponse, actix_web::Error> {
    let Ok(place) = Arc::clone(&doorman.places).try_acquire_owned() else {
        return Ok(answer(Fault::Busy, "too many devices are connected"));
    };
    // Who gives no id is still one device: another without one does not replace it.
    let device_id = given(&request, "device-id").map_or_else(
        || format!("unknown-{}", uuid::Uuid::new_v4().simple()),
        |id| id.to_lowercase(),
    );
    let version = given(&request, "protocol-version").and_then(|v| v.parse().ok()).unwrap_or(1);
    let meta = RecordingMeta {
        device_id: Some(device_id.clone()),
        client_id: given(&request, "client-id"),
        framing: version,
    };
    let visitor = Visitor {
        device_id: DeviceId::new(device_id),
        framing: Framing::from_version(version),
        tap: doorman.recorder.as_ref().map(|r| r.tap(meta)),
        notice: None,
        place: Some(place),
    };
    match ws_link::upgrade(doorman.pipeline.device(visitor), &request, payload) {
        Ok(response) => Ok(response),
        Err(_) => Ok(answer(Fault::BadRequest, "this address speaks WebSocket only")),
    }
}

/// A header, else the query parameter of the same name.
fn given(request: &HttpRequest, name: &str) -> Option<String> {
    let header = request.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let query = || {
        url::form_urlencoded::parse(request.query_string().as_bytes())
            .find(|(k, _)| k.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.into_owned())
    };
    let text = header.or_else(query)?;
    let text: String = text.trim().chars().filter(|c| !c.is_control()).take(MAX_ID_CHARS).collect();
    (!text.is_empty()).then_some(text)
}
