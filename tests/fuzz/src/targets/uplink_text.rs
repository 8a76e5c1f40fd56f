//! Text frames of a device: any input is read or refused, valid JSON is never repaired, and `iot`
//! messages survive a round trip.

use hearken_proto::device::{IotReport, Uplink};
use serde_json::{Value, json};

/// Runs one input.
///
/// # Panics
/// Panics if a property above is violated.
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
            let again = again.as_object().expect("created as an object above");
            assert_eq!(IotReport::from_object(again), report);
        }
        Ok(Uplink::Unknown { kind: short } | Uplink::Abort { reason: Some(short) }) => {
            assert!(short.chars().count() <= 64);
        }
        _ => {}
    }
}
