//! Handshake of a device: identification, authorisation, admission control, and the start of its socket actor.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse, web};
use hearken_actors::device::DeviceConnection;
use hearken_actors::pipeline::Pipeline;
use hearken_base::language::Language;
use hearken_base::slots::Slots;
use hearken_ports::store::Device;
use hearken_proto::device::Framing;
use hearken_proto::fault::Fault;
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::auth::TokenError;
use crate::http::AccessControl;
use crate::http::devices::device_identity::{AdmissionRule, is_of};
use crate::http::fault::{Refusal, answer, refusal, store_failed};
use crate::http::lasting_access::LastingAccess;
use crate::http::middleware::slot_of;
use crate::http::request_identity::{Caller, bearer, client_of, given};
use crate::recorder::{Recorder, RecordingMeta};

/// State of the devices' WebSocket route.
#[derive(Clone)]
pub struct DeviceEndpoint {
    /// Factory of the devices' actors.
    pub pipeline: Pipeline,
    /// Connection slots.
    pub connection_slots: Slots,
    /// Connection slots of devices that are not bound and only play a notice.
    pub notice_slots: Slots,
    /// Recorder of sessions, if recording is on.
    pub recorder: Option<Arc<Recorder>>,
    /// Access control.
    pub access: Arc<AccessControl>,
    /// Language of the messages to an unbound device.
    pub language: Language,
}

/// Maximum wait for a device's firmware version, which is only used for statistics.
const FIRMWARE_WITHIN: Duration = Duration::from_millis(100);

/// Refusal of a device from outside without a client id.
const NO_CLIENT_ID: &str = "a device from outside has to send its Client-Id";

/// Admitted device.
struct Admitted {
    caller: Caller,
    /// Firmware version, if the store knows it.
    firmware: Option<Arc<str>>,
    /// For an unbound device, the only text that it plays.
    notice: Option<String>,
    /// True if it may use the household's tools.
    household: bool,
}

/// Opens the WebSocket of a device (`GET /xiaozhi/v1/`). `Device-Id`, `Client-Id`, `Authorization`
/// and `Protocol-Version` are headers, or query parameters from clients that cannot set headers.
pub(crate) async fn connect(
    request: HttpRequest,
    payload: web::Payload,
    device_endpoint: web::Data<DeviceEndpoint>,
) -> Result<HttpResponse, actix_web::Error> {
    let not_a_socket = "this address accepts WebSockets only; devices get it from /xiaozhi/ota/";
    if !request.headers().contains_key(header::UPGRADE) {
        return Ok(answer(Fault::BadRequest, not_a_socket));
    }
    let Admitted { caller, firmware, notice, household } =
        match admit(&request, &device_endpoint).await {
            Ok(admitted) => admitted,
            Err(refusal) => return Ok(refusal.into()),
        };
    // Any client can send an invented id: such connections must not take the slots of others.
    let slots = match notice {
        Some(_) => &device_endpoint.notice_slots,
        None => &device_endpoint.connection_slots,
    };
    let slot = match slot_of(&request, slots) {
        Ok(slot) => slot,
        Err(full) => {
            hearken_dialogue::metrics::connection_refused();
            return Ok(answer(Fault::Busy, &format!("connections of devices: {full}")));
        }
    };
    let version = given(&request, "protocol-version").and_then(|v| v.parse().ok()).unwrap_or(1);
    let meta =
        RecordingMeta { device_id: Some(caller.device_id.as_str().to_owned()), framing: version };
    // A connection that only plays a notice must not replace a device's connection: any client can
    // send another device's id.
    let device_id = match notice {
        Some(_) => unbound(&caller.device_id),
        None => caller.device_id,
    };
    let recorder = device_endpoint.recorder.as_ref().filter(|_| notice.is_none());
    let ended = CancellationToken::new();
    let access = LastingAccess::until(&request, ended.clone().cancelled_owned());
    let connection = DeviceConnection {
        device_id,
        framing: Framing::from_version(version),
        firmware,
        // A device that only hears its code has no session.
        sink: recorder.map(|recorder| recorder.sink(meta)),
        notice,
        household,
        slot: Some(slot),
        ended,
    };
    match access.socket(device_endpoint.pipeline.device(connection), &request, payload) {
        Ok(response) => Ok(response),
        Err(_) => Ok(answer(Fault::BadRequest, not_a_socket)),
    }
}

