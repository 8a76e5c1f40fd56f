//! Tool calls that a model wrote as text, in the known formats, converted to real calls. Not for
//! their position in an answer.
//!
//! - `{"name": "f", "arguments": {..}}`, one or several, also in an array (Qwen, Hermes, Granite);
//! - `<function=f>{..}</function>`, or with `<parameter=x>1</parameter>` in it (Llama, Qwen-Coder);
//! - `f <arg_key>x</arg_key> <arg_value>1</arg_value>` (GLM);
//! - `f{..}`, with tokens around the name (Mistral, Kimi, DeepSeek, gpt-oss);
//! - `<invoke name="f">` with `<parameter name="x">1</parameter>` in it (Claude, MiniMax, DeepSeek);
//! - `[f(x=1)]`, as in Python (LFM, Gemma), and `call:f{x:1}` (Gemma).

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
            .or_else(|| invocations(part, tools))
            .or_else(|| pairs(part, tools))
            .or_else(|| expressions(part, tools))
            .or_else(|| bare_keys(part, tools))
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
/// have been called before, and what it belongs to: `functions.f:0`.
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

/// Parses `<invoke name="f">` and its parameters, whatever stands between `<` and the names of both.
fn invocations(text: &str, tools: &[OfferedTool]) -> Option<Vec<Call>> {
    let mut found = None::<Vec<Call>>;
    for part in text.split("invoke name=").skip(1) {
        let found = found.get_or_insert_default();
        let (name, body) = part.split_once('>')?;
        let Some(tool) = offered(name.trim().trim_matches(['"', '\'']), tools) else { continue };
        let body = body.split("invoke>").next().unwrap_or_default();
        let mut arguments = Map::new();
        for parameter in body.split("parameter name=").skip(1) {
            let Some((head, value)) = parameter.split_once('>') else { continue };
            let (name, attributes) = head.split_once(' ').unwrap_or((head, ""));
            let name = name.trim_matches(['"', '\'']);
            let value = value.rfind("parameter>").map_or(value, |closing| &value[..closing]);
            let end = value.rfind("</").unwrap_or(value.len());
            let value = value[..end].trim_matches('\n');
            let value = match attributes.contains("string=\"true\"") {
                true => Value::String(value.to_owned()),
                false => as_declared(value, name, tool),
            };
            arguments.insert(name.to_owned(), value);
        }
        found.push((tool.name.clone(), arguments));
    }
    found
}

/// Parses `[f(x=1), g(y="z")]`, also alone and in `print()`. None if it is nothing of that form.
fn expressions(text: &str, tools: &[OfferedTool]) -> Option<Vec<Call>> {
    let text = text.trim();
    let text =
        text.strip_prefix("print(").map_or(text, |inner| inner.strip_suffix(')').unwrap_or(inner));
    let mut rest = text.trim().trim_start_matches('[');
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
        if let Some(tool) = offered(name, tools) {
            found.push((tool.name.clone(), arguments));
        }
        rest = literal.rest.trim_start();
        match rest.strip_prefix([',', ';']) {
            Some(behind) if found.len() < MAX_CALLS => rest = behind,
            _ => return Some(found),
        }
    }
}

/// Values as Python writes them.
struct Literal<'a> {
    rest: &'a str,
}

/// Deepest nesting of a value.
const MAX_DEPTH: usize = 16;

impl Literal<'_> {
    /// Parses `x=1, y=2)`.
    fn keywords(&mut self) -> Option<Map<String, Value>> {
        let mut arguments = Map::new();
        loop {
            self.skip_blanks();
            if self.take(')') {
                return Some(arguments);
            }
            let (name, behind) = self.rest.split_once('=')?;
            let name = name.trim().to_owned();
            self.rest = behind;
            arguments.insert(name, self.value(0)?);
            self.skip_blanks();
            if !self.take(',') && !self.rest.starts_with(')') {
                return None;
            }
        }
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, wanted: char) -> bool {
        let behind = self.rest.strip_prefix(wanted);
        self.rest = behind.unwrap_or(self.rest);
        behind.is_some()
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.skip_blanks();
        if depth > MAX_DEPTH {
            return None;
        }
        match self.rest.chars().next()? {
            quote @ ('"' | '\'') => self.text(quote).map(Value::String),
            '[' | '(' => {
                self.rest = &self.rest[1..];
                let mut items = Vec::new();
                loop {
                    self.skip_blanks();
                    if self.take(']') || self.take(')') {
                        return Some(Value::Array(items));
                    }
                    items.push(self.value(depth + 1)?);
                    self.skip_blanks();
                    self.take(',');
                }
            }
            '{' => {
                self.rest = &self.rest[1..];
                let mut fields = Map::new();
                loop {
                    self.skip_blanks();
                    if self.take('}') {
                        return Some(Value::Object(fields));
                    }
                    let quote = self.rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
                    let name = self.text(quote)?;
                    self.skip_blanks();
                    if !self.take(':') {
                        return None;
                    }
                    fields.insert(name, self.value(depth + 1)?);
                    self.skip_blanks();
                    self.take(',');
                }
            }
            _ => {
                let end = self.rest.find([',', ')', ']', '}']).unwrap_or(self.rest.len());
                let (word, behind) = self.rest.split_at(end);
                self.rest = behind;
                match word.trim() {
                    "True" => Some(true.into()),
                    "False" => Some(false.into()),
                    "None" => Some(Value::Null),
                    word => serde_json::from_str(word).ok(),
                }
            }
        }
    }

    /// Parses a text in these quotes.
    fn text(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        let mut letters = self.rest.char_indices().skip(1);
        while let Some((at, c)) = letters.next() {
            match c {
                '\\' => match letters.next()?.1 {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    other => text.push(other),
                },
                c if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Some(text);
                }
                c => text.push(c),
            }
        }
        None
    }
}

/// Parses `call:f{x:1,y:<escape>text<escape>}`.
fn bare_keys(text: &str, tools: &[OfferedTool]) -> Option<Vec<Call>> {
    const QUOTE: &str = "<escape>";
    let (name, body) = text.trim().strip_prefix("call:")?.split_once('{')?;
    let Some(tool) = offered(name, tools) else { return Some(Vec::new()) };
    let mut arguments = Map::new();
    let mut rest = body;
    while let Some((key, behind)) = rest.split_once(':') {
        let key = key.trim_matches([',', ' ', '\n', '"']);
        let value = match behind.strip_prefix(QUOTE) {
            Some(quoted) => {
                let (value, behind) = quoted.split_once(QUOTE)?;
                rest = behind;
                Value::String(value.to_owned())
            }
            None => {
                let end = behind.find([',', '}']).unwrap_or(behind.len());
                rest = &behind[end..];
                as_declared(behind[..end].trim(), key, tool)
            }
        };
        arguments.insert(key.to_owned(), value);
        rest = rest.trim_start_matches(',');
    }
    Some(vec![(tool.name.clone(), arguments)])
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
