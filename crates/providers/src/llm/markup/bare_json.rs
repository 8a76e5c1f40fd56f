//! Tool calls that a model writes as plain JSON at the beginning of its answer, with or without a
//! fence. Not for calls between marks.

use hearken_ports::OfferedTool;
use serde_json::Value;

use super::written_calls;

/// Longest text that is held back, in bytes: a longer answer is none.
const MOST_KEPT: usize = 8 << 10;
/// First keys of an object that may be a call.
const FIRST_KEYS: [&str; 12] = [
    "action",
    "args",
    "arguments",
    "function",
    "id",
    "input",
    "name",
    "parameters",
    "tool",
    "tool_calls",
    "tool_name",
    "type",
];
const FENCE: &str = "```";
const JSON: &str = "json";

/// What an answer begins with.
pub(super) enum Beginning {
    /// It is not known yet.
    Unknown,
    /// Text.
    Text,
    /// Calls, each with its tool and arguments, in so many bytes.
    Calls(Vec<(String, String)>, usize),
}

/// Reads the beginning of an answer, of which this text is known; all of it at its `end`.
pub(super) fn beginning(text: &str, tools: &[OfferedTool], end: bool) -> Beginning {
    let begins = read(text, tools, end);
    let is_over = end || text.len() >= MOST_KEPT;
    if is_over && matches!(begins, Beginning::Unknown) { Beginning::Text } else { begins }
}

fn read(text: &str, tools: &[OfferedTool], end: bool) -> Beginning {
    let Some((fenced, json)) = opened(text) else {
        return if may_open(text.trim_start()) { Beginning::Unknown } else { Beginning::Text };
    };
    match first_key(json) {
        None => return Beginning::Unknown,
        Some(key) if !FIRST_KEYS.contains(&key) => return Beginning::Text,
        Some(_) => {}
    }
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    let value = match values.next() {
        Some(Ok(value)) => value,
        Some(Err(error)) if !error.is_eof() => return Beginning::Text,
        _ => return Beginning::Unknown,
    };
    let value = match value {
        Value::Object(mut fields) if fields.contains_key("tool_calls") => {
            fields.remove("tool_calls").unwrap_or_default()
        }
        value => value,
    };
    let wanted = value.as_array().map_or(1, Vec::len);
    let calls = written_calls::calls(&value.to_string(), tools);
    if calls.is_empty() || calls.len() != wanted {
        return Beginning::Text;
    }
    let behind = &json[values.byte_offset()..];
    let closing = behind.trim_start();
    let left = match closing.strip_prefix(FENCE).filter(|_| fenced) {
        Some(left) => left,
        None if fenced && !end && FENCE.starts_with(closing) => return Beginning::Unknown,
        None => behind,
    };
    Beginning::Calls(calls, text.len() - left.len())
}

/// Returns the text from the opening bracket on, and whether a fence stands before it.
fn opened(text: &str) -> Option<(bool, &str)> {
    let text = text.trim_start();
    let json = match text.strip_prefix(FENCE) {
        None => text,
        Some(rest) => {
            let rest = rest.strip_prefix(JSON).unwrap_or(rest);
            rest.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n')?.trim_start()
        }
    };
    json.starts_with(['{', '[']).then_some((json.len() < text.len(), json))
}

/// Reports whether a text may still become a fence with JSON behind it.
fn may_open(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(FENCE) else { return FENCE.starts_with(text) };
    let language = rest.strip_prefix(JSON).unwrap_or(rest);
    JSON.starts_with(rest) || language.trim().is_empty()
}

/// Returns the first key of an object, also in an array; empty if there is something else. `None` if
/// it is not there yet.
fn first_key(json: &str) -> Option<&str> {
    let inner = json.trim_start_matches(|c: char| c == '[' || c.is_whitespace());
    if inner.is_empty() {
        return None;
    }
    let Some(inner) = inner.strip_prefix('{').map(str::trim_start) else { return Some("") };
    if inner.is_empty() {
        return None;
    }
    let Some(inner) = inner.strip_prefix('"') else { return Some("") };
    inner.split_once('"').map(|(key, _)| key)
}
