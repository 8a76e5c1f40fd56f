//! Tool calls that a model wrote as text, in the known formats, converted to real calls. Not for
//! their position in an answer.
//!
//! - `{"name": "f", "arguments": {..}}`, one or several, also in an array (Qwen, Hermes, Granite);
//! - `<function=f>{..}</function>`, or with `<parameter=x>1</parameter>` in it (Llama, Qwen-Coder);
//! - `f <arg_key>x</arg_key> <arg_value>1</arg_value>` (GLM);
//! - `f{..}`, with tokens around the name (Mistral, Kimi, DeepSeek).

use hearken_ports::OfferedTool;
use serde_json::{Map, Value};

/// Most calls of one text. Further ones are ignored.
const MAX_CALLS: usize = 16;

/// Returns the calls of offered tools in the text between two marks: each tool's name as it was
/// offered, and its arguments as a JSON object. Other text is ignored.
pub(super) fn calls(text: &str, tools: &[OfferedTool]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let begins = ["<|tool_call_begin|>", "<｜tool▁call▁begin｜>", "<|tool▁call▁begin|>"];
    let parts = begins.iter().fold(vec![text], |parts, mark| {
        parts.into_iter().flat_map(|part| part.split(mark)).collect()
    });
    for part in parts {
        let read = elements(part, tools)
            .or_else(|| pairs(part, tools))
            .unwrap_or_else(|| objects(part, tools));
        found.extend(read);
    }
    found.truncate(MAX_CALLS);
    found
        .into_iter()
        .map(|(name, arguments)| (name, Value::Object(arguments).to_string()))
        .collect()
}

type Call = (String, Map<String, Value>);

/// Returns the offered tool of this name. Models write dots or slashes in names, as the tool may
/// have been called before.
fn offered<'a>(name: &str, tools: &'a [OfferedTool]) -> Option<&'a OfferedTool> {
    let name = name.trim();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let legal: String = name.chars().map(plain).collect();
    tools.iter().find(|tool| tool.name == name).or_else(|| tools.iter().find(|t| t.name == legal))
}

/// Parses `<function=f>` and its content.
fn elements(text: &str, tools: &[OfferedTool]) -> Option<Vec<Call>> {
    let mut found = None::<Vec<Call>>;
    let mut rest = text;
    while let Some(at) = rest.find("<function=") {
        let behind = &rest[at + "<function=".len()..];
        let (name, body) = behind.split_once('>')?;
        let (body, after) = body.split_once("</function>").unwrap_or((body, ""));
        rest = after;
        let found = found.get_or_insert_default();
        let Some(tool) = offered(name.trim_matches(['"', '\'']), tools) else { continue };
        let whole = serde_json::from_str(body.trim()).ok();
        let arguments = whole.or_else(|| parameters(body, tool));
        found.extend(arguments.map(|arguments| (tool.name.clone(), arguments)));
    }
    found
}

fn parameters(body: &str, tool: &OfferedTool) -> Option<Map<String, Value>> {
    let mut arguments = Map::new();
    for part in body.split("<parameter=").skip(1) {
        let (name, value) = part.split_once('>')?;
        let value = value.split("</parameter>").next().unwrap_or_default();
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        let name = name.trim_matches(['"', '\'']);
        arguments.insert(name.to_owned(), as_declared(value, name, tool));
    }
    let nothing = arguments.is_empty() && !body.trim().is_empty();
    (!nothing).then_some(arguments)
}

/// Parses a value without quotes: a string if the tool declares one, else JSON.
fn as_declared(value: &str, name: &str, tool: &OfferedTool) -> Value {
    let text = tool.parameters["properties"][name]["type"] == "string";
    let read = || serde_json::from_str(value.trim()).ok();
    read().filter(|_| !text).unwrap_or_else(|| Value::String(value.to_owned()))
}

/// Parses a name, followed by its arguments as pairs of elements.
fn pairs(text: &str, tools: &[OfferedTool]) -> Option<Vec<Call>> {
    let (name, body) = text.split_once("<arg_key>")?;
    let Some(tool) = offered(name, tools) else { return Some(Vec::new()) };
    let mut arguments = Map::new();
    for pair in body.split("<arg_key>") {
        let Some((key, value)) = pair.split_once("</arg_key>") else { return Some(Vec::new()) };
        let value = value.trim_start().strip_prefix("<arg_value>").unwrap_or_default();
        let value = value.split("</arg_value>").next().unwrap_or_default();
        arguments.insert(key.trim().to_owned(), as_declared(value, key.trim(), tool));
    }
    Some(vec![(tool.name.clone(), arguments)])
}

/// Parses objects that contain their tool's name, or that follow it.
fn objects(text: &str, tools: &[OfferedTool]) -> Vec<Call> {
    let mut found = Vec::new();
    let mut rest = text;
    // Start of the text before the current object, after the previous one.
    let mut begun = 0;
    while let Some(at) = rest.find(['{', '[']) {
        let from = &rest[at..];
        let before = &text[begun..text.len() - from.len()];
        let mut values = serde_json::Deserializer::from_str(from).into_iter::<Value>();
        let Some(Ok(value)) = values.next() else {
            // `[ARGS]` and similar tokens.
            rest = &from[1..];
            continue;
        };
        rest = &from[values.byte_offset()..];
        begun = text.len() - rest.len();
        match value {
            Value::Array(all) => found.extend(all.iter().filter_map(|one| object(one, tools))),
            value => match object(&value, tools) {
                Some(call) => found.push(call),
                None => found.extend(named(before, value, tools)),
            },
        }
        if found.len() >= MAX_CALLS {
            break;
        }
    }
    found
}

/// Parses `{"name": .., "arguments": ..}` and its variants.
fn object(value: &Value, tools: &[OfferedTool]) -> Option<Call> {
    let inner = value.get("function").filter(|function| function.is_object()).unwrap_or(value);
    let name =
        ["name", "function", "tool_name", "tool"].iter().find_map(|key| inner[key].as_str())?;
    let tool = offered(name, tools)?;
    let arguments = ["arguments", "parameters", "args", "input"]
        .iter()
        .find_map(|key| inner.get(key))
        .unwrap_or(&Value::Null);
    let arguments = match arguments {
        Value::Object(arguments) => arguments.clone(),
        Value::Null => Map::new(),
        Value::String(text) if text.trim().is_empty() => Map::new(),
        Value::String(text) => serde_json::from_str(text).ok()?,
        _ => return None,
    };
    Some((tool.name.clone(), arguments))
}

/// Parses arguments that follow a tool's name.
fn named(before: &str, value: Value, tools: &[OfferedTool]) -> Option<Call> {
    let Value::Object(arguments) = value else { return None };
    let words = before.split(|c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c)));
    let tool = words.filter(|word| !word.is_empty()).find_map(|word| {
        let last = word.rsplit('.').next().unwrap_or_default();
        offered(word, tools).or_else(|| offered(last, tools))
    })?;
    Some((tool.name.clone(), arguments))
}
