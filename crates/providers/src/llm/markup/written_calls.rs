//! Tool calls that a model wrote as text, in the known formats, converted to real calls. Not for
//! their position in an answer.
//!
//! - `{"name": "f", "arguments": {..}}`, one or several, also in an array or as Python writes it
//!   (Qwen, Hermes, Granite), and `{"f": {..}}` (Apertus);
//! - `<function=f>{..}</function>`, or with `<parameter=x>1</parameter>` in it (Llama, Qwen-Coder);
//! - `f <arg_key>x</arg_key> <arg_value>1</arg_value>`, or only `f` (GLM, LongCat);
//! - `f{..}`, with tokens around the name (Mistral, Kimi, DeepSeek, gpt-oss);
//! - `<invoke name="f">` with `<parameter name="x">1</parameter>` in it (Claude, MiniMax, DeepSeek);
//! - `[f(x=1)]`, as in Python (LFM, Gemma, Llama), and `call:f{x:1}` (Gemma).

use hearken_ports::OfferedTool;
use serde_json::{Map, Value};

use super::call::{Call, MAX_CALLS, as_written, offered};
use super::literal::Literal;
use super::objects::{self, Reading};

/// Maximum number of objects of one text that are parsed as Python.
const MAX_LITERALS: usize = 16;

/// Returns the calls of offered tools in the text between two marks: each tool's name as it was
/// offered, and its arguments as a JSON object. Other text is ignored. `closed`: the text has its
/// closing mark, so a name alone is a call without arguments.
pub(super) fn calls(text: &str, closed: bool, tools: &[OfferedTool]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let begins = ["<|tool_call_begin|>", "<｜tool▁call▁begin｜>", "<|tool▁call▁begin|>"];
    let parts = begins.iter().fold(vec![text], |parts, mark| {
        parts.into_iter().flat_map(|part| part.split(mark)).collect()
    });
    for part in parts {
        let read = elements(part, tools)
            .or_else(|| invocations(part, tools))
            .or_else(|| pairs(part, tools))
            .or_else(|| expressions(part, tools))
            .or_else(|| bare_keys(part, tools))
            .or_else(|| if closed { alone(part, tools) } else { None })
            .unwrap_or_else(|| from_objects(part, tools));
        found.extend(read);
    }
    as_written(found)
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
        let arguments = objects::whole(body).or_else(|| parameters(body, tool));
        let arguments = arguments.filter(|arguments| !objects::is_schema(arguments, tool));
        found.extend(arguments.map(|arguments| (tool.name.clone(), arguments)));
    }
    found
}

/// Parses `<parameter=x>1</parameter>`, one after the other. Returns none if there is anything else
/// between them: it may be an argument, too.
fn parameters(body: &str, tool: &OfferedTool) -> Option<Map<String, Value>> {
    let mut arguments = Map::new();
    let mut parts = body.split("<parameter=");
    if parts.next().is_some_and(is_more) {
        return None;
    }
    for part in parts {
        let (name, value) = part.split_once('>')?;
        let (value, behind) = value.split_once("</parameter>").unwrap_or((value, ""));
        if is_more(behind) {
            return None;
        }
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        let name = name.trim_matches(['"', '\'']);
        arguments.insert(name.to_owned(), as_declared(value, name, tool));
    }
    Some(arguments)
}

/// Reports whether a text between parameters has content: closing tags and tokens do not count.
fn is_more(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && !text.starts_with("</") && !text.starts_with("<|")
}

/// Parses a value without quotes: a string if the tool declares one, else JSON.
fn as_declared(value: &str, name: &str, tool: &OfferedTool) -> Value {
    let text = tool.parameters["properties"][name]["type"] == "string";
    let read = || serde_json::from_str(value.trim()).ok();
    read().filter(|_| !text).unwrap_or_else(|| Value::String(value.to_owned()))
}

/// Parses `<invoke name="f">` and its parameters, with anything between `<` and either name.
fn invocations(text: &str, tools: &[OfferedTool]) -> Option<Vec<Call>> {
    let mut found = None::<Vec<Call>>;
    for part in text.split("invoke name=").skip(1) {
        let found = found.get_or_insert_default();
        let (name, body) = part.split_once('>')?;
        let Some(tool) = offered(name.trim().trim_matches(['"', '\'']), tools) else { continue };
        let body = body.split("invoke>").next().unwrap_or_default();
        let arguments = named_parameters(body, tool).or_else(|| objects::whole(untagged(body)));
        let arguments = arguments.filter(|arguments| !objects::is_schema(arguments, tool));
        found.extend(arguments.map(|arguments| (tool.name.clone(), arguments)));
    }
    found
}

