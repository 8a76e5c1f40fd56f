//! OTA responses to a booting device: the time, its firmware, the WebSocket address and token, or
//! the code for binding it. Not for storing devices, nor for the format of tokens.
//!
//! Firmware treats any response except 200 with JSON as a failure and retries ten times, with
//! growing waits (78/xiaozhi-esp32, `main/ota.cc`). For this reason there is no redirect, and
//! optional parts are omitted when they fail.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::Method;
use actix_web::http::header::ContentType;
use actix_web::{HttpRequest, HttpResponse, web};
use hearken_ports::store::{Activation, ClientRule, Device, DeviceReport};
use hearken_proto::fault::Fault;
use hearken_proto::json::weighed;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::auth::answers_challenge;
use crate::config::{DeviceAdmission, OtaConfig};
use crate::http::AccessControl;
use crate::http::devices::device_identity::{AdmissionRule, Boot};
use crate::http::devices::firmware;
use crate::http::fault::{Refusal, RouteResult, refusal, store_failed};
use crate::http::middleware::{address_of, is_from_trusted_proxy};
use crate::http::request_identity::{Caller, body, given, reached_at, tidy};

/// Maximum size of a device's report, in bytes; real ones have 2 to 4 KB.
const MAX_REPORT_BYTES: usize = 64 * 1024;
/// Maximum length of a stored text of a report, in characters.
pub(crate) const MAX_REPORT_CHARS: usize = 64;
/// Maximum wait for the store when its result is not needed.
const NOTING: Duration = Duration::from_secs(1);
/// Time for which firmware polls its binding before it shows a new code, in milliseconds;
/// xiaozhi.me sends the same value.
const ACTIVATION_TIMEOUT_MS: u32 = 30_000;
/// Version for a device that reports none; firmware can parse it.
const NO_VERSION: &str = "0.0.0";

/// Rules of OTA responses, except access control.
#[derive(Debug, Clone)]
pub struct OtaRules {
    /// True if new devices must be bound with a code.
    pub(crate) binding: bool,
    /// Requirement for devices from outside.
    pub(crate) admit: DeviceAdmission,
    pub(crate) code_lifetime: Duration,
    timezone: TimeZone,
    /// Configured WebSocket address; `None` to derive it from the device's request.
    websocket: Option<Url>,
    pub(crate) firmware_dir: PathBuf,
}

/// Invalid setting of `[ota]`.
#[derive(Debug, thiserror::Error)]
pub enum OtaConfigError {
    /// The time zone does not exist.
    #[error("`ota.timezone` is {0}: use an IANA name such as Asia/Shanghai, or leave it empty")]
    Timezone(String),
    /// The address is not that of a WebSocket.
    #[error("`ota.websocket_url` is {0}: use ws://HOST:PORT/xiaozhi/v1/, or leave it empty")]
    WebsocketUrl(String),
}

impl OtaRules {
    /// Creates the rules from the configuration.
    ///
    /// # Errors
    /// See [`OtaConfigError`].
    pub fn new(config: &OtaConfig) -> Result<Self, OtaConfigError> {
        let timezone = config.time_zone();
        let timezone = timezone.ok_or_else(|| OtaConfigError::Timezone(config.timezone.clone()))?;
        let websocket = match config.websocket_url.as_str() {
            "" => None,
            text => {
                let url = Url::parse(text).ok();
                let url = url.filter(|u| matches!(u.scheme(), "ws" | "wss") && u.has_host());
                Some(url.ok_or_else(|| OtaConfigError::WebsocketUrl(text.to_owned()))?)
            }
        };
        Ok(Self {
            binding: config.binding,
            admit: DeviceAdmission::default(),
            code_lifetime: Duration::from_millis(config.code_lifetime_ms),
            timezone,
            websocket,
            firmware_dir: config.firmware_dir.clone(),
        })
    }

    /// Returns the rules with this requirement for devices from outside.
    #[must_use]
    pub fn admitting(self, admit: DeviceAdmission) -> Self {
        Self { admit, ..self }
    }

    /// Returns the WebSocket address for the device. Firmware stores it permanently.
    fn websocket_at(&self, reached: &Url) -> String {
        let Some(url) = &self.websocket else {
            let mut url = reached.clone();
            let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
            url.set_scheme(scheme).expect("http becomes ws, and https wss");
            url.set_path("/xiaozhi/v1/");
            return url.into();
        };
        url.as_str().to_owned()
    }

