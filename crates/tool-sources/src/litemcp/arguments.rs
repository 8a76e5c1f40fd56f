//! Conversion between JSON objects, used by models and our own tools, and LiteMCP's positional
//! strings: schemas, arguments and results, in both directions. Pure.

use hearken_ports::{Tool, ToolContent, ToolError, ToolOutput};
use hearken_proto::json::{TooHeavy, weight_of_text};
use hearken_proto::litemcp::{self, CallResult, Content, Parameter, Response};
use serde_json::{Map, Value, json};

use crate::mapping::OutputBuilder;

/// Maximum weight of the arguments of a call that are written as JSON, in bytes of memory when
/// parsed.
const MAX_ARGUMENTS_WEIGHT: usize = 1 << 20;
/// Type names of JSON Schema, with other spellings that people use.
const TYPES: [(&str, &[&str]); 5] = [
    ("number", &["number", "float", "double", "decimal"]),
    ("integer", &["integer", "int", "long"]),
    ("boolean", &["boolean", "bool"]),
    ("array", &["array", "list"]),
    ("object", &["object", "dict", "map"]),
];

/// Converts a LiteMCP tool to the port's type.
///
/// # Errors
/// The tool cannot be called with named arguments; the error is the reason.
pub(super) fn tool(wire: &litemcp::Tool) -> Result<Tool, String> {
    if wire.name.trim().is_empty() {
        return Err("its tool has no name".into());
    }
    let mut properties = Map::new();
    for parameter in &wire.parameters {
        if properties.insert(parameter.name.clone(), schema(parameter)).is_some() {
            return Err(format!("its tool has two parameters `{}`", parameter.name));
        }
    }
    Ok(Tool {
        name: wire.name.clone(),
        description: with_example(wire.description.as_deref(), wire.example.as_deref()),
        // LiteMCP does not mark required arguments: those at the end may be omitted.
        parameters: json!({
            "type": "object", "properties": properties, "additionalProperties": false,
        }),
        finishes: false,
        destructive: false,
    })
}

/// Builds the schema of a parameter. A type that JSON has may be passed as itself or as a string;
/// any other type is described in words.
fn schema(parameter: &Parameter) -> Value {
    let kind = parameter.kind.trim().to_lowercase();
    let known = TYPES.iter().find(|(_, names)| names.contains(&kind.as_str()));
    let mut about = with_example(parameter.description.as_deref(), parameter.example.as_deref());
    let plain = ["", "string", "str", "text"].contains(&kind.as_str());
    if known.is_none() && !plain {
        about = format!("({}) {about}", parameter.kind.trim());
    }
    let kind = known.map_or(json!("string"), |(name, _)| json!([name, "string"]));
    json!({"type": kind, "description": about.trim()})
}

fn with_example(about: Option<&str>, example: Option<&str>) -> String {
    let parts = [about.map(str::to_owned), example.map(|e| format!("Example: {e}"))];
    let parts: Vec<String> = parts.into_iter().flatten().filter(|p| !p.is_empty()).collect();
    parts.join("\n")
}

/// Orders the arguments by the parameters: strings unchanged, anything else as JSON. Arguments at
/// the end may be missing or null.
///
/// # Errors
/// An argument is missing before another, or has no parameter.
pub(super) fn in_order(
    parameters: &[Parameter],
    arguments: &Map<String, Value>,
) -> Result<Vec<String>, ToolError> {
    let wrong = |why: String| Err(ToolError::Arguments(why));
    if let Some(name) = arguments.keys().find(|k| parameters.iter().all(|p| p.name != **k)) {
        return wrong(format!("there is no parameter `{name}`"));
    }
    let given = |p: &Parameter| arguments.get(&p.name).filter(|v| !v.is_null());
    let last = parameters.iter().rposition(|p| given(p).is_some());
    let needed = &parameters[..last.map_or(0, |last| last + 1)];
    let mut texts = Vec::with_capacity(needed.len());
    for parameter in needed {
        match given(parameter) {
            Some(Value::String(text)) => texts.push(text.clone()),
            Some(other) => texts.push(other.to_string()),
            None => {
                return wrong(format!(
                    "`{}` is missing, and another comes after it",
                    parameter.name
                ));
            }
        }
    }
    Ok(texts)
}

/// Converts the result of a LiteMCP tool; the size of text and pictures is limited.
pub(super) fn output(result: CallResult) -> ToolOutput {
    let mut answer = OutputBuilder::default();
    for Content { kind, data } in result.response.content {
        if kind.starts_with("image/") {
            answer.picture(kind, data);
        } else {
            answer.text(data);
        }
    }
    ToolOutput { content: answer.content, failed: result.response.error }
}

