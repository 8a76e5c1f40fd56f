//! Orders to a connected device, at whichever instance it is connected: show, say or do something.
//! Not for the execution of orders.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpResponse, web};
use hearken_actors::device_registry::DeviceRegistry;
use hearken_actors::messages::DeviceOrder;
use hearken_cluster::{Cluster, OrderHandler};
use hearken_ports::Unreachable;
use hearken_ports::store::DeviceStore;
use hearken_proto::chat::Done;
use hearken_proto::device::{Downlink, Emotion, SystemCommand};
use hearken_proto::fault::Fault;
use hearken_proto::ids::DeviceId;
use hearken_proto::json;
use hearken_tool_sources::Registry;
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::http::devices::device_identity::{id_of, no_such_device};
use crate::http::devices::session_tools::requested;
use crate::http::devices::status_tool::ask;
use crate::http::extract::Operator;
use crate::http::fault::{Faults, Refusal, RouteResult, refusal, store_failed};
use crate::http::params;
use crate::http::request_identity::json as json_body;
use crate::http::{AccessControl, DeviceEndpoint};

/// Polling interval for revocations by other instances.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);
/// Maximum difference between the clocks of instances.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_secs(10);
/// Time by which a connection must be newer than a revocation to stay open.
const SPARED: SignedDuration = SignedDuration::from_secs(1);
/// Maximum length of an alert's texts, in characters; displays are small.
const MAX_ALERT_CHARS: usize = 500;
/// Maximum length of a text to speak, in characters.
const MAX_SAY_CHARS: usize = 2_000;

/// Sends an order to a connected device: `alert`, `say`, `custom`, `reboot` or `close`.
#[utoipa::path(post, path = "/api/devices/{id}/{order}", tag = "devices", params(("id" = String, Path,), ("order" = String, Path, description = "alert, say, reboot, custom or close")),
    request_body = Option<OrderFields>,
    responses((status = 202, body = Done), Faults))]
pub(crate) async fn order(
    _: Operator,
    path: web::Path<(String, String)>,
    payload: web::Payload,
    access: web::Data<AccessControl>,
    device_endpoint: web::Data<DeviceEndpoint>,
    cluster: web::Data<Cluster>,
) -> RouteResult {
    let id = id_of(&path.0);
    let wanted = Wanted::read(&path.1, payload).await?;
    match passed_on(&cluster, &device_endpoint, &id, wanted).await? {
        Ok(()) => Ok(HttpResponse::Accepted().json(Done { message: "passed on".into() })),
        Err(Unreachable::Busy) => {
            Err(refusal(Fault::Busy, "the device has too many orders waiting"))
        }
        // Not to be repeated by itself: a sentence would be spoken twice, or a device restarted twice.
        Err(error @ Unreachable::Unconfirmed) => Err(refusal(Fault::Conflict, &error.to_string())),
        Err(Unreachable::NotConnected) => Err(away(&access, &id).await),
    }
}

/// Internal order that disconnects a device after its tokens were revoked; not available over the API.
const FORGET: &str = " forget";

/// Internal order that requests a device's status; not available over the API.
pub(crate) const STATUS: &str = " status";

/// Internal order that queries or changes the tool sources of a device's session; not available
/// over the API.
pub(crate) const SESSION_TOOLS: &str = " session tools";

/// Requested order: its name and parameters.
#[derive(Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) body: Map<String, Value>,
}

impl Wanted {
    async fn read(name: &str, payload: web::Payload) -> Result<Self, Refusal> {
        let body = match name {
            "alert" | "say" | "custom" => json_body(payload).await?,
            FORGET => return Err(unknown()),
            _ => Map::new(),
        };
        Ok(Self { name: name.to_owned(), body })
    }
}

/// Disconnects a device after its tokens were revoked, if it is connected.
pub(crate) async fn revoked(
    cluster: &Cluster,
    device_endpoint: &DeviceEndpoint,
    id: &DeviceId,
) -> Result<Result<(), Unreachable>, Refusal> {
    passed_on(cluster, device_endpoint, id, Wanted { name: FORGET.into(), body: Map::new() }).await
}

/// Ends the connections of this instance's devices whose tokens another instance has revoked, even
/// if the instances cannot reach each other. Never returns.
pub async fn follow_revocations(store: Arc<dyn DeviceStore>, device_registry: DeviceRegistry) {
    let mut ticks = tokio::time::interval(FOLLOW_EVERY);
    let mut seen = Timestamp::now();
    let mut done = HashSet::new();
    loop {
        ticks.tick().await;
        // The clocks of the instances differ slightly.
        let after = seen.saturating_sub(CLOCKS_DIFFER).unwrap_or(Timestamp::MIN);
        let Ok(revoked) = store.revoked_after(after).await else { continue };
        done.retain(|(_, until)| *until > after);
        for (id, until) in revoked {
            // A clock that is ahead must not hide later revocations.
            seen = seen.max(until.min(Timestamp::now()));
            if done.insert((id.clone(), until)) {
                // A needless reconnection is harmless; a missed connection would stay open.
                let age = Timestamp::now().duration_since(until).saturating_sub(SPARED);
                device_registry.revoke_older(&id, Duration::try_from(age).unwrap_or_default());
            }
        }
    }
}

