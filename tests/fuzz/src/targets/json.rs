//! The reader of all JSON from outside: it takes an object exactly where `serde_json` does, but
//! for names that stand twice, and reads the same from it.

use hearken_proto::chat::{ChatRequest, CreateSession};
use hearken_proto::json;
use serde_json::{Map, Value};

/// Tries one input.
///
/// # Panics
/// Panics if a promise above is broken.
pub fn run(bytes: &[u8]) {
    let bare = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let theirs = serde_json::from_slice::<Map<String, Value>>(bare);
    match (json::object(bytes), theirs) {
        (Ok(ours), theirs) => assert_eq!(Some(ours), theirs.ok()),
        (Err(error), Ok(_)) => assert_eq!(error.what(), "stands twice"),
        (Err(error), Err(_)) => assert!(error.to_string().chars().count() < 600, "{error}"),
    }
    // What is read is written, and read again as the same.
    if let Ok(read) = json::read::<CreateSession>(bytes) {
        let text = serde_json::to_vec(&read).expect("strings and numbers");
        assert_eq!(json::read(&text), Ok(read));
    }
    if let Ok(read) = json::read::<ChatRequest>(bytes) {
        let text = serde_json::to_vec(&read).expect("strings and numbers");
        assert_eq!(json::read(&text), Ok(read));
    }
}