/// Converts one of our tools to LiteMCP.
pub(super) fn to_wire(tool: &Tool) -> litemcp::Tool {
    let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let parameter = |(name, schema): (String, &Value)| Parameter {
        kind: kinds(schema).join(" or "),
        description: schema["description"].as_str().and_then(filled),
        example: schema["examples"].get(0).map(text),
        name,
    };
    litemcp::Tool {
        name: tool.name.clone(),
        description: filled(&tool.description),
        parameters: properties(&tool.parameters).into_iter().map(parameter).collect(),
        ..litemcp::Tool::default()
    }
}

/// Returns a schema's properties in the order of arguments: the required ones first, in their
/// listed order, because arguments at the end may be omitted.
fn properties(schema: &Value) -> Vec<(String, &Value)> {
    let Some(all) = schema["properties"].as_object() else { return Vec::new() };
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut names: Vec<&str> = Vec::new();
    for name in required.chain(all.keys().map(String::as_str)) {
        if all.contains_key(name) && !names.contains(&name) {
            names.push(name);
        }
    }
    names.into_iter().map(|name| (name.to_owned(), &all[name])).collect()
}

/// Returns the types that a schema names; empty means any type.
fn kinds(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Converts positional strings to the argument object of one of our tools. A value whose type is
/// not string is parsed as JSON if the result has that type; an empty string for it means a missing
/// argument.
///
/// # Errors
/// There are more strings than parameters. The values are checked against the schema elsewhere.
pub(super) fn by_name(tool: &Tool, texts: &[String]) -> Result<Map<String, Value>, ToolError> {
    let properties = properties(&tool.parameters);
    if texts.len() > properties.len() {
        let is = texts.len();
        let may = properties.len();
        return Err(ToolError::Arguments(format!("there are {is}, and the tool takes {may}")));
    }
    let mut arguments = Map::new();
    let mut room = MAX_ARGUMENTS_WEIGHT;
    for ((name, schema), text) in properties.into_iter().zip(texts) {
        let kinds = kinds(schema);
        let bare = kinds.is_empty() || kinds.contains(&"string");
        if text.is_empty() && !bare {
            continue;
        }
        let read = if bare { None } else { parsed(text, &mut room)? };
        let fits = |value: &Value| kinds.iter().any(|kind| is(value, kind));
        arguments.insert(name, read.filter(fits).unwrap_or_else(|| Value::String(text.clone())));
    }
    Ok(arguments)
}

/// Parses an argument, and takes its weight from `room`; none if it is not JSON. Its message was
/// weighed with the argument as text.
fn parsed(text: &str, room: &mut usize) -> Result<Option<Value>, ToolError> {
    let heavy = |heavy: TooHeavy| ToolError::Arguments(format!("one of them {heavy}"));
    *room -= weight_of_text(text.as_bytes(), *room).map_err(heavy)?;
    Ok(serde_json::from_str(text).ok())
}

/// Returns true if the value has this type, which is not string.
fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "number" => value.is_number(),
        // Numbers outside a float's range have no detectable fraction.
        "integer" => value.is_number() && value.as_f64().is_none_or(|n| n.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => false,
    }
}

/// Converts the outcome of a call of one of our tools to a LiteMCP result.
pub(super) fn result(
    tool: Option<&Tool>,
    texts: &[String],
    outcome: &Result<ToolOutput, ToolError>,
) -> CallResult {
    let names = tool.map(|t| properties(&t.parameters)).unwrap_or_default();
    let names = names.into_iter().map(|(name, _)| name);
    let content = |part: &ToolContent| match part {
        ToolContent::Text(text) => Content { kind: "text".into(), data: text.clone() },
        ToolContent::Image { mime_type, base64 } => {
            Content { kind: mime_type.clone(), data: base64.clone() }
        }
    };
    let response = match outcome {
        Ok(output) => {
            Response { content: output.content.iter().map(content).collect(), error: output.failed }
        }
        Err(error) => {
            let why = ToolContent::Text(error.to_string());
            Response { content: vec![content(&why)], error: true }
        }
    };
    let params = names.zip(texts.iter().cloned()).collect();
    CallResult { params, response, ..CallResult::default() }
}

#[cfg(test)]
mod tests {
    use hearken_base::testkit::numbers;
    use proptest::prelude::*;