/// Parses `<parameter name="x">1</parameter>`, one after the other. Returns none if there is
/// anything else between them: it may be an argument, too.
fn named_parameters(body: &str, tool: &OfferedTool) -> Option<Map<String, Value>> {
    let mut arguments = Map::new();
    let mut parts = body.split("parameter name=");
    let before = parts.next().unwrap_or_default();
    if !untagged(before).trim().is_empty() {
        return None;
    }
    for part in parts {
        let (head, value) = part.split_once('>')?;
        let (name, attributes) = head.split_once(' ').unwrap_or((head, ""));
        let name = name.trim_matches(['"', '\'']);
        let (value, behind) = value.rsplit_once("parameter>").unwrap_or((value, ""));
        if !untagged(behind).trim().is_empty() {
            return None;
        }
        let end = value.rfind("</").unwrap_or(value.len());
        let value = value[..end].trim_matches('\n');
        let value = match attributes.contains("string=\"true\"") {
            true => Value::String(value.to_owned()),
            false => as_declared(value, name, tool),
        };
        arguments.insert(name.to_owned(), value);
    }
    Some(arguments)
}

/// Returns the text before its last tag, which belongs to the following text.
fn untagged(text: &str) -> &str {
    text.rsplit_once('<').map_or(text, |(text, _)| text)
}

/// Parses `[f(x=1), g(y="z")]`, also alone and in `print()`. Returns none if the text has another
/// form.
fn expressions(text: &str, tools: &[OfferedTool]) -> Option<Vec<Call>> {
    let text = text.trim();
    let text =
        text.strip_prefix("print(").map_or(text, |inner| inner.strip_suffix(')').unwrap_or(inner));
    sequence(text.trim().trim_start_matches('['), tools).map(|(found, _)| found)
}

/// Parses `[f(x=1), g(y="z")]` at the beginning of a text, and returns the text after it, too.
pub(super) fn listed<'a>(text: &'a str, tools: &[OfferedTool]) -> Option<(Vec<Call>, &'a str)> {
    let (found, behind) = sequence(text.strip_prefix('[')?, tools)?;
    Some((found, behind.strip_prefix(']')?))
}

fn sequence<'a>(text: &'a str, tools: &[OfferedTool]) -> Option<(Vec<Call>, &'a str)> {
    let mut rest = text;
    let mut found = Vec::new();
    loop {
        let (name, behind) = rest.split_once('(')?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let name = name.trim();
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        let mut literal = Literal { rest: behind };
        let arguments = literal.keywords()?;
        // `f.call(x=1)` (Llama).
        let tool = offered(name, tools)
            .or_else(|| name.strip_suffix(".call").and_then(|name| offered(name, tools)));
        found.extend(tool.map(|tool| (tool.name.clone(), arguments)));
        rest = literal.rest.trim_start();
        match rest.strip_prefix([',', ';']) {
            Some(behind) if found.len() < MAX_CALLS => rest = behind,
            _ => return Some((found, rest)),
        }
    }
}

/// Parses `call:f{x:1,y:<escape>text<escape>}`, one or several.
fn bare_keys(text: &str, tools: &[OfferedTool]) -> Option<Vec<Call>> {
    let mut found = Vec::new();
    let mut rest = text.trim().strip_prefix("call:")?;
    while found.len() < MAX_CALLS {
        let (name, body) = rest.split_once('{')?;
        let tool = offered(name, tools);
        let mut literal = Literal { rest: body };
        let mut arguments = Map::new();
        loop {
            literal.skip_blanks();
            if literal.take('}') {
                break;
            }
            let key = literal.key()?;
            literal.skip_blanks();
            let value = if literal.delimits() {
                literal.value(0)?
            } else {
                let end = literal.rest.find([',', '}'])?;
                let (word, behind) = literal.rest.split_at(end);
                literal.rest = behind;
                tool.map_or(Value::Null, |tool| as_declared(word.trim(), &key, tool))
            };
            arguments.insert(key, value);
            literal.skip_blanks();
            literal.take(',');
        }
        found.extend(tool.map(|tool| (tool.name.clone(), arguments)));
        match literal.rest.trim_start().strip_prefix("call:") {
            Some(behind) => rest = behind,
            None => break,
        }
    }
    Some(found)
}

