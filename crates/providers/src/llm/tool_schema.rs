//! Schemas of tools in the form that the strictest vendors accept. Arguments are later checked
//! against the original schema, so this form may be less strict. Not for the check.
//!
//! A vendor that refuses a schema refuses the whole request, so the form uses only what all vendors
//! accept:
//! - OpenAI: an object with `properties` at the top, without `anyOf`, `oneOf`, `allOf`, `enum` or
//!   `not` there; arrays with `items`; each name of `required` among the properties.
//! - Gemini: one type, not a list of types; only strings have `enum`, without empty values;
//!   `date-time` is the only format; no `$ref`, `const`, `oneOf`, `additionalProperties`,
//!   `patternProperties`, `exclusiveMinimum`, `default`.
//! - Moonshot: a type everywhere, except beside `anyOf`, where it is not allowed.
//! - llama.cpp: no unanchored pattern, no dangling reference.

use serde_json::{Map, Value, json};

/// Maximum nesting.
const MAX_DEPTH: usize = 8;
/// Maximum number of schemas within one.
const MAX_SCHEMAS: usize = 1_000;
/// Maximum length of a hint in a description about omitted parts, in characters.
const MAX_HINT_CHARS: usize = 200;

/// Returns a tool's parameters in the form that is sent to vendors.
pub(super) fn normal_form(schema: &Value) -> Value {
    let mut writer = Writer { root: schema, left: MAX_SCHEMAS, references: Vec::new() };
    let mut top = writer.schema(schema, 0);
    if let Some(Value::Array(alternatives)) = top.remove("anyOf") {
        top = one_of_all(&alternatives);
    }
    if top.get("type") != Some(&json!("object")) {
        top = object();
    }
    Value::Object(top)
}

fn object() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!("object")), ("properties".to_owned(), json!({}))])
}

/// Schema for any value: models write strings most reliably.
fn anything() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!("string"))])
}

/// Returns the properties of all alternatives; only what all of them require is required.
fn one_of_all(alternatives: &[Value]) -> Map<String, Value> {
    let mut whole = object();
    let mut properties = Map::new();
    let mut required: Option<Vec<Value>> = None;
    for one in alternatives.iter().filter(|one| one["type"] == "object") {
        for (name, schema) in one["properties"].as_object().into_iter().flatten() {
            properties.entry(name).or_insert_with(|| schema.clone());
        }
        let theirs = one["required"].as_array().cloned().unwrap_or_default();
        required = Some(match required {
            None => theirs,
            Some(ours) => ours.into_iter().filter(|name| theirs.contains(name)).collect(),
        });
    }
    whole.insert("properties".to_owned(), properties.into());
    if let Some(required) = required.filter(|required| !required.is_empty()) {
        whole.insert("required".to_owned(), required.into());
    }
    whole
}

struct Writer<'a> {
    root: &'a Value,
    /// Number of schemas that may still be written.
    left: usize,
    /// References that are being followed.
    references: Vec<&'a str>,
}