    use super::*;

    fn parameter(name: &str, kind: &str) -> Parameter {
        let name = name.to_owned();
        let description = Some(format!("{kind}!"));
        Parameter { name, kind: kind.into(), description, example: Some("2".into()) }
    }

    fn told_tool(parameters: &[Parameter]) -> litemcp::Tool {
        let name = "计算 器".to_owned();
        let parameters = parameters.to_vec();
        litemcp::Tool { name, parameters, ..litemcp::Tool::default() }
    }

    fn object(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_schema_contains_the_whole_description_of_the_tool() {
        let known = litemcp::Tool {
            description: Some("Adds".into()),
            example: Some("Add 2 and 3".into()),
            ..told_tool(&[parameter("a", "Number"), parameter("天", "日期"), parameter("c", "str")])
        };
        let tool = tool(&known).unwrap();
        assert_eq!(
            (tool.name.as_str(), tool.description.as_str()),
            ("计算 器", "Adds\nExample: Add 2 and 3")
        );
        let properties = json!({
            "a": {"type": ["number", "string"], "description": "Number!\nExample: 2"},
            "天": {"type": "string", "description": "(日期) 日期!\nExample: 2"},
            "c": {"type": "string", "description": "str!\nExample: 2"},
        });
        let schema =
            json!({"type": "object", "properties": properties, "additionalProperties": false});
        assert_eq!(tool.parameters, schema);
    }

    #[test]
    fn a_tool_that_cannot_be_called_by_names_is_refused() {
        let twice = told_tool(&[parameter("a", ""), parameter("a", "")]);
        assert_eq!(tool(&twice).unwrap_err(), "its tool has two parameters `a`");
        let nameless = litemcp::Tool { name: " ".into(), ..told_tool(&[]) };
        assert_eq!(tool(&nameless).unwrap_err(), "its tool has no name");
    }

    #[test]
    fn arguments_are_strings_in_order() {
        let parameters = ["b", "a", "c"].map(|name| parameter(name, ""));
        let of = |arguments| in_order(&parameters, &object(arguments));
        for (arguments, texts) in [
            (json!({"a": "1", "b": "\"x\"", "c": 2.5}), &["\"x\"", "1", "2.5"][..]),
            (json!({"b": true, "a": {"k": ["v"]}}), &["true", "{\"k\":[\"v\"]}"]),
            (json!({"b": "", "c": null}), &[""]),
            (json!({}), &[]),
        ] {
            assert_eq!(of(arguments), Ok(texts.iter().map(|t| (*t).to_owned()).collect()));
        }
        for (arguments, why) in [
            (json!({"a": "1"}), "`b` is missing, and another comes after it"),
            (json!({"b": "1", "a": null, "c": "2"}), "`a` is missing, and another comes after it"),
            (json!({"b": "1", "d": "2"}), "there is no parameter `d`"),
        ] {
            assert_eq!(of(arguments), Err(ToolError::Arguments(why.into())));
        }
    }

    fn ours() -> Tool {
        let parameters = json!({"type": "object", "required": ["when", "gone", "n"], "properties": {
            "any": {}, "list": {"type": "array", "examples": [[1]]}, "n": {"type": "integer"},
            "text": {"type": ["string", "null"], "description": "words"}, "when": {"type": "string"},
        }});
        let description = String::new();
        Tool { name: "t".into(), description, parameters, finishes: false, destructive: false }
    }

    #[test]
    fn required_arguments_of_our_own_tools_are_first() {
        let wire = to_wire(&ours());
        let kinds: Vec<(&str, &str)> =
            wire.parameters.iter().map(|p| (p.name.as_str(), p.kind.as_str())).collect();
        let all = [
            ("when", "string"),
            ("n", "integer"),
            ("any", ""),
            ("list", "array"),
            ("text", "string or null"),
        ];
        assert_eq!(kinds, all);
        assert_eq!(wire.parameters[3].example.as_deref(), Some("[1]"));
        assert_eq!(
            (wire.description, wire.parameters[4].description.as_deref()),
            (None, Some("words"))
        );
    }

    #[test]
    fn strings_become_arguments_of_our_own_tools() {
        let of = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|t| (*t).to_owned()).collect();
            by_name(&ours(), &texts)
        };
        let all = of(&["5", "5", "5", "[5]", "5"]).unwrap();
        let wanted = json!({"when": "5", "n": 5, "any": "5", "list": [5], "text": "5"});
        assert_eq!(Value::Object(all), wanted);
        let some = of(&["", "five", "", "", "null"]).unwrap();
        assert_eq!(
            Value::Object(some),
            json!({"when": "", "n": "five", "any": "", "text": "null"})
        );
        assert_eq!(of(&[]), Ok(Map::new()));
        let why = "there are 6, and the tool takes 5".to_owned();
        assert_eq!(of(&["", "", "", "", "", ""]), Err(ToolError::Arguments(why)));
    }

    #[test]
    fn answers_survive_both_conversions() {
        let picture = ToolContent::Image { mime_type: "image/png".into(), base64: "AAAA".into() };
        let content = vec![ToolContent::Text("好".into()), picture];
        let answer = ToolOutput { content, failed: true };
        let texts = ["x".to_owned(), "1".into()];
        let sent = result(Some(&ours()), &texts, &Ok(answer.clone()));
        let params = [("n".to_owned(), "1".to_owned()), ("when".into(), "x".into())];
        assert_eq!(sent.params, params.into());
        assert_eq!(output(sent), answer);
        let failed = result(None, &texts, &Err(ToolError::Failed("no rain".into())));
        assert_eq!(failed.params.len(), 0);
        let wire = ToolOutput { failed: true, ..ToolOutput::text("the tool failed: no rain") };
        assert_eq!(output(failed), wire);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(2, 8, 4, |inner| {
            prop::collection::vec(inner, 0..4).prop_map(Value::from)
        })
    }

    #[test]
    fn numbers_are_unchanged() {
        let parameters = json!({"type": "object", "properties": {
            "x": {"type": "number"}, "y": {"type": "array"}}, "required": ["x", "y"]});
        let name = "sum".to_owned();
        let description = String::new();
        let sum = Tool { name, description, parameters, finishes: false, destructive: false };
        let list = numbers::array(&numbers::written());
        for number in numbers::written() {
            let read = by_name(&sum, &[number.clone(), list.clone()]).unwrap();
            assert_eq!(read["x"].to_string(), numbers::kept(&number));
            assert_eq!(text(&read["y"]), numbers::array_kept(&numbers::written()));
        }
        let whole = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let whole = Tool { parameters: whole, ..sum };
        let large = "340282366920938463463374607431768211457";
        assert_eq!(by_name(&whole, &[large.into()]).unwrap()["n"].to_string(), large);
        assert!(by_name(&whole, &["1.5".into()]).unwrap()["n"].is_string());
    }

    proptest! {
        #[test]
        fn every_argument_is_in_its_place(
            values in prop::collection::vec(value(), 0..6),
            order in Just((0..6usize).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let parameters: Vec<Parameter> =
                order.iter().map(|n| parameter(&format!("p{n}"), "")).collect();
            let arguments: Map<String, Value> = parameters
                .iter()
                .zip(&values)
                .map(|(p, value)| (p.name.clone(), value.clone()))
                .collect();
            let texts = in_order(&parameters, &arguments).unwrap();
            prop_assert_eq!(texts.len(), values.len());
            for (text, value) in texts.iter().zip(&values) {
                match value {
                    Value::String(bare) => prop_assert_eq!(text, bare),
                    other => prop_assert_eq!(&serde_json::from_str::<Value>(text).unwrap(), other),
                }
            }
        }

        #[test]
        fn no_strings_cause_a_panic(texts in prop::collection::vec(".*", 0..8)) {
            let taken = by_name(&ours(), &texts);
            prop_assert_eq!(taken.is_err(), texts.len() > 5);
        }
    }

    #[test]
    fn arguments_that_are_heavy_as_json_are_refused() {
        let kinds = json!({"type": "object", "properties": {
            "a": {"type": "array"}, "b": {"type": "object"}, "c": {"type": "string"}}});
        let tool = Tool {
            name: "t".into(),
            description: String::new(),
            parameters: kinds,
            finishes: false,
            destructive: false,
        };
        let list = |count: usize| format!("[{}]", vec!["[]"; count].join(","));
        let most = MAX_ARGUMENTS_WEIGHT / 64;
        let few = |count: usize| [list(count), "{}".into(), list(most)];
        assert!(by_name(&tool, &few(most / 2)).is_ok(), "a string is not parsed");
        for texts in [few(most), [list(most / 2 + 1), list(most / 2 + 1), String::new()]] {
            let Err(ToolError::Arguments(why)) = by_name(&tool, &texts) else { panic!("accepted") };
            assert!(why.starts_with("one of them takes more than"), "{why}");
        }
    }
}
