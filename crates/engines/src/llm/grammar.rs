//! Grammar, in llama.cpp's GBNF, of the output of a model with tools: either plain text, or one
//! valid tool call. Pure text to pure text; [`super::answer`] parses the model's output.
//!
//! Never fails: for a schema, or a part of one, that it does not support, it allows any JSON.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::Value;

use super::generation::{Generation, Role, Tool, ToolChoice};

/// Maximum number of properties of an object; an object with more allows any JSON object, because
/// the grammar would become large.
const MOST_PROPERTIES: usize = 32;
/// Maximum size of an integer range that is enumerated; larger ranges allow any integer.
const LARGEST_RANGE: i64 = 1000;
/// Rules at the end of every grammar.
const JSON_RULES: &str = r#"ws ::= | " " | "\n" [ \t]{0,12}
value ::= object | array | string | number | boolean | "null"
object ::= "{" ws (string ws ":" ws value (ws "," ws string ws ":" ws value)*)? ws "}"
array ::= "[" ws (value (ws "," ws value)*)? ws "]"
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})
number ::= integer ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,3})?
integer ::= "-"? natural
natural ::= "0" | [1-9] [0-9]{0,15}
boolean ::= "true" | "false"
"#;

/// Builds the grammar for the answer to `request`. Directly after a tool's result only text is
/// allowed, unless a call is required: small models otherwise call tools endlessly, the same one or
/// another.
pub fn for_request(request: &Generation) -> Option<String> {
    let returned = request.messages.last().is_some_and(|message| message.role == Role::Tool);
    match request.tool_choice {
        ToolChoice::Auto if returned => for_tools(&request.tools, &ToolChoice::None),
        _ => for_tools(&request.tools, &request.tool_choice),
    }
}

/// Builds the grammar for these tools, whose first rule is called `root`. Returns `None` when there
/// is nothing to restrict: no tools and no ban on calls, or [`ToolChoice::Free`].
pub fn for_tools(tools: &[Tool], choice: &ToolChoice) -> Option<String> {
    match choice {
        ToolChoice::Free => return None,
        ToolChoice::None => {}
        _ if tools.is_empty() => return None,
        _ => {}
    }
    let mut grammar = Grammar::default();
    let mut calls = Vec::new();
    for tool in tools {
        if matches!(choice, ToolChoice::Named(name) if *name != tool.name) {
            continue;
        }
        let arguments = grammar.object(&tool.parameters);
        let name = literal(&json_text(&Value::String(tool.name.clone())));
        calls.push(grammar.rule(&format!(
            r#""{{" ws "\"name\":" ws {name} "," ws "\"arguments\":" ws {arguments} ws "}}""#
        )));
    }
    let root = match choice {
        ToolChoice::None | ToolChoice::Free => "text",
        ToolChoice::Auto if calls.is_empty() => "text",
        ToolChoice::Auto => "text | call",
        ToolChoice::Required | ToolChoice::Named(_) if calls.is_empty() => return None,
        ToolChoice::Required | ToolChoice::Named(_) => "call",
    };
    let mut out = format!("root ::= {root}\n");
    if root.starts_with("text") {
        // Text starts with none of the characters that start a call, so that one character decides.
        out.push_str("text ::= [^<{`\\n ] [^<{`]*\n");
    }
    if root.ends_with("call") {
        // Small models often omit the tags or write a fenced block instead.
        out.push_str("call ::= \"<tool_call>\\n\" json \"\\n</tool_call>\" | json | ");
        out.push_str("\"```json\\n\" json \"\\n```\"\n");
        writeln!(out, "json ::= {}", calls.join(" | ")).expect("writing to a string cannot fail");
        out.push_str(&grammar.rules);
        out.push_str(JSON_RULES);
    }
    Some(out)
}

#[derive(Default)]
struct Grammar {
    rules: String,
    count: usize,
}

impl Grammar {
    /// Adds a rule and returns its name. Names are numbers, never words from a schema.
    fn rule(&mut self, body: &str) -> String {
        let name = format!("r{}", self.count);
        self.count += 1;
        writeln!(self.rules, "{name} ::= {body}").expect("writing to a string cannot fail");
        name
    }

