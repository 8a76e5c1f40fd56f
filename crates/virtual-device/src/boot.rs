//! Boot sequence of firmware before its first conversation: requests its settings from the OTA
//! address, and waits to be activated. Not for installing firmware.
//!
//! As in 78/xiaozhi-esp32, `main/ota.cc` and `Application::CheckNewVersion`: a response other than
//! 200 with JSON is retried up to ten times, first after 10 s, then after twice the wait before. If
//! the response contains `activation`, `activate` is requested ten times, 3 s apart while it
//! returns 202 and 10 s apart on errors; then the OTA address again, until there is no
//! `activation`.

use std::time::Duration;

use hmac::{Hmac, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::time::sleep;

/// Number of attempts of a request, and of the activation.
const ATTEMPTS: u32 = 10;
const FIRST_RETRY: Duration = Duration::from_secs(10);
/// Interval between two activation requests.
const ACTIVATION_POLL: Duration = Duration::from_secs(3);
const ACTIVATION_RETRY: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of a response, in bytes.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Identity of a booting device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// MAC address, lower case with colons.
    pub device_id: String,
    /// UUID.
    pub client_id: String,
    /// Version of the firmware: numbers separated by dots.
    pub version: String,
    /// Type of the board, as in the names of firmware files.
    pub board: String,
    /// Serial number and key burned in at the factory, if there are any.
    pub serial: Option<Serial>,
    /// Number of rounds of ten activation requests.
    pub activation_rounds: u32,
    /// True to retry failures of the OTA address, as firmware does for over an hour.
    pub retry_failures: bool,
    /// Divisor of all waits; 1 for firmware's own.
    pub wait_divisor: u32,
}

/// Serial number and key of a board, for activation version 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serial {
    /// Serial number of 32 characters.
    pub number: String,
    /// Key of the HMAC-SHA256.
    pub key: Vec<u8>,
}

/// Settings of the device after booting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Booted {
    /// WebSocket address and token, if the response contained them.
    pub websocket: Option<Websocket>,
    /// True if the response had a `mqtt` section: firmware would use that and never the WebSocket.
    pub mqtt: bool,
    /// Time of the server: ms since 1970, and minutes east of Greenwich.
    pub server_time: Option<(i64, i32)>,
    /// Update that firmware would now install: version and address.
    pub update: Option<(String, String)>,
    /// Activation codes shown to the person, in order.
    pub codes: Vec<String>,
}

/// The `websocket` section of a response. For absent fields firmware retains its old values, which a
/// new device does not have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Websocket {
    /// Address of the device endpoint.
    pub url: String,
    /// Bearer token; empty for none.
    pub token: String,
    /// Version of the binary framing; 1 if absent or 0.
    pub version: u32,
}

/// Reason why a device cannot boot.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The address is shorter than 10 characters, or not a URL.
    #[error("`{url}` is not an OTA address: use http://HOST:PORT/xiaozhi/ota/")]
    Address {
        /// The address.
        url: String,
    },
    /// There is no response, or it is not HTTP.
    #[error("no OTA answer from {url} ({reason}): is the server running?")]
    Unreachable {
        /// The address.
        url: String,
        /// Description of the failure.
        reason: String,
    },
    /// The status is not 200.
    #[error("{url} answered with HTTP status {status}, and firmware takes only 200")]
    Status {
        /// The address.
        url: String,
        /// HTTP status.
        status: u16,
    },
    /// The status is 200, but the body is not JSON.
    #[error("{url} answered with something that is not JSON: is it an OTA address?")]
    NotJson {
        /// The address.
        url: String,
    },
    /// Firmware cannot parse the version, and would restart again and again.
    #[error("version `{version}` of firmware is not made of dotted numbers: a device would crash")]
    Version {
        /// The offending version.
        version: String,
    },
    /// The device was not bound.
    #[error("device {device_id} was not activated: enter the code {code} and boot again")]
    NotActivated {
        /// Id of the device.
        device_id: String,
        /// Code in the last response.
        code: String,
    },
}

