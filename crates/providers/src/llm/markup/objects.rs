//! Objects that name an offered tool: which of them are calls, and with which arguments. Only text
//! written as arguments becomes arguments. Not for finding objects in a text.

use hearken_ports::OfferedTool;
use serde_json::{Map, Value};

use super::call::{Call, offered};
use super::literal::Literal;

/// Fields with the name of a tool.
const NAMES: [&str; 6] = ["name", "function", "function_name", "tool_name", "tool", "action"];
/// Fields with the arguments of a call.
pub(super) const ARGUMENTS: [&str; 9] = [
    "arguments",
    "parameters",
    "args",
    "params",
    "tool_input",
    "input",
    "inputs",
    "kwargs",
    "action_input",
];
/// Fields that contain a call.
const WRAPPERS: [&str; 3] = ["function", "function_call", "tool_call"];
/// Fields that contain a list of calls.
const LISTS: [&str; 2] = ["tool_calls", "calls"];
/// Fields of a call that are not arguments.
const BESIDE: [&str; 4] = ["id", "call_id", "tool_call_id", "index"];
/// Values of the field `type` of a call.
const KINDS: [&str; 4] = ["function", "function_call", "tool_call", "tool_use"];
/// Fields of a tool's definition, and of its result.
const NO_CALL: [&str; 10] = [
    "description",
    "input_schema",
    "inputSchema",
    "schema",
    "result",
    "results",
    "output",
    "response",
    "tool_output",
    "error",
];
/// Types of JSON Schema.
const TYPES: [&str; 6] = ["object", "array", "string", "number", "integer", "boolean"];

/// Meaning of an object.
pub(super) enum Reading {
    /// Call with its arguments.
    Call(Call),
    /// Only the name of a tool: a call without arguments, if a call is expected.
    Named(Call),
    /// Call with ambiguous arguments.
    Attempt,
    /// Definition or result of a tool.
    Told,
    /// No offered tool is named.
    Other,
}

/// Returns the calls that a value may contain: itself, or the entries of its list.
pub(super) fn entries(value: &Value) -> Vec<&Value> {
    let listed = LISTS.iter().find_map(|key| value.get(*key)?.as_array());
    match listed.or_else(|| value.as_array()) {
        Some(all) => all.iter().collect(),
        None => vec![value],
    }
}

/// Reads `{"name": .., "arguments": ..}` and its variants.
pub(super) fn read(value: &Value, tools: &[OfferedTool]) -> Reading {
    let Some(fields) = fields(value) else { return Reading::Other };
    let named = NAMES.iter().find_map(|wanted| {
        fields.iter().filter(|(key, _)| key == wanted).find_map(|(_, value)| value.as_str())
    });
    let Some(tool) = named.and_then(|name| offered(name, tools)) else { return Reading::Other };
    if fields.iter().any(|(key, _)| NO_CALL.contains(key)) {
        return Reading::Told;
    }
    let is_its_name = |key: &str, value: &Value| {
        let named = value.as_str().and_then(|name| offered(name, tools));
        NAMES.contains(&key) && named.is_some_and(|named| named.name == tool.name)
    };
    let is_kind = |key: &str, value: &Value| {
        key == "type" && value.as_str().is_some_and(|kind| KINDS.contains(&kind))
    };
    let mut written = None;
    // Fields beside the call whose meaning is unknown.
    let mut unknown = false;
    let mut declared = false;
    for (key, value) in fields {
        if ARGUMENTS.contains(&key) {
            if written.replace(value).is_some() {
                return Reading::Attempt;
            }
        } else if !is_its_name(key, value) && !is_kind(key, value) {
            let beside = BESIDE.contains(&key);
            unknown |= !beside || is_declared(tool, key);
            declared |= !beside && is_declared(tool, key);
        }
    }
    let Some(written) = written else {
        let call = (tool.name.clone(), Map::new());
        return if unknown { Reading::Attempt } else { Reading::Named(call) };
    };
    match arguments(written) {
        Some(arguments) if is_schema(&arguments, tool) => Reading::Told,
        Some(arguments) if !(declared || unknown && arguments.is_empty()) => {
            Reading::Call((tool.name.clone(), arguments))
        }
        _ => Reading::Attempt,
    }
}

/// Parses a whole text as one object, as JSON or Python writes it.
pub(super) fn whole(text: &str) -> Option<Map<String, Value>> {
    let text = text.trim();
    serde_json::from_str(text).ok().or_else(|| {
        let (fields, behind) = Literal::object(text)?;
        behind.trim().is_empty().then_some(fields)
    })
}

/// Reports whether a tool has a parameter of this name.
pub(super) fn is_declared(tool: &OfferedTool, name: &str) -> bool {
    tool.parameters["properties"].get(name).is_some()
}

/// Reports whether these are not arguments, but the parameters that a tool's definition declares.
pub(super) fn is_schema(arguments: &Map<String, Value>, tool: &OfferedTool) -> bool {
    let kind = |value: &Value| {
        let kind = value.as_str().map(str::to_ascii_lowercase).unwrap_or_default();
        TYPES.iter().position(|known| *known == kind)
    };
    let undeclared = |key: &str| !is_declared(tool, key);
    let whole = arguments.get("type").and_then(kind) == Some(0) && undeclared("type");
    let lists = arguments.get("properties").is_some_and(Value::is_object);
    let each = |(key, value): (&String, &Value)| {
        kind(&value["type"]).is_some() && tool.parameters["properties"][key]["type"] != "object"
    };
    let typed = !arguments.is_empty() && arguments.iter().all(each);
    whole || (lists && undeclared("properties")) || typed
}

/// Returns the fields of an object, with those of the call that it contains.
fn fields(value: &Value) -> Option<Vec<(&str, &Value)>> {
    let outer = value.as_object()?;
    let wrapped = WRAPPERS.iter().find_map(|key| Some((*key, outer.get(*key)?.as_object()?)));
    let (wrapper, inner) = wrapped.unzip();
    let outer = outer.iter().filter(|(key, _)| wrapper != Some(key.as_str()));
    let all = outer.chain(inner.into_iter().flatten());
    Some(all.map(|(key, value)| (key.as_str(), value)).collect())
}

fn arguments(written: &Value) -> Option<Map<String, Value>> {
    match written {
        Value::Object(arguments) => Some(arguments.clone()),
        Value::Null => Some(Map::new()),
        Value::String(text) if text.trim().is_empty() => Some(Map::new()),
        Value::String(text) => whole(text),
        _ => None,
    }
}
