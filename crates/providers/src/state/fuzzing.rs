//! Fuzz target: the answers of a state server.

use serde_json::Value;

use super::answer::{self, MAX_TEXT_CHARS};

/// Any body is parsed or rejected, with any status; texts are bounded, tools and events have names.
///
/// # Panics
/// Panics if one of these properties is broken.
pub fn state_answers(bytes: &[u8]) {
    for status in [400, 401, 404, 409, 422, 500, 503] {
        let told = answer::refusal(status, bytes).to_string();
        assert!(told.chars().count() < MAX_TEXT_CHARS + 100, "{told}");
    }
    let Ok(body) = serde_json::from_slice::<Value>(bytes) else { return };
    if let Ok(tools) = answer::tools(&body) {
        for (n, tool) in tools.iter().enumerate() {
            assert!(!tool.name.is_empty() && tool.parameters.is_object());
            assert!(tools[..n].iter().all(|other| other.name != tool.name));
        }
    }
    if let Ok(outcome) = answer::outcome(body.clone()) {
        assert!(outcome.events.iter().all(|event| !event.kind.is_empty()));
        assert!(outcome.error.is_none_or(|error| error.chars().count() <= MAX_TEXT_CHARS));
    }
    assert_eq!(answer::state(body.clone()).is_ok(), body.is_object());
}