impl<'a> Writer<'a> {
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Map<String, Value> {
        let Value::Object(schema) = schema else { return anything() };
        if depth > MAX_DEPTH || self.left == 0 {
            return if schema.get("type") == Some(&json!("object")) {
                object()
            } else {
                anything()
            };
        }
        self.left -= 1;
        let mut written = match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.referred(reference, depth),
            None => self.plain(schema, depth),
        };
        for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            let part = self.schema(part, depth + 1);
            join(&mut written, part);
        }
        describe(&mut written, schema);
        written
    }

    fn referred(&mut self, reference: &'a str, depth: usize) -> Map<String, Value> {
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        // A recursive schema has no end.
        let Some(target) = target.filter(|_| !self.references.contains(&reference)) else {
            return anything();
        };
        self.references.push(reference);
        let written = self.schema(target, depth + 1);
        self.references.pop();
        written
    }

    fn plain(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Map<String, Value> {
        let types = types(schema);
        if types.is_empty() {
            let alternatives =
                ["anyOf", "oneOf"].iter().find_map(|key| schema.get(*key)?.as_array());
            if let Some(alternatives) = alternatives {
                return self.alternatives(alternatives, depth);
            }
            if schema.contains_key("allOf") {
                return Map::new();
            }
        }
        match types.as_slice() {
            [] => anything(),
            [one] => self.typed(one, schema, depth),
            several => {
                let all =
                    several.iter().map(|one| Value::Object(self.typed(one, schema, depth + 1)));
                Map::from_iter([("anyOf".to_owned(), all.collect())])
            }
        }
    }

    fn alternatives(&mut self, alternatives: &'a [Value], depth: usize) -> Map<String, Value> {
        let mut all: Vec<Value> = Vec::new();
        for one in alternatives.iter().filter(|one| one["type"] != "null") {
            let mut written = self.schema(one, depth + 1);
            let nested = match written.remove("anyOf") {
                Some(Value::Array(nested)) => nested,
                _ => vec![Value::Object(written)],
            };
            all.extend(nested.into_iter().filter(|one| !all.contains(one)).collect::<Vec<_>>());
        }
        match all.as_slice() {
            [] => anything(),
            [Value::Object(one)] => one.clone(),
            _ => Map::from_iter([("anyOf".to_owned(), all.into())]),
        }
    }

    fn typed(
        &mut self,
        kind: &str,
        schema: &'a Map<String, Value>,
        depth: usize,
    ) -> Map<String, Value> {
        let mut written = Map::from_iter([("type".to_owned(), json!(kind))]);
        match kind {
            "object" => self.properties(&mut written, schema, depth),
            "array" => {
                let items = schema.get("items").filter(|items| items.is_object());
                let items =
                    items.or_else(|| schema.get("prefixItems").or(schema.get("items"))?.get(0));
                let items = items.map_or_else(anything, |items| self.schema(items, depth + 1));
                written.insert("items".to_owned(), items.into());
            }
            "string" => {
                let texts: Vec<Value> = values(schema)
                    .into_iter()
                    .filter(|value| value.as_str().is_some_and(|text| !text.is_empty()))
                    .collect();
                if !texts.is_empty() {
                    written.insert("enum".to_owned(), texts.into());
                }
                if schema.get("format") == Some(&json!("date-time")) {
                    written.insert("format".to_owned(), json!("date-time"));
                }
            }
            "integer" | "number" => {
                for key in ["minimum", "maximum"] {
                    if let Some(limit) = schema.get(key).filter(|limit| limit.is_number()) {
                        written.insert(key.to_owned(), limit.clone());
                    }
                }
            }
            _ => {}
        }
        written
    }

    fn properties(
        &mut self,
        written: &mut Map<String, Value>,
        schema: &'a Map<String, Value>,
        depth: usize,
    ) {
        let mut properties = Map::new();
        let all = schema.get("properties").and_then(Value::as_object);
        for (name, property) in
            all.into_iter().flatten().filter(|(_, property)| **property != json!(false))
        {
            properties.insert(name.clone(), self.schema(property, depth + 1).into());
        }
        let mut required: Vec<Value> = Vec::new();
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            let is_there = name.as_str().is_some_and(|name| properties.contains_key(name));
            if is_there && !required.contains(name) {
                required.push(name.clone());
            }
        }
        written.insert("properties".to_owned(), properties.into());
        if !required.is_empty() {
            written.insert("required".to_owned(), required.into());
        }
    }
}

/// Returns the types of a schema without null, as declared or as its other parts imply.
fn types(schema: &Map<String, Value>) -> Vec<&str> {
    const KNOWN: [&str; 6] = ["object", "array", "string", "integer", "number", "boolean"];
    let told = match schema.get("type") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let mut types: Vec<&str> = KNOWN.into_iter().filter(|kind| told.contains(kind)).collect();
    if types.is_empty() && !schema.contains_key("$ref") {
        let shown = match values(schema).first() {
            Some(Value::String(_)) => Some("string"),
            Some(Value::Bool(_)) => Some("boolean"),
            Some(Value::Number(number)) if number.is_f64() => Some("number"),
            Some(Value::Number(_)) => Some("integer"),
            _ if schema.contains_key("properties") => Some("object"),
            _ if schema.contains_key("items") || schema.contains_key("prefixItems") => {
                Some("array")
            }
            _ => None,
        };
        types.extend(shown);
    }
    types
}

