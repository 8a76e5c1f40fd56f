//! The reader of all JSON from outside: it accepts the same objects as `serde_json`, except those
//! with duplicate names, and reads the same values.

use hearken_proto::chat::{ChatRequest, CreateSession};
use hearken_proto::json;
use serde_json::{Map, Value};

/// Runs one input.
///
/// # Panics
/// Panics if a property above is violated.
pub fn run(bytes: &[u8]) {
    let bare = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let theirs = serde_json::from_slice::<Map<String, Value>>(bare);
    match (json::object(bytes), theirs) {
        (Ok(ours), theirs) => assert_eq!(Some(ours), theirs.ok()),
        (Err(error), Ok(_)) => assert_eq!(error.what(), "stands twice"),
        (Err(error), Err(_)) => assert!(error.to_string().chars().count() < 600, "{error}"),
    }
    // A value that is read survives a round trip.
    if let Ok(read) = json::read::<CreateSession>(bytes) {
        let text = serde_json::to_vec(&read).expect("strings and numbers");
        assert_eq!(json::read(&text), Ok(read));
    }
    if let Ok(read) = json::read::<ChatRequest>(bytes) {
        let text = serde_json::to_vec(&read).expect("strings and numbers");
        assert_eq!(json::read(&text), Ok(read));
    }
}