/// Boots: repeats the requests until the device may connect.
///
/// # Errors
/// Fails if the address never gave a valid response, the device was not activated, or firmware
/// would crash.
pub async fn boot(ota_url: &str, identity: &Identity) -> Result<Booted, BootError> {
    if ota_url.len() < 10 {
        return Err(BootError::Address { url: ota_url.into() });
    }
    let http = client(ota_url).map_err(|e| unreachable(ota_url, &e))?;
    let mut codes = Vec::new();
    let mut rounds = 0;
    loop {
        let answer = check_version_patiently(&http, ota_url, identity).await?;
        let booted = read(&answer, identity)?;
        let text = |name: &str| answer.get("activation")?.get(name)?.as_str();
        if text("code").is_none() && text("challenge").is_none() {
            return Ok(Booted { codes, ..booted });
        }
        let code = text("code").unwrap_or_default().to_owned();
        if rounds == identity.activation_rounds {
            let device_id = identity.device_id.clone();
            return Err(BootError::NotActivated { device_id, code });
        }
        rounds += 1;
        codes.push(code);
        activate(&http, ota_url, identity, text("challenge")).await;
    }
}

async fn check_version_patiently(
    http: &reqwest::Client,
    url: &str,
    identity: &Identity,
) -> Result<Value, BootError> {
    let mut delay = FIRST_RETRY;
    for _ in 1..ATTEMPTS {
        match check_version(http, url, identity).await {
            Err(_) if identity.retry_failures => {
                sleep(delay / identity.wait_divisor.max(1)).await;
                delay *= 2;
            }
            done => return done,
        }
    }
    check_version(http, url, identity).await
}

async fn check_version(
    http: &reqwest::Client,
    url: &str,
    identity: &Identity,
) -> Result<Value, BootError> {
    let request = headers(http.post(url), identity).body(system_report(identity).to_string());
    let mut answer = request.send().await.map_err(|e| unreachable(url, &e))?;
    let status = answer.status().as_u16();
    if status != 200 {
        return Err(BootError::Status { url: url.into(), status });
    }
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|e| unreachable(url, &e))? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_ANSWER_BYTES {
            return Err(BootError::NotJson { url: url.into() });
        }
    }
    serde_json::from_slice(&body).map_err(|_| BootError::NotJson { url: url.into() })
}

/// Requests activation ten times, or until it is done. Failures are ignored: the next OTA response decides.
async fn activate(http: &reqwest::Client, url: &str, identity: &Identity, challenge: Option<&str>) {
    let slash = if url.ends_with('/') { "" } else { "/" };
    let url = format!("{url}{slash}activate");
    let body = activation_body(identity, challenge.unwrap_or_default());
    for _ in 0..ATTEMPTS {
        let status = match challenge {
            // Without a challenge, firmware does not request activation.
            None => None,
            Some(_) => {
                let asked = headers(http.post(&url), identity).body(body.clone()).send().await;
                asked.ok().map(|answer| answer.status().as_u16())
            }
        };
        match status {
            Some(200) => return,
            Some(202) => sleep(ACTIVATION_POLL / identity.wait_divisor.max(1)).await,
            _ => sleep(ACTIVATION_RETRY / identity.wait_divisor.max(1)).await,
        }
    }
}

fn activation_body(identity: &Identity, challenge: &str) -> String {
    let Some(Serial { number, key }) = &identity.serial else { return "{}".into() };
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length makes an HMAC");
    mac.update(challenge.as_bytes());
    let hmac: String = mac.finalize().into_bytes().iter().map(|b| format!("{b:02x}")).collect();
    json!({
        "algorithm": "hmac-sha256",
        "serial_number": number,
        "challenge": challenge,
        "hmac": hmac,
    })
    .to_string()
}

fn headers(request: reqwest::RequestBuilder, identity: &Identity) -> reqwest::RequestBuilder {
    let Identity { device_id, client_id, version, board, serial, .. } = identity;
    let request = request
        .header("Activation-Version", if serial.is_some() { "2" } else { "1" })
        .header("Device-Id", device_id)
        .header("Client-Id", client_id)
        .header("User-Agent", format!("{board}/{version}"))
        .header("Accept-Language", "zh-CN")
        .header("Content-Type", "application/json");
    match serial {
        Some(serial) => request.header("Serial-Number", &serial.number),
        None => request,
    }
}

