//! Meaning of finish reasons: those of vendors and of servers that resemble them. Not for their place
//! in an answer.

use hearken_ports::{ProviderError, ProviderErrorKind};
use serde_json::Value;

/// Reasons of an answer that the model has finished. Others permit no calls, which may be incomplete.
const COMPLETE: [&str; 16] = [
    "stop",
    "stop_sequence",
    "stopped",
    "end",
    "end_turn",
    "eos",
    "eos_token",
    "complete",
    "completed",
    "normal",
    "tool_call",
    "tool_calls",
    "tool_use",
    "tooluse",
    "function_call",
    "function_calls",
];
/// Reasons of an answer that was truncated at its maximum length.
const TRUNCATED: [&str; 7] = [
    "length",
    "max_length",
    "max_output",
    "max_output_tokens",
    "max_tokens",
    "model_length",
    "model_context_window_exceeded",
];
/// Reasons of an answer that a filter of its vendor ended, or that the model declined.
const FILTERED: [&str; 10] = [
    "content_filter",
    "content_filtered",
    "error_toxic",
    "guardrail_intervened",
    "prohibited_content",
    "recitation",
    "refusal",
    "safety",
    "sensitive",
    "spii",
];
/// Words that some servers write while there is no reason.
const MISSING: [&str; 3] = ["", "none", "null"];
/// Reason that is no word.
const UNKNOWN: &str = "unknown";
/// Maximum length of a reason in an error, in bytes.
const MAX_WORD_BYTES: usize = 64;

/// End of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// The model has finished. Its calls may be made.
    Complete,
    /// Truncated at the maximum length. Calls whose arguments are whole may be made.
    Truncated,
    /// Ended by a filter. No call may be made.
    Filtered,
    /// Ended by a failure, or for a reason that is not known: this word. No call may be made.
    BrokenOff(String),
}

impl Ending {
    /// Returns the meaning of a finish reason; `None` if the answer goes on.
    pub(super) fn of(reason: &Value) -> Option<Self> {
        let written = match reason {
            Value::String(word) => word.as_str(),
            // Some servers send an object with a type.
            Value::Object(fields) => fields.get("type").and_then(Value::as_str).unwrap_or(UNKNOWN),
            _ => return None,
        };
        let word = written.trim().to_ascii_lowercase();
        let is_in = |words: &[&str]| words.contains(&word.as_str());
        if is_in(&MISSING) {
            None
        } else if is_in(&COMPLETE) {
            Some(Self::Complete)
        } else if is_in(&TRUNCATED) {
            Some(Self::Truncated)
        } else if is_in(&FILTERED) {
            Some(Self::Filtered)
        } else {
            Some(Self::BrokenOff(plain(word)))
        }
    }

    /// Returns the error of an answer that ended in this way and cannot be used: within its calls, or
    /// before any words. `None` if the model had finished, or was truncated.
    pub(super) fn failure(&self, provider: &'static str) -> Option<ProviderError> {
        match self {
            Self::Complete | Self::Truncated => None,
            Self::Filtered => {
                let why = "the model declined to answer, or a filter ended the answer";
                Some(ProviderError::because(provider, ProviderErrorKind::BadRequest, why))
            }
            Self::BrokenOff(word) => {
                let why = format!("the answer is not complete: its finish reason is {word}");
                Some(ProviderError::because(provider, ProviderErrorKind::Unavailable, why))
            }
        }
    }
}

/// Returns a word of a server as it may be shown.
fn plain(word: String) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    let fits = word.len() <= MAX_WORD_BYTES && word.bytes().all(is_plain);
    if fits { word } else { UNKNOWN.into() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_known_reasons_are_those_of_a_complete_answer() {
        let broken = |word: &str| Some(Ending::BrokenOff(word.into()));
        for (reason, ending) in [
            (json!("stop"), Some(Ending::Complete)),
            (json!("STOP"), Some(Ending::Complete)),
            (json!(" tool_calls "), Some(Ending::Complete)),
            (json!("function_call"), Some(Ending::Complete)),
            (json!("end_turn"), Some(Ending::Complete)),
            (json!("tool_use"), Some(Ending::Complete)),
            (json!("stop_sequence"), Some(Ending::Complete)),
            (json!({ "type": "eos_token" }), Some(Ending::Complete)),
            (json!("length"), Some(Ending::Truncated)),
            (json!("MAX_TOKENS"), Some(Ending::Truncated)),
            (json!("model_context_window_exceeded"), Some(Ending::Truncated)),
            (json!("content_filter"), Some(Ending::Filtered)),
            (json!("SAFETY"), Some(Ending::Filtered)),
            (json!("error"), broken("error")),
            (json!("insufficient_system_resource"), broken("insufficient_system_resource")),
            (json!("abort"), broken("abort")),
            (json!("pause_turn"), broken("pause_turn")),
            (json!("MALFORMED_FUNCTION_CALL"), broken("malformed_function_call")),
            (json!("you said Hello"), broken("unknown")),
            (json!("x".repeat(65)), broken("unknown")),
            (json!({}), broken("unknown")),
            (json!({ "type": 7 }), broken("unknown")),
            (json!(null), None),
            (json!(""), None),
            (json!("null"), None),
            (json!(false), None),
            (json!(0), None),
        ] {
            assert_eq!(Ending::of(&reason), ending, "{reason}");
        }
    }
}
