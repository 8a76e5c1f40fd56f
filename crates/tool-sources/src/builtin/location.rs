//! `get_location`: the location of this server, and therefore most likely of the device, by the
//! server's address on the internet. Not for a device's own position, which is unknown.

use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_ports::{Tool, ToolOutput};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::settings::{BuiltinError, BuiltinSettings};
use super::web::JsonClient;
use super::{BuiltinTool, name_of, output};

pub(super) const NAME: &str = "get_location";

/// Geographic place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) region: String,
    pub(super) country: String,
    pub(super) latitude: f64,
    pub(super) longitude: f64,
    /// IANA time zone; empty if unknown.
    pub(super) zone: String,
}

/// The tool `get_location`; clones share its connections.
#[derive(Clone)]
pub(super) struct Locator {
    web: JsonClient,
    timeout: Duration,
}

impl Locator {
    pub(super) fn new(settings: &BuiltinSettings) -> Result<Self, BuiltinError> {
        let web = JsonClient::new("location", "location_url", &settings.location_url)?;
        Ok(Self { web, timeout: Duration::from_millis(settings.timeout_ms) })
    }

    /// Returns the location of this server.
    ///
    /// # Errors
    /// The location service cannot be reached, or does not know the location; the message is for
    /// the model.
    pub(super) async fn locate(&self, by: Instant) -> Result<Place, String> {
        let fields = "status,message,country,regionName,city,lat,lon,timezone";
        read(&self.web.get_json(&[("fields", fields)], by).await?)
    }
}

impl BuiltinTool for Locator {
    fn tool(&self) -> Tool {
        Tool {
            name: NAME.into(),
            description: "Get the place where this speaker most likely is, judged by its internet \
                address: city, region, country. 获取当前所在位置。"
                .into(),
            parameters: json!({"type": "object", "properties": {}}),
            finishes: false,
            destructive: false,
        }
    }

    fn call(&self, _: Map<String, Value>) -> BoxFuture<'static, ToolOutput> {
        let locator = self.clone();
        Box::pin(async move {
            let place = locator.locate(Instant::now() + locator.timeout).await;
            output(place.map(|place| shown(&place)))
        })
    }
}

/// Parses the response of ip-api.com: <https://ip-api.com/docs/api:json>.
fn read(answer: &Value) -> Result<Place, String> {
    if answer["status"] == "fail" {
        return Err("the location service does not know where this address is".into());
    }
    let latitude = answer["lat"].as_f64();
    let longitude = answer["lon"].as_f64();
    let name = name_of(&answer["city"]);
    match (latitude, longitude) {
        (Some(latitude), Some(longitude)) if !name.is_empty() => Ok(Place {
            name,
            region: name_of(&answer["regionName"]),
            country: name_of(&answer["country"]),
            latitude,
            longitude,
            zone: name_of(&answer["timezone"]),
        }),
        _ => Err("the location service gave an answer that cannot be read".into()),
    }
}

fn shown(place: &Place) -> Value {
    json!({
        "city": place.name,
        "region": place.region,
        "country": place.country,
        "latitude": place.latitude,
        "longitude": place.longitude,
        "timezone": place.zone,
    })
}
