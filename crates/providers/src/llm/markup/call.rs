//! A tool call that a model wrote as text: its tool and its arguments. Not for the formats.

use hearken_ports::OfferedTool;
use serde_json::{Map, Value};

/// Maximum number of calls of one text. Further ones are ignored.
pub(super) const MAX_CALLS: usize = 16;

/// Tool, with its arguments.
pub(super) type Call = (String, Map<String, Value>);

/// Returns the arguments of these calls as text.
pub(super) fn as_written(mut calls: Vec<Call>) -> Vec<(String, String)> {
    calls.truncate(MAX_CALLS);
    calls
        .into_iter()
        .map(|(name, arguments)| (name, Value::Object(arguments).to_string()))
        .collect()
}

/// Returns the offered tool of this name. Models write dots or slashes in names, as in an earlier
/// name of the tool, and a namespace: `functions.f:0`.
pub(super) fn offered<'a>(name: &str, tools: &'a [OfferedTool]) -> Option<&'a OfferedTool> {
    let name = name.trim();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let legal: String = name.chars().map(plain).collect();
    let unnumbered = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let unnumbered = unnumbered.strip_suffix(':').unwrap_or(name);
    let last = unnumbered.rsplit(['.', '/', ':']).next().unwrap_or_default();
    let named = |wanted: &str| tools.iter().find(|tool| tool.name == wanted);
    named(name).or_else(|| named(&legal)).or_else(|| named(last))
}