/// Returns the values that a schema allows; none if it lists no values.
fn values(schema: &Map<String, Value>) -> Vec<Value> {
    let one = schema.get("const").cloned();
    let several = schema.get("enum").and_then(Value::as_array).cloned();
    let mut values: Vec<Value> = Vec::new();
    for value in one.into_iter().chain(several.into_iter().flatten()) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// Merges another part of the same schema.
fn join(written: &mut Map<String, Value>, part: Map<String, Value>) {
    if written.is_empty() || written.get("type") != part.get("type") {
        if written.is_empty() || part.get("type") == Some(&json!("object")) {
            *written = part;
        }
        return;
    }
    for (key, value) in part {
        match (written.get_mut(&key), value) {
            (Some(Value::Object(ours)), Value::Object(theirs)) if key == "properties" => {
                for (name, schema) in theirs {
                    ours.entry(name).or_insert(schema);
                }
            }
            (Some(Value::Array(ours)), Value::Array(theirs)) if key == "required" => {
                for name in theirs {
                    if !ours.contains(&name) {
                        ours.push(name);
                    }
                }
            }
            (Some(_), _) => {}
            (None, value) => {
                written.insert(key, value);
            }
        }
    }
}

/// Adds the original description, with the values and the default that the form cannot express.
fn describe(written: &mut Map<String, Value>, schema: &Map<String, Value>) {
    if written.is_empty() {
        *written = anything();
    }
    let told = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let mut description = told.to_owned();
    let values = values(schema);
    if !values.is_empty() && !written.contains_key("enum") {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        hint(&mut description, &format!("One of: {}.", values.join(", ")));
    }
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        hint(&mut description, &format!("Default: {default}."));
    }
    if !description.is_empty() {
        written.insert("description".to_owned(), description.into());
    }
}