/// Parses the name of a tool that has no arguments.
fn alone(text: &str, tools: &[OfferedTool]) -> Option<Vec<Call>> {
    let name = text.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-:/".contains(c);
    let tool = offered(name, tools).filter(|_| name.chars().all(is_name))?;
    Some(vec![(tool.name.clone(), Map::new())])
}

/// Parses a name, followed by its arguments as pairs of elements.
fn pairs(text: &str, tools: &[OfferedTool]) -> Option<Vec<Call>> {
    let text = text.replace("longcat_arg_", "arg_");
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
fn from_objects(text: &str, tools: &[OfferedTool]) -> Vec<Call> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut literals = 0;
    // Start of the text before the current object, after the previous one.
    let mut begun = 0;
    while let Some(at) = rest.find(['{', '[']) {
        let from = &rest[at..];
        let before = &text[begun..text.len() - from.len()];
        let mut values = serde_json::Deserializer::from_str(from).into_iter::<Value>();
        let read = match values.next() {
            Some(Ok(value)) => Some((value, &from[values.byte_offset()..])),
            _ if literals < MAX_LITERALS && from.starts_with('{') => {
                literals += 1;
                Literal::object(from).map(|(fields, behind)| (Value::Object(fields), behind))
            }
            _ => None,
        };
        let Some((value, behind)) = read else {
            // `[ARGS]` and similar tokens.
            rest = &from[1..];
            continue;
        };
        rest = behind;
        begun = text.len() - rest.len();
        for one in objects::entries(&value) {
            found.extend(match objects::read(one, tools) {
                Reading::Call(call) | Reading::Named(call) => Some(call),
                Reading::Other if std::ptr::eq(one, &value) => {
                    keyed(one, tools).or_else(|| named(before, one, tools))
                }
                Reading::Other => keyed(one, tools),
                Reading::Attempt | Reading::Told => None,
            });
        }
        if found.len() >= MAX_CALLS {
            break;
        }
    }
    found
}

/// Parses `{"f": {..}}`.
fn keyed(value: &Value, tools: &[OfferedTool]) -> Option<Call> {
    let fields = value.as_object().filter(|fields| fields.len() == 1)?;
    let (name, arguments) = fields.iter().next()?;
    let tool = tools.iter().find(|tool| tool.name == *name)?;
    let arguments = arguments.as_object().filter(|one| !objects::is_schema(one, tool))?;
    Some((tool.name.clone(), arguments.clone()))
}

/// Parses arguments that follow a tool's name. Tokens, the words of a header or a malformed object
/// may surround the name, but no sentence.
fn named(before: &str, value: &Value, tools: &[OfferedTool]) -> Option<Call> {
    const HEADERS: [&str; 11] = [
        "analysis",
        "assistant",
        "call",
        "commentary",
        "function",
        "functions",
        "name",
        "to",
        "tool",
        "tool_call",
        "type",
    ];
    let arguments = value.as_object()?;
    // `<|channel|>`, `[ARGS]`: the text before the first bracket is not a token. An attribute may
    // be the name.
    let plain = before.split(['<', '[']).enumerate().map(|(n, part)| match part.find(['>', ']']) {
        Some(at) if n > 0 && !part[..at].contains('=') => &part[at + 1..],
        _ => part,
    });
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let mut words = plain
        .flat_map(move |part| part.split(move |c: char| !is_name(c)))
        .filter(|word| !word.is_empty());
    let word = words.find(|word| !HEADERS.contains(word))?;
    let last = word.rsplit('.').next().unwrap_or_default();
    let tool = offered(word, tools).or_else(|| offered(last, tools))?;
    let is_field = before.contains('{');
    if is_field && !words.last().is_some_and(|key| objects::ARGUMENTS.contains(&key)) {
        return None;
    }
    (!objects::is_schema(arguments, tool)).then(|| (tool.name.clone(), arguments.clone()))
}
