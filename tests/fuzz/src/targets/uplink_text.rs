//! Text frames of a device: anything is read or refused, valid JSON is never repaired, and what is
//! read of `iot` messages is read again from what it is written as.

use hearken_proto::device::{IotReport, Uplink};
use serde_json::{Value, json};

/// Tries one input.
///
/// # Panics
/// Panics if a promise above is broken.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let decoded = Uplink::decode(text);
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => {
            assert_eq!(
                decoded,
                Uplink::decode(&value.to_string()),
                "only the order of fields differs"
            );
            assert!(decoded.is_ok());
        }
        Ok(_) => assert!(decoded.is_err(), "only objects are messages"),
        Err(_) => {}
    }
    match decoded {
        Ok(Uplink::Iot(report)) => {
            let IotReport { things, states } = &report;
            let again = json!({"descriptors": things, "states": states});
            let again = again.as_object().expect("made as an object just now");
            assert_eq!(IotReport::from_object(again), report);
        }
        Ok(Uplink::Unknown { kind: short } | Uplink::Abort { reason: Some(short) }) => {
            assert!(short.chars().count() <= 64);
        }
        _ => {}
    }
}
