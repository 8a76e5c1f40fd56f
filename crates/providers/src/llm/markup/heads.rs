//! Tool calls without marks that start with a tool's name: `[f(x=1)]` (Llama), `f` with an object
//! on the next line (GLM-4), `>>>f` (Functionary), and headers of gpt-oss without their tokens. Not
//! for objects that contain the name.

use hearken_ports::OfferedTool;
use serde_json::{Map, Value};

use super::beginning::{Beginning, is_over};
use super::call::{as_written, offered};
use super::objects::{is_declared, is_schema};
use super::written_calls::listed;

/// Maximum length of a tool's name, in bytes.
const LONGEST_NAME: usize = 128;
/// Mark of Functionary before a name, and its name for text.
const PROMPT: &str = ">>>";
const TEXT: &str = "all";
/// Header of gpt-oss, and the words that may follow the name.
const HEADER: &str = "commentary to=";
const FORMATS: [&str; 2] = ["json", "code"];

/// Text before an object with arguments.
enum Head<'a> {
    /// Not decided yet.
    Unknown,
    /// No head.
    No,
    /// Mark of this length before text, which is the answer.
    Text(usize),
    /// Name of a tool, before this text. `plain`: there is no mark before it.
    Named { tool: &'a OfferedTool, body: &'a str, plain: bool },
}

/// Reads the beginning of an answer. Returns none if there is no head.
pub(super) fn read(text: &str, tools: &[OfferedTool], end: bool) -> Option<Beginning> {
    if text.starts_with('[') {
        return list(text, tools, end);
    }
    let (tool, body, plain) = match head(text, tools) {
        Head::Unknown => return Some(Beginning::Unknown),
        Head::No => return None,
        Head::Text(len) => return Some(Beginning::Calls(Vec::new(), len)),
        Head::Named { tool, body, plain } => (tool, body, plain),
    };
    if body.is_empty() {
        return Some(Beginning::Unknown);
    }
    let mut values = serde_json::Deserializer::from_str(body).into_iter::<Map<String, Value>>();
    let arguments = match values.next() {
        Some(Ok(arguments)) => arguments,
        Some(Err(error)) if !error.is_eof() => return Some(Beginning::Text),
        _ => return Some(Beginning::Unknown),
    };
    let declared = arguments.keys().all(|name| is_declared(tool, name));
    if !declared || is_schema(&arguments, tool) {
        return Some(Beginning::Text);
    }
    let left = &body[values.byte_offset()..];
    match is_over(left, end) {
        None if plain => return Some(Beginning::Unknown),
        Some(false) if plain => return Some(Beginning::Text),
        _ => {}
    }
    let calls = as_written(vec![(tool.name.clone(), arguments)]);
    Some(Beginning::Calls(calls, text.len() - left.len()))
}

/// Reads `[f(x=1)]` at the end of an answer.
fn list(text: &str, tools: &[OfferedTool], end: bool) -> Option<Beginning> {
    let (name, behind) = named(text.strip_prefix('[')?.trim_start());
    let plain = |c: char| if c == '.' { '_' } else { c };
    let legal: String = name.chars().map(plain).collect();
    if name.is_empty() {
        return None;
    }
    if behind.is_empty() {
        let begins = tools.iter().any(|tool| tool.name.starts_with(&legal));
        return begins.then_some(Beginning::Unknown);
    }
    if !behind.starts_with('(') || tools.iter().all(|tool| tool.name != legal) {
        return None;
    }
    let Some((calls, left)) = listed(text, tools) else { return Some(Beginning::Unknown) };
    Some(match is_over(left, end) {
        None => Beginning::Unknown,
        Some(false) => Beginning::Text,
        Some(true) => Beginning::Calls(as_written(calls), text.len() - left.len()),
    })
}

fn head<'a>(text: &'a str, tools: &'a [OfferedTool]) -> Head<'a> {
    if [PROMPT, HEADER].iter().any(|mark| mark.starts_with(text)) {
        return Head::Unknown;
    }
    if let Some(rest) = text.strip_prefix(HEADER) {
        let (name, behind) = named(rest);
        if behind.is_empty() && name.len() <= LONGEST_NAME {
            return Head::Unknown;
        }
        let Some(tool) = offered(name, tools) else { return Head::No };
        let body = behind.trim_start();
        if FORMATS.iter().any(|format| format.starts_with(body)) {
            return Head::Unknown;
        }
        let body = FORMATS.iter().find_map(|format| body.strip_prefix(format)).unwrap_or(body);
        return before(tool, body, false);
    }
    let (rest, plain) = match text.strip_prefix(PROMPT) {
        Some(rest) => (rest, false),
        None => (text, true),
    };
    let (name, behind) = named(rest);
    let begins = |tool: &OfferedTool| tool.name.starts_with(name);
    if behind.is_empty() {
        let known = tools.iter().any(begins) || (!plain && TEXT.starts_with(name));
        return if known { Head::Unknown } else { Head::No };
    }
    let Some(body) = behind.strip_prefix('\n') else { return Head::No };
    match tools.iter().find(|tool| tool.name == name) {
        Some(tool) => before(tool, body, plain),
        None if !plain && name == TEXT => Head::Text(text.len() - body.len()),
        None => Head::No,
    }
}

/// Returns the head of this object; none if there is something else.
fn before<'a>(tool: &'a OfferedTool, body: &'a str, plain: bool) -> Head<'a> {
    let body = body.trim_start();
    if body.is_empty() || body.starts_with('{') {
        Head::Named { tool, body, plain }
    } else {
        Head::No
    }
}

/// Splits a text after the name at its beginning.
fn named(text: &str) -> (&str, &str) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let behind = text.trim_start_matches(is_name);
    (&text[..text.len() - behind.len()], behind)
}
