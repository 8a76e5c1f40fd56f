//! Tool calls without marks: at the beginning of an answer, or as plain JSON after a few words at
//! its end. Not for calls between marks.

use hearken_ports::OfferedTool;
use serde_json::Value;

use super::beginning::{Beginning, is_over};
use super::call::{MAX_CALLS, as_written};
use super::heads;
use super::objects::{self, Reading};

/// Maximum size of text that is held back, in bytes: longer text is not a call.
const MOST_KEPT: usize = 8 << 10;
/// First keys of an object that may be a call.
const FIRST_KEYS: [&str; 23] = [
    "action",
    "action_input",
    "args",
    "arguments",
    "call_id",
    "calls",
    "function",
    "function_call",
    "function_name",
    "id",
    "index",
    "input",
    "inputs",
    "kwargs",
    "name",
    "parameters",
    "params",
    "tool",
    "tool_call",
    "tool_calls",
    "tool_input",
    "tool_name",
    "type",
];
/// Word before a list of calls, by Phi and FireFunction.
const LIST: &str = "functools";
const FENCE: &str = "```";
const JSON: &str = "json";

/// Place of a text in its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At the beginning.
    Start,
    /// After calls, before any words.
    AfterCalls,
    /// At the beginning of a line, after words.
    AfterWords,
}

/// Classifies the answer from this place on. `text` is the part received so far; with `end`, it is
/// all.
pub(super) fn beginning(text: &str, tools: &[OfferedTool], place: Place, end: bool) -> Beginning {
    let is_long = text.len() >= MOST_KEPT;
    let text = &text[..text.floor_char_boundary(MOST_KEPT)];
    let begins = read(text, tools, place, end && !is_long);
    let is_unknown = matches!(begins, Beginning::Unknown);
    if is_unknown && (end || is_long) { Beginning::Text } else { begins }
}

fn read(whole: &str, tools: &[OfferedTool], place: Place, end: bool) -> Beginning {
    let mut text = whole.trim_start();
    if place == Place::AfterCalls {
        text = text.trim_start_matches(|c: char| matches!(c, ';' | ',') || c.is_whitespace());
        if text.is_empty() && end {
            return Beginning::Calls(Vec::new(), whole.len());
        }
    }
    if place != Place::AfterWords
        && let Some(begins) = heads::read(text, tools, end)
    {
        return match begins {
            Beginning::Calls(calls, used) => {
                Beginning::Calls(calls, whole.len() - text.len() + used)
            }
            begins => begins,
        };
    }
    match json(text, tools, place, end) {
        Beginning::Calls(calls, left) => Beginning::Calls(calls, whole.len() - left),
        begins => begins,
    }
}

/// Reads calls as JSON, with the length of the text after them.
fn json(text: &str, tools: &[OfferedTool], place: Place, end: bool) -> Beginning {
    let Some((fenced, json)) = opened(text) else {
        return if may_open(text) { Beginning::Unknown } else { Beginning::Text };
    };
    match first_key(json) {
        None => return Beginning::Unknown,
        Some(key) if !FIRST_KEYS.contains(&key) => return Beginning::Text,
        Some(_) => {}
    }
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    let mut calls = Vec::new();
    let mut sure = true;
    let mut behind = json;
    // A fence may contain several values.
    while behind.len() == json.len() || (fenced && behind.trim_start().starts_with(['{', '['])) {
        let value = match values.next() {
            Some(Ok(value)) => value,
            Some(Err(error)) if !error.is_eof() => return Beginning::Text,
            _ => return Beginning::Unknown,
        };
        let entries = objects::entries(&value);
        if entries.is_empty() || entries.len() > MAX_CALLS {
            return Beginning::Text;
        }
        for entry in entries {
            match objects::read(entry, tools) {
                Reading::Call(call) => calls.push(call),
                Reading::Named(call) => {
                    sure = false;
                    calls.push(call);
                }
                Reading::Attempt => sure = false,
                Reading::Told | Reading::Other => return Beginning::Text,
            }
        }
        behind = &json[values.byte_offset()..];
    }
    let closing = behind.trim_start();
    let left = match closing.strip_prefix(FENCE).filter(|_| fenced) {
        Some(left) => left,
        None if fenced && !end && FENCE.starts_with(closing) => return Beginning::Unknown,
        None => behind,
    };
    // Text after it may be about it.
    if !sure || place == Place::AfterWords {
        match is_over(left, end) {
            None => return Beginning::Unknown,
            Some(false) => return Beginning::Text,
            Some(true) if !sure && place == Place::AfterWords => return Beginning::Text,
            Some(true) => {}
        }
    }
    Beginning::Calls(as_written(calls), left.len())
}

/// Returns the text from the opening bracket on, and whether a fence precedes it.
fn opened(text: &str) -> Option<(bool, &str)> {
    if let Some(list) = text.strip_prefix(LIST) {
        return list.starts_with('[').then_some((false, list));
    }
    let json = match text.strip_prefix(FENCE) {
        None => text,
        Some(rest) => {
            let rest = rest.strip_prefix(JSON).unwrap_or(rest);
            rest.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n')?.trim_start()
        }
    };
    json.starts_with(['{', '[']).then_some((json.len() < text.len(), json))
}

/// Reports whether a text may still become a fence with JSON in it, or a list.
fn may_open(text: &str) -> bool {
    if LIST.starts_with(text) {
        return true;
    }
    let Some(rest) = text.strip_prefix(FENCE) else { return FENCE.starts_with(text) };
    let language = rest.strip_prefix(JSON).unwrap_or(rest);
    JSON.starts_with(rest) || language.trim().is_empty()
}

/// Returns the first key of an object, also in an array; empty if there is something else. None if
/// it has not arrived yet.
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