/// Decides whether a device may connect, and whether it may talk. In private networks, a server
/// without binding decides this without the store.
async fn admit(
    request: &HttpRequest,
    device_endpoint: &DeviceEndpoint,
) -> Result<Admitted, Refusal> {
    let access = &device_endpoint.access;
    let rule = access.admission_rule(request);
    let needs_id = access.auth.needs_id(request) || rule != AdmissionRule::Open;
    let caller = match Caller::from_request(request) {
        Err(refusal) if needs_id => return Err(refusal),
        // A device without an id gets a unique one, so that such devices do not replace each other.
        Err(_) => Caller {
            device_id: DeviceId::new(format!("unknown-{}", uuid::Uuid::new_v4().simple())),
            client_id: client_of(request),
        },
        Ok(caller) => caller,
    };
    access.auth.allows(&caller.device_id)?;
    if rule == AdmissionRule::NoClientId {
        return Err(refusal(Fault::Unauthorized, NO_CLIENT_ID));
    }
    let now = Timestamp::now();
    let checked = access.check_token(request, &caller, &bearer(request)).await;
    let refused = |error: TokenError| {
        tracing::info!(device = %caller.device_id, %error, "refused a device");
        refusal(Fault::Unauthorized, &error.to_string())
    };
    let known = match checked {
        Ok(()) if matches!(rule, AdmissionRule::Open | AdmissionRule::Token) => {
            let firmware = known_firmware(access, &caller.device_id).await;
            // It may talk without the store.
            let household = access.is_of_household(request, &caller).await;
            let household = household.unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot check if a device from outside is bound");
                false
            });
            return Ok(Admitted { caller, firmware, notice: None, household });
        }
        // A device whose code is not entered yet has no token.
        Err(TokenError::Missing) if rule == AdmissionRule::Code => {
            access.store.device(&caller.device_id).await.map_err(|e| store_failed(&e))?
        }
        Ok(()) => match access.store.device(&caller.device_id).await {
            Ok(known) => known,
            // Without a token, only the store knows if the code of the device was entered.
            Err(error) if rule == AdmissionRule::Code && !access.auth.needs_token(request) => {
                return Err(store_failed(&error));
            }
            // The device got its token here: it may talk without the store, but from outside without the rights of a
            // bound device.
            Err(error) => {
                tracing::warn!(%error, "cannot check if a device is bound");
                let household = !access.auth.is_from_outside(request);
                return Ok(Admitted { caller, firmware: None, notice: None, household });
            }
        },
        Err(TokenError::Missing) if rule == AdmissionRule::Open => {
            match access.store.device(&caller.device_id).await {
                // The id belongs to another client, such as the same device before it was reflashed.
                Ok(Some(device)) if !is_of(&device, &caller) => Some(device),
                _ => return Err(refused(TokenError::Missing)),
            }
        }
        Err(error) => return Err(refused(error)),
    };
    if let Some(device) = known.filter(|device| rule.admits(device, &caller)) {
        checked.map_err(refused)?;
        note_contact(access, &caller.device_id, now).await;
        let firmware = firmware_of(device);
        return Ok(Admitted { caller, firmware, notice: None, household: true });
    }
    if rule == AdmissionRule::Bound {
        tracing::info!(device = %caller.device_id, "refused a device from outside that is not bound");
        let about = "a device from outside has to be bound: enter the code that it gets at its boot, or make a \
                     token for its Client-Id (POST /api/devices/ID/tokens)";
        return Err(refusal(Fault::Unauthorized, about));
    }
    let code = access.code_of(request, &caller, now).await?.code.unwrap_or_default();
    let notice = Some(spoken_code(&code, device_endpoint.language));
    Ok(Admitted { caller, firmware: None, notice, household: false })
}

/// Records the contact of an admitted device, which works without this. Others change nothing: any
/// client can send the id of a device.
async fn note_contact(access: &AccessControl, device_id: &DeviceId, now: Timestamp) {
    if let Err(error) = access.store.seen(device_id, now).await {
        tracing::warn!(%error, "cannot record the contact of a device");
    }
}

/// Returns the id under which an unbound device is connected.
pub(crate) fn unbound(id: &DeviceId) -> DeviceId {
    DeviceId::new(format!("{id}|unbound"))
}

/// Returns the firmware version that the device reported at its last boot.
fn firmware_of(device: Device) -> Option<Arc<str>> {
    Some(device.firmware_version).filter(|version| !version.is_empty()).map(Arc::from)
}

/// Reads a device's firmware version from the store; `None` if the device is unknown, or the store is slow or fails.
async fn known_firmware(access: &AccessControl, device_id: &DeviceId) -> Option<Arc<str>> {
    let stored = timeout(FIRMWARE_WITHIN, access.store.device(device_id)).await;
    stored.ok()?.ok()?.and_then(firmware_of)
}

/// Renders a code for speech, digit by digit.
fn spoken_code(code: &str, language: Language) -> String {
    let (names, before, between, after) = match language {
        Language::Chinese => (
            ["零", "一", "二", "三", "四", "五", "六", "七", "八", "九"],
            "请先绑定设备，验证码是",
            "，",
            "。",
        ),
        Language::English => (
            ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"],
            "Please bind this device first. Its code is ",
            ", ",
            ".",
        ),
    };
    let digits = code.chars().filter_map(|c| c.to_digit(10));
    let digits = digits.filter_map(|d| names.get(usize::try_from(d).ok()?).copied());
    format!("{before}{}{after}", digits.collect::<Vec<_>>().join(between))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_spoken_digit_by_digit() {
        assert_eq!(
            spoken_code("012907", Language::English),
            "Please bind this device first. Its code is zero, one, two, nine, zero, seven."
        );
        let zh = spoken_code("345678", Language::Chinese);
        assert_eq!(zh, "请先绑定设备，验证码是三，四，五，六，七，八。");
    }
}