/// Returns the body of the request. Firmware writes the heap size as a string.
fn system_report(identity: &Identity) -> Value {
    let Identity { device_id, client_id, version, board, .. } = identity;
    json!({
        "version": 2,
        "language": "zh-CN",
        "flash_size": 16_777_216,
        "minimum_free_heap_size": "8318916",
        "mac_address": device_id,
        "uuid": client_id,
        "chip_model_name": "esp32s3",
        "chip_info": {"model": 9, "cores": 2, "revision": 2, "features": 18},
        "application": {
            "name": "xiaozhi",
            "version": version,
            "compile_time": "Jan  1 2026T00:00:00Z",
            "idf_version": "v5.5",
            "elf_sha256": "0".repeat(64),
        },
        "partition_table": [
            {"label": "nvs", "type": 1, "subtype": 2, "address": 36_864, "size": 16_384},
            {"label": "ota_0", "type": 0, "subtype": 16, "address": 131_072, "size": 4_128_768},
        ],
        "ota": {"label": "ota_0"},
        "display": {"monochrome": false, "width": 320, "height": 240},
        "board": {
            "type": board, "name": board, "ssid": "home", "rssi": -50, "channel": 6,
            "ip": "192.168.1.23", "mac": device_id,
        },
    })
}

fn read(answer: &Value, identity: &Identity) -> Result<Booted, BootError> {
    let section = |name: &str| answer.get(name).filter(|s| s.is_object());
    let websocket = section("websocket").map(|s| {
        let string = |name: &str| s.get(name).and_then(Value::as_str).unwrap_or_default().into();
        let version = s.get("version").and_then(Value::as_u64).unwrap_or(1).max(1);
        let version = u32::try_from(version).unwrap_or(1);
        Websocket { url: string("url"), token: string("token"), version }
    });
    let server_time = section("server_time").and_then(|s| {
        let offset = s.get("timezone_offset").and_then(Value::as_i64).unwrap_or(0);
        Some((s.get("timestamp")?.as_i64()?, i32::try_from(offset).ok()?))
    });
    let mut update = None;
    if let Some(firmware) = section("firmware") {
        let string = |name: &str| firmware.get(name).and_then(Value::as_str);
        if let (Some(version), Some(url)) = (string("version"), string("url")) {
            let newer = is_newer(&identity.version, version)?;
            let forced = firmware.get("force").and_then(Value::as_i64) == Some(1);
            update = (newer || forced).then(|| (version.to_owned(), url.to_owned()));
        }
    }
    let mqtt = section("mqtt").is_some();
    Ok(Booted { websocket, mqtt, server_time, update, codes: Vec::new() })
}

/// Returns true if `offered` is newer than `current`: numbers are compared one by one, and a longer
/// version is newer.
///
/// # Errors
/// Fails if a part between two dots does not start with a number, which would crash firmware.
pub fn is_newer(current: &str, offered: &str) -> Result<bool, BootError> {
    Ok(version_parts(offered)? > version_parts(current)?)
}

fn version_parts(version: &str) -> Result<Vec<i32>, BootError> {
    // A last empty part is no part; std::stoi reads a number and ignores what follows.
    let parts = version.strip_suffix('.').unwrap_or(version).split('.');
    let parts = parts.filter(|_| !version.is_empty());
    let number = |part: &str| -> Option<i32> {
        let part = part.trim_start();
        let sign = usize::from(part.starts_with(['+', '-']));
        let digits = part[sign..].find(|c: char| !c.is_ascii_digit());
        part[..digits.map_or(part.len(), |at| sign + at)].parse().ok()
    };
    let crash = || BootError::Version { version: version.into() };
    parts.map(|part| number(part).ok_or_else(crash)).collect()
}

fn unreachable(url: &str, error: &reqwest::Error) -> BootError {
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        reason = cause.to_string();
        source = cause.source();
    }
    BootError::Unreachable { url: url.into(), reason }
}

/// Returns a client as simple as firmware's: it follows no redirects. A plain HTTP address needs no
/// certificates on the machine, and no proxy is used.
pub(super) fn client(url: &str) -> Result<reqwest::Client, reqwest::Error> {
    hearken_outbound::tls::choose_provider();
    let builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(ANSWER_TIMEOUT)
        .no_proxy();
    let builder = if url.starts_with("http://") { builder.tls_certs_only([]) } else { builder };
    builder.build()
}

#[cfg(test)]
mod tests;