    fn time(&self, now: Timestamp) -> Value {
        let offset = self.timezone.to_offset(now).seconds() / 60;
        json!({"timestamp": now.as_millisecond(), "timezone_offset": offset})
    }
}

/// Reads a device's report from its body, else from its headers.
pub(crate) fn report(request: &HttpRequest, caller: &Caller, body: &[u8]) -> DeviceReport {
    // A body that is not JSON is ignored; the headers are enough.
    let body: Value = weighed(body).unwrap_or_default();
    let text = |path| {
        let text = body.pointer(path).and_then(Value::as_str);
        text.and_then(|t| tidy(t, MAX_REPORT_CHARS))
    };
    let agent = given(request, "user-agent").unwrap_or_default();
    let (agent_board, agent_version) = agent.split_once('/').unwrap_or_default();
    let board = text("/board/type").unwrap_or_else(|| agent_board.to_owned());
    let version = text("/application/version").unwrap_or_else(|| agent_version.to_owned());
    DeviceReport {
        device_id: caller.device_id.clone(),
        client_id: caller.client_id.clone(),
        address: address_of(request),
        board,
        chip: text("/chip_model_name").unwrap_or_default(),
        serial_number: given(request, "serial-number").unwrap_or_default(),
        firmware_version: version,
    }
}

/// Answers a booting device (`POST` and `GET /xiaozhi/ota/`), or a user who opens the address in a browser (`GET`).
pub(crate) async fn check(
    request: HttpRequest,
    payload: web::Payload,
    access: web::Data<AccessControl>,
) -> RouteResult {
    let reached = reached_at(&request, is_from_trusted_proxy(&request))?;
    if request.method() == Method::GET && given(&request, "device-id").is_none() {
        let address = access.ota.websocket_at(&reached);
        let about = format!("Boards with this OTA address connect to {address}\n");
        return Ok(HttpResponse::Ok().content_type(ContentType::plaintext()).body(about));
    }
    let caller = Caller::from_request(&request)?;
    let body = body(payload, MAX_REPORT_BYTES).await?;
    access.auth.allows(&caller.device_id)?;
    let report = report(&request, &caller, &body);
    let now = Timestamp::now();
    // A page of another site can make a browser send ids in an address, but not in headers: nothing
    // is stored for them.
    let boot = if !request.headers().contains_key("device-id") {
        Boot::Unknown
    } else if access.admission_rule(&request) != AdmissionRule::Open
        || access.auth.needs_token(&request)
    {
        access.boot(&request, &caller, &report, now).await?
    } else {
        note(&access, &report, now).await;
        Boot::Admitted(String::new())
    };
    let mut answer = json!({
        "server_time": access.ota.time(now),
        "websocket": {"url": access.ota.websocket_at(&reached), "version": 1},
    });
    let (token, activation) = match boot {
        Boot::Admitted(token) => (Some(token), None),
        Boot::Waiting(activation) => (Some(String::new()), Some(activation)),
        Boot::Refused => (Some(String::new()), None),
        // Firmware retains its current value of anything that an answer omits.
        Boot::Unknown => (None, None),
    };
    if let Some(token) = token {
        answer["websocket"]["token"] = token.into();
    }
    if let Some(firmware) = firmware_for(&access, &report, &reached).await {
        answer["firmware"] = firmware;
    }
    if let Some(Activation { code: Some(code), challenge, .. }) = activation {
        let host = reached.host_str().unwrap_or_default();
        answer["activation"] = json!({
            "code": code,
            "message": format!("{host}\n{code}"),
            "challenge": challenge,
            "timeout_ms": ACTIVATION_TIMEOUT_MS,
        });
    }
    Ok(HttpResponse::Ok().json(answer))
}

/// Records the device's contact. Store errors are only logged: the device works without the store.
/// If the store is slow, the recording continues in the background, and the device does not wait
/// for it.
async fn note(access: &AccessControl, report: &DeviceReport, now: Timestamp) {
    let store = Arc::clone(&access.store);
    let report = report.clone();
    let recording = tokio::spawn(async move {
        if let Err(error) = store.report(&report, ClientRule::Latest, now).await {
            tracing::warn!(%error, "cannot record the contact of a device");
        }
    });
    if tokio::time::timeout(NOTING, recording).await.is_err() {
        tracing::debug!("the contact of a device is recorded after the answer");
    }
}

