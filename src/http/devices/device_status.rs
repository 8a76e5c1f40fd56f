//! Battery and network status of a connected device, requested with a tool of its firmware
//! (`self.get_device_status`), at whichever instance the device is connected. Not for calls of its
//! tools by models.

use actix_web::{HttpResponse, web};
use hearken_cluster::Cluster;
use hearken_ports::Unreachable;
use hearken_proto::fault::Fault;
use hearken_proto::ids::DeviceId;
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::http::devices::device_identity::id_of;
use crate::http::devices::device_orders::{STATUS, Wanted, away};
use crate::http::devices::status_tool::{StatusReply, TOOL, ask};
use crate::http::extract::Operator;
use crate::http::fault::{Faults, RouteResult, refusal};
use crate::http::{AccessControl, DeviceEndpoint};

/// Maximum length of a returned word, in characters.
const MAX_WORD_CHARS: usize = 64;

/// Status of a device.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct DeviceStatus {
    /// Battery; null if not reported.
    #[schema(required)]
    battery: Option<Battery>,
    /// Network; null if not reported.
    #[schema(required)]
    network: Option<Network>,
    /// Complete status, as reported by the device.
    #[schema(value_type = Object)]
    told: Map<String, Value>,
}

/// Battery of a device.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
struct Battery {
    /// Charge, 0 to 100 percent.
    #[schema(maximum = 100)]
    level: u8,
    /// True while the battery is being charged; null if not reported.
    #[schema(required)]
    charging: Option<bool>,
}

/// Network of a device.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
struct Network {
    /// `wifi`, `cellular` or another word of the device; null if not reported.
    #[serde(rename = "type")]
    #[schema(required)]
    kind: Option<String>,
    /// Name of the network (SSID); null if not reported.
    #[schema(required)]
    ssid: Option<String>,
    /// `strong`, `medium`, `weak` or another word of the device; null if not reported.
    #[schema(required)]
    signal: Option<String>,
}

impl From<Map<String, Value>> for DeviceStatus {
    fn from(told: Map<String, Value>) -> Self {
        let word = |part: &Value, name: &str| {
            let word = part.get(name)?.as_str()?;
            Some(word.chars().take(MAX_WORD_CHARS).collect::<String>())
        };
        let battery = told.get("battery").and_then(|battery| {
            let level = u8::try_from(battery.get("level")?.as_u64()?).ok()?;
            let charging = battery.get("charging").and_then(Value::as_bool);
            (level <= 100).then_some(Battery { level, charging })
        });
        let network = told.get("network").filter(|network| network.is_object());
        let network = network.map(|network| Network {
            kind: word(network, "type"),
            ssid: word(network, "ssid"),
            signal: word(network, "signal"),
        });
        Self { battery, network, told }
    }
}

/// Requests the battery and network status of a connected device; 404 if it has no tool
/// `self.get_device_status`, 503 if it does not answer within 2.5 s.
#[utoipa::path(get, path = "/api/devices/{id}/status", tag = "devices", params(("id" = String, Path,)),
    responses((status = 200, body = DeviceStatus), Faults))]
pub(crate) async fn status(
    _: Operator,
    path: web::Path<String>,
    access: web::Data<AccessControl>,
    device_endpoint: web::Data<DeviceEndpoint>,
    cluster: web::Data<Cluster>,
) -> RouteResult {
    let id = id_of(&path);
    match told(&cluster, &device_endpoint, &id).await {
        Ok(StatusReply::Status(told)) => Ok(HttpResponse::Ok().json(DeviceStatus::from(told))),
        Ok(StatusReply::NoTool) => {
            Err(refusal(Fault::NotFound, &format!("the device has no tool `{TOOL}`")))
        }
        Ok(StatusReply::Failed(about)) => Err(refusal(Fault::Unavailable, &about)),
        Err(Unreachable::Busy | Unreachable::Unconfirmed) => {
            Err(refusal(Fault::Busy, "the instance with the device does not answer"))
        }
        Err(Unreachable::NotConnected) => Err(away(&access, &id).await),
    }
}

/// Requests the status from a device of this instance, or from the instance to which it is connected.
async fn told(
    cluster: &Cluster,
    device_endpoint: &DeviceEndpoint,
    id: &DeviceId,
) -> Result<StatusReply, Unreachable> {
    match ask(device_endpoint.pipeline.device_registry(), id).await {
        Err(Unreachable::NotConnected) => {
            let wanted = Wanted { name: STATUS.into(), body: Map::new() };
            let answer = cluster.order(id, json!(wanted)).await?;
            let other = |_| StatusReply::Failed("its instance returned an invalid answer".into());
            Ok(serde_json::from_value(answer).unwrap_or_else(other))
        }
        here => here,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(told: Value) -> DeviceStatus {
        let Value::Object(told) = told else { panic!("an object") };
        DeviceStatus::from(told)
    }

    #[test]
    fn reported_values_are_parsed_and_invalid_ones_are_omitted() {
        let told = status(json!({"battery": {"level": 88, "charging": false},
            "network": {"type": "wifi", "ssid": "home", "signal": "strong"}, "chip": {}}));
        assert_eq!(told.battery, Some(Battery { level: 88, charging: Some(false) }));
        let network = told.network.unwrap();
        assert_eq!(network.signal.as_deref(), Some("strong"));
        assert!(told.told.contains_key("chip"));
        for odd in [
            json!({}),
            json!({"battery": null, "network": null}),
            json!({"battery": {"level": 101}, "network": ["wifi"]}),
            json!({"battery": {"level": -1}, "network": "wifi"}),
            json!({"battery": {"level": "88"}}),
        ] {
            let told = status(odd.clone());
            assert_eq!((told.battery, told.network), (None, None), "{odd}");
        }
        let long = status(json!({"network": {"signal": "x".repeat(1_000), "ssid": 5}}));
        let network = long.network.unwrap();
        assert_eq!((network.signal.unwrap().len(), network.ssid), (MAX_WORD_CHARS, None));
    }
}
