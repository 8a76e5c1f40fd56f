//! Fuzz target: MCP messages of a device.

use hearken_base::paced_log::PacedLog;
use rmcp::model::{JsonRpcMessage, RequestId};
use serde_json::Value;

use super::{link, repair};

/// Any message is repaired or dropped. An answer to a request of ours is delivered, whatever its
/// content; its size is bounded by that of the message, and a second repair changes nothing.
///
/// # Panics
/// Panics if a property is broken.
pub fn device_answers(bytes: &[u8]) {
    let Ok(message) = serde_json::from_slice::<Value>(bytes) else { return };
    let number = |id: &Value| id.as_i64().or_else(|| id.as_str()?.parse().ok());
    for base in [0, 10, i64::MAX] {
        let asked = message.get("method").is_none();
        let id = message.get("id").and_then(number).and_then(|id| id.checked_sub(base));
        let id = id.filter(|id| *id >= 0 && asked && message.is_object());
        let read = link::read(message.clone(), base, &PacedLog::default());
        if let Some(id) = id {
            let answered = match read {
                Some(JsonRpcMessage::Response(answer)) => answer.id,
                Some(JsonRpcMessage::Error(error)) => error.id.expect("an error has its id"),
                other => panic!("request {id} has no answer: {other:?}"),
            };
            assert_eq!(answered, RequestId::Number(id));
        }
        let Some(repaired) = repair::incoming(message.clone(), base) else { continue };
        let size = repaired.to_string().len();
        assert!(size <= 8 * bytes.len() + 300, "{} bytes became {size}", bytes.len());
        let again = repair::incoming(repaired, 0).expect("a repaired message is valid");
        assert_eq!(repair::incoming(again.clone(), 0), Some(again));
    }
}