/// Returns the newest image, or else the device's own version without an address. Returns `None`
/// for a version that firmware itself cannot parse, which would make the device restart repeatedly.
async fn firmware_for(
    access: &AccessControl,
    report: &DeviceReport,
    reached: &Url,
) -> Option<Value> {
    let has = match report.firmware_version.as_str() {
        "" => NO_VERSION,
        version if firmware::is_readable(version) => version,
        _ => return None,
    };
    let update = match report.firmware_version.as_str() {
        "" => None,
        _ => firmware::update_for(&access.ota.firmware_dir, &report.board, has).await,
    };
    Some(match update {
        None => json!({"version": has, "url": ""}),
        Some(image) => {
            let mut url = reached.clone();
            url.set_path(&format!("/xiaozhi/ota/firmware/{}", image.file));
            json!({"version": image.version, "url": url.as_str()})
        }
    })
}

/// Proof of identity of a device with a burned-in key; a device without a key sends `{}`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Proof {
    algorithm: Option<String>,
    serial_number: String,
    challenge: String,
    hmac: String,
}

/// Polls the activation (`POST /xiaozhi/ota/activate`): 200 if the device is bound, 202 while it is pending.
pub(crate) async fn activate(
    request: HttpRequest,
    payload: web::Payload,
    access: web::Data<AccessControl>,
) -> RouteResult {
    let caller = Caller::from_request(&request)?;
    let body = body(payload, MAX_REPORT_BYTES).await?;
    access.auth.allows(&caller.device_id)?;
    let proof: Proof = serde_json::from_slice(&body).unwrap_or_default();
    if proof.algorithm.as_deref().is_some_and(|name| name != "hmac-sha256") {
        return Err(refusal(Fault::BadRequest, "the algorithm must be hmac-sha256"));
    }
    let done = || HttpResponse::Ok().json(json!({"message": "success"}));
    let rule = access.admission_rule(&request);
    if rule == AdmissionRule::Open && !access.auth.needs_token(&request) {
        return Ok(done());
    }
    let waits = || HttpResponse::Accepted().json(json!({"message": "waiting to be bound"}));
    let device = access.store.device(&caller.device_id).await.map_err(|e| store_failed(&e))?;
    let may_talk = device.as_ref().is_some_and(|device| rule.admits(device, &caller));
    // A caller from outside who has not the device's client id learns nothing about the device, not
    // even whether there is one: a MAC address can be guessed.
    let is_outside = access.auth.is_from_outside(&request) || rule == AdmissionRule::NoClientId;
    if !may_talk && is_outside {
        return Ok(waits());
    }
    let Some(device) = device else {
        return Err(refusal(
            Fault::NotFound,
            "no such device: it must request /xiaozhi/ota/ first",
        ));
    };
    if may_talk && rule != AdmissionRule::Code {
        return Ok(done());
    }
    let proven = proves_itself(&access, &caller, &device, &proof).await?;
    Ok(if proven && may_talk { done() } else { waits() })
}

/// Returns true if the device answered the challenge with the key stored for its serial number. A
/// device without a serial number or a stored key has nothing to prove: the user who enters its
/// code vouches for it. Returns false if it answered a challenge other than the latest.
async fn proves_itself(
    access: &AccessControl,
    caller: &Caller,
    device: &Device,
    proof: &Proof,
) -> Result<bool, Refusal> {
    let serial_number = match device.serial_number.as_str() {
        "" => &proof.serial_number,
        known => known,
    };
    if serial_number.is_empty() {
        return Ok(true);
    }
    let failed = |e| store_failed(&e);
    let Some(key) = access.store.key(serial_number).await.map_err(failed)? else {
        tracing::debug!("there is no key for the device's serial number");
        return Ok(true);
    };
    let now = Timestamp::now();
    let waiting = access.store.waiting(&caller.device_id, &caller.client_id, now);
    let Some(waiting) = waiting.await.map_err(failed)? else {
        // Bound earlier: it was verified then, and gets a token at its next boot without this.
        return Ok(false);
    };
    if proof.challenge != waiting.challenge {
        return Ok(false);
    }
    let right = serial_number == proof.serial_number
        && answers_challenge(&key, &waiting.challenge, &proof.hmac);
    if !right {
        return Err(refusal(Fault::Forbidden, "the hmac does not match this serial number's key"));
    }
    Ok(true)
}