fn hint(description: &mut String, hint: &str) {
    if hint.chars().count() <= MAX_HINT_CHARS && !description.contains(hint) {
        let apart = if description.is_empty() { "" } else { " " };
        description.push_str(apart);
        description.push_str(hint);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the first vendor rule that a schema breaks.
    fn fault(schema: &Value, on_top: bool) -> Option<String> {
        let Some(map) = schema.as_object() else { return Some(format!("{schema}: not an object")) };
        let known = [
            "type",
            "description",
            "properties",
            "required",
            "items",
            "enum",
            "format",
            "minimum",
            "maximum",
            "anyOf",
        ];
        if let Some(key) = map.keys().find(|key| !known.contains(&key.as_str())) {
            return Some(format!("{key} is not supported everywhere"));
        }
        if on_top
            && (map["type"] != "object" || map.contains_key("anyOf") || map.contains_key("enum"))
        {
            return Some("the top level is not a plain object".into());
        }
        if let Some(alternatives) = map.get("anyOf") {
            let alternatives = alternatives.as_array()?;
            let apart = map.contains_key("type") || alternatives.len() < 2;
            return if apart {
                Some("anyOf beside a type, or of one".into())
            } else {
                alternatives.iter().find_map(|one| fault(one, false))
            };
        }
        let kind = map.get("type").and_then(Value::as_str).unwrap_or("none");
        match kind {
            "object" => {
                let Some(properties) = map.get("properties").and_then(Value::as_object) else {
                    return Some("no properties".into());
                };
                let required =
                    map.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
                if required
                    .iter()
                    .any(|name| !properties.contains_key(name.as_str().unwrap_or_default()))
                {
                    return Some("a required property is not there".into());
                }
                properties.values().find_map(|one| fault(one, false))
            }
            "array" => {
                map.get("items").map_or(Some("no items".into()), |items| fault(items, false))
            }
            "string" => {
                let values = map.get("enum").and_then(Value::as_array).cloned().unwrap_or_default();
                let wrong = values.iter().any(|value| value.as_str().is_none_or(str::is_empty));
                wrong.then(|| "a value is not a string".into())
            }
            "integer" | "number" | "boolean" => {
                map.contains_key("enum").then(|| "values of no texts".into())
            }
            other => Some(format!("the type {other}")),
        }
    }

    #[test]
    fn schemas_of_real_servers_are_accepted() {
        for (schema, form) in [
            (json!({}), json!({"type": "object", "properties": {}})),
            (json!({"type": "object"}), json!({"type": "object", "properties": {}})),
            (json!(null), json!({"type": "object", "properties": {}})),
            (
                json!({"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a", "b"], "additionalProperties": false, "$schema": "x"}),
                json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}, "required": ["a"]}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": ["string", "null"], "format": "uri", "default": "x", "description": "An a."}}}),
                json!({"type": "object", "properties": {"a": {"type": "string", "description": "An a. Default: \"x\"."}}}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"const": "on"}, "c": {}}}),
                json!({"type": "object", "properties": {
                    "a": {"type": "integer", "description": "One of: 1, 2."}, "b": {"type": "string", "enum": ["on"]}, "c": {"type": "string"}}}),
            ),
            (
                json!({"anyOf": [
                    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a", "b"]},
                    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}]}),
                json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}]}),
                json!({"type": "object", "properties": {"a": {"type": "string"}}}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "object", "properties": {"next": {"$ref": "#/$defs/A"}}}}}),
                json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"next": {"type": "string"}}}}}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "title": "A"}}}),
                json!({"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}}),
            ),
            (
                json!({"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {"type": "boolean"}}}]}),
                json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}}, "required": ["a"]}),
            ),
        ] {
            assert_eq!(normal_form(&schema), form, "{schema}");
        }
    }

    /// Schemas with all keywords of the standard, and with unknown content.
    fn schemas() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!({})),
            Just(json!(true)),
            Just(json!(false)),
            Just(json!(null)),
            Just(json!("x")),
            Just(json!({"type": "string", "enum": ["a", "", "a", 1]})),
            Just(json!({"type": "integer", "enum": [1, 2], "exclusiveMinimum": 0})),
            Just(json!({"type": "null"})),
            Just(json!({"type": ["integer", "string", "null"], "minimum": "x"})),
            Just(json!({"const": 1.5})),
            Just(json!({"type": "object"})),
            Just(json!({"type": "array"})),
            Just(json!({"$ref": "#"})),
            Just(json!({"$ref": "#/properties/a"})),
            Just(json!({"$ref": "elsewhere"})),
            Just(json!({"type": "object", "required": ["a", 1], "minProperties": 1})),
            Just(json!({"type": "text"})),
        ];
        leaf.prop_recursive(4, 40, 4, |inner| {
            let key = prop::sample::select(vec!["items", "not", "additionalProperties", "if", "prefixItems"]);
            let list = prop::sample::select(vec!["anyOf", "oneOf", "allOf", "prefixItems", "items"]);
            let kind = prop::sample::select(vec![json!("object"), json!("array"), json!(["object", "array"]), json!(null)]);
            prop_oneof![
                (prop::collection::vec(("[ab]", inner.clone()), 0..3), kind.clone()).prop_map(|(properties, kind)| {
                    json!({"type": kind, "properties": Map::from_iter(properties), "required": ["a", "c"]})
                }),
                (key, inner.clone(), kind.clone()).prop_map(|(key, inner, kind)| json!({"type": kind, key: inner})),
                (list, prop::collection::vec(inner, 0..3), kind).prop_map(|(key, all, kind)| json!({"type": kind, key: all, "description": "x"})),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_form_of_every_schema_is_accepted_by_all_vendors(schema in schemas()) {
            let form = normal_form(&schema);
            prop_assert_eq!(fault(&form, true), None, "{} of {}", form, schema);
            prop_assert_eq!(normal_form(&form), form.clone(), "not idempotent: {}", schema);
        }
    }
}