/// Sends an order to a device of this instance, or to the instance to which the device is connected.
async fn passed_on(
    cluster: &Cluster,
    device_endpoint: &DeviceEndpoint,
    id: &DeviceId,
    wanted: Wanted,
) -> Result<Result<(), Unreachable>, Refusal> {
    let here = device_endpoint.pipeline.device_registry().order(id, order_of(&wanted)?);
    match here {
        Err(Unreachable::NotConnected) => Ok(cluster.order(id, json!(wanted)).await.map(|_| ())),
        here => Ok(here),
    }
}

/// Returns a handler for orders from other instances to devices of this instance, and to their
/// sessions, whose tool sources are in `registry`.
pub fn order_handler(device_registry: DeviceRegistry, registry: Registry) -> OrderHandler {
    Arc::new(move |id, wanted| {
        let device_registry = device_registry.clone();
        let registry = registry.clone();
        Box::pin(async move {
            let wanted: Wanted = serde_json::from_value(wanted).map_err(|_| Unreachable::Busy)?;
            match wanted.name.as_str() {
                STATUS => return Ok(json!(ask(&device_registry, &id).await?)),
                SESSION_TOOLS => return requested(&registry, wanted.body),
                _ => {}
            }
            // Unknown here: another version of the server may have more orders.
            let order = order_of(&wanted).map_err(|_| Unreachable::Busy)?;
            device_registry.order(&id, order).map(|()| Value::Null)
        })
    })
}

/// Returns the refusal for a device that is not connected.
pub(crate) async fn away(access: &AccessControl, id: &DeviceId) -> Refusal {
    match access.store.device(id).await {
        Ok(None) => no_such_device(),
        Ok(Some(_)) => refusal(Fault::NotConnected, id.as_str()),
        Err(error) => store_failed(&error),
    }
}

/// Parameters of an order; `reboot` and `close` have none.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes the body for OpenAPI; it is read by the name of the order")]
enum OrderFields {
    Alert(Alert),
    Say(Say),
    Custom(Custom),
}

/// Parameters of `alert`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AlertOrder)]
struct Alert {
    /// Title, 1 to 500 characters.
    status: String,
    /// Text, 1 to 500 characters.
    message: String,
    /// Emotion to display; `neutral` if omitted.
    #[serde(default)]
    #[schema(value_type = Option<Emotion>)]
    emotion: Option<String>,
}

/// Parameters of `say`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SayOrder)]
struct Say {
    /// Text to speak, 1 to 2,000 characters.
    text: String,
}

/// Parameters of `custom`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CustomOrder)]
struct Custom {
    /// Object that is sent to the device unchanged.
    payload: Map<String, Value>,
}

fn body_of<T: DeserializeOwned>(wanted: &Wanted) -> Result<T, Refusal> {
    let read = json::typed(wanted.body.clone());
    read.map_err(|error| refusal(Fault::BadRequest, &error.about("the body")))
}

fn order_of(wanted: &Wanted) -> Result<DeviceOrder, Refusal> {
    match wanted.name.as_str() {
        "alert" => {
            let asked: Alert = body_of(wanted)?;
            let about = format!("`status` and `message` have 1 to {MAX_ALERT_CHARS} characters");
            let text = |text: &str| params::text_of(text, MAX_ALERT_CHARS, &about);
            let emotion = match asked.emotion.as_deref() {
                None => Emotion::Neutral,
                Some(name) => Emotion::all().find(|e| e.as_str() == name).ok_or_else(|| {
                    refusal(Fault::BadRequest, "`emotion` must be one of the firmware's 21")
                })?,
            };
            let status = text(&asked.status)?;
            let message = text(&asked.message)?;
            Ok(DeviceOrder::Send(Downlink::Alert { status, message, emotion }))
        }
        "say" => {
            let asked: Say = body_of(wanted)?;
            let about = format!("`text` has 1 to {MAX_SAY_CHARS} characters");
            Ok(DeviceOrder::Say(params::text_of(&asked.text, MAX_SAY_CHARS, &about)?))
        }
        "custom" => {
            let asked: Custom = body_of(wanted)?;
            Ok(DeviceOrder::Send(Downlink::Custom { payload: asked.payload }))
        }
        "reboot" => Ok(DeviceOrder::Send(Downlink::System { command: SystemCommand::Reboot })),
        "close" => Ok(DeviceOrder::Leave(Fault::GoingAway)),
        FORGET => Ok(DeviceOrder::Leave(Fault::Forbidden)),
        _ => Err(unknown()),
    }
}

fn unknown() -> Refusal {
    refusal(Fault::NotFound, "orders are alert, custom, say, reboot and close")
}