    /// Adds a rule for an object with the properties of `schema`, in the order in which the prompt
    /// shows them, required ones first.
    fn object(&mut self, schema: &Value) -> String {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return if schema.get("type").is_some() {
                self.rule(r#""{" ws "}""#)
            } else {
                named("object")
            };
        };
        if properties.len() > MOST_PROPERTIES {
            return named("object");
        }
        let required = required_names(schema);
        if required.iter().any(|name| !properties.contains_key(*name)) {
            return named("object");
        }
        let (must, may): (Vec<_>, Vec<_>) =
            properties.iter().partition(|(name, _)| required.contains(name.as_str()));
        let must: Vec<String> = must.iter().map(|(name, schema)| self.pair(name, schema)).collect();
        let may: Vec<String> = may.iter().map(|(name, schema)| self.pair(name, schema)).collect();
        let members = members(&must, &may);
        self.rule(&format!(r#""{{" ws {members} ws "}}""#))
    }

    fn pair(&mut self, name: &str, schema: &Value) -> String {
        let key = literal(&format!("{}:", json_text(&Value::String(name.to_owned()))));
        let value = self.value(schema);
        self.rule(&format!("{key} ws {value}"))
    }

    /// Adds a rule for a value of `schema`.
    fn value(&mut self, schema: &Value) -> String {
        if let Some(Value::Array(values)) = schema.get("enum") {
            if values.is_empty() || values.iter().any(|v| v.is_object() || v.is_array()) {
                return named("value");
            }
            let literals: Vec<String> = values.iter().map(|v| literal(&json_text(v))).collect();
            return self.rule(&literals.join(" | "));
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => named("string"),
            Some("boolean") => named("boolean"),
            Some("number") => named("number"),
            Some("null") => literal("null"),
            Some("integer") => self.integer(schema),
            Some("array") => self.array(schema),
            Some("object") => named("object"),
            _ => named("value"),
        }
    }

    fn integer(&mut self, schema: &Value) -> String {
        let bound = |key: &str| schema.get(key).and_then(Value::as_i64);
        match (bound("minimum"), bound("maximum")) {
            (Some(low), Some(high)) if low <= high && high.saturating_sub(low) <= LARGEST_RANGE => {
                let spelt: BTreeSet<String> = (low..=high).map(|n| n.to_string()).collect();
                let spelt: Vec<&str> = spelt.iter().map(String::as_str).collect();
                self.rule(&spellings(&spelt))
            }
            (Some(low), _) if low >= 0 => named("natural"),
            _ => named("integer"),
        }
    }

    fn array(&mut self, schema: &Value) -> String {
        let Some(items) = schema.get("items").filter(|items| items.is_object()) else {
            return named("array");
        };
        // Arrays of arrays would allow a hostile schema to nest without limit.
        if items.get("type").and_then(Value::as_str) == Some("array") {
            return named("array");
        }
        let item = self.value(items);
        self.rule(&format!(r#""[" ws ({item} (ws "," ws {item})*)? ws "]""#))
    }
}

/// Builds an expression for the required pairs, then any of the optional ones, with the right
/// commas.
fn members(must: &[String], may: &[String]) -> String {
    let rest = |pairs: &[String]| -> String {
        pairs.iter().map(|pair| format!(r#" (ws "," ws {pair})?"#)).collect()
    };
    if !must.is_empty() {
        return must.join(r#" ws "," ws "#) + &rest(may);
    }
    let starts: Vec<String> = may
        .iter()
        .enumerate()
        .map(|(index, first)| format!("{first}{}", rest(&may[index + 1..])))
        .collect();
    if starts.is_empty() { String::new() } else { format!("({})?", starts.join(" | ")) }
}

fn required_names(schema: &Value) -> BTreeSet<&str> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Builds one expression for sorted, distinct spellings of integers. Shared prefixes are factored
/// out, to limit the number of open alternatives.
fn spellings(sorted: &[&str]) -> String {
    let ends_here = sorted.first().is_some_and(|spelling| spelling.is_empty());
    let mut rest = if ends_here { &sorted[1..] } else { sorted };
    let mut branches: Vec<(String, String)> = Vec::new();
    while let Some(first) = rest.first() {
        // Spellings consist of ASCII digits and the minus sign only.
        let head = &first[..1];
        let same = rest.iter().take_while(|spelling| spelling.starts_with(head)).count();
        let tails: Vec<&str> = rest[..same].iter().map(|spelling| &spelling[1..]).collect();
        let tail = spellings(&tails);
        match branches.last_mut() {
            Some((heads, same_tail)) if *same_tail == tail && heads != "-" => heads.push_str(head),
            _ => branches.push((head.to_owned(), tail)),
        }
        rest = &rest[same..];
    }
    let branch = |(heads, tail): &(String, String)| {
        let heads = if heads.len() == 1 { literal(heads) } else { format!("[{heads}]") };
        if tail.is_empty() { heads } else { format!("{heads} {tail}") }
    };
    let branches: Vec<String> = branches.iter().map(branch).collect();
    match (branches.is_empty(), ends_here) {
        (true, _) => String::new(),
        (false, true) => format!("({})?", branches.join(" | ")),
        (false, false) => format!("({})", branches.join(" | ")),
    }
}

fn named(rule: &str) -> String {
    rule.to_owned()
}

fn json_text(value: &Value) -> String {
    value.to_string()
}

/// Builds the GBNF literal for exactly this text.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                write!(out, "\\U{:08X}", u32::from(c)).expect("writing to a string cannot fail");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests;
