//! IoT messages of firmware up to 1.7, before MCP replaced them in 1.8: descriptors of things,
//! their states, and commands (78/xiaozhi-esp32 at v1.7.6, `main/iot`). Decoding is lenient. Not
//! for offering things to a model as tools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::DecodeError;

/// One `iot` message of a device. It contains either descriptors (one per message) or states.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IotReport {
    /// Things of the device, sent after its hello.
    pub things: Vec<Thing>,
    /// States of things, sent before each `listen` `start`: all at first, then the changes.
    pub states: Vec<ThingState>,
}

/// Thing that the device can control, for example its speaker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Thing {
    /// Name of the thing, unique on the device.
    pub name: String,
    /// Description for models; may be empty.
    pub description: String,
    /// Properties by name.
    pub properties: BTreeMap<String, Property>,
    /// Methods by name.
    pub methods: BTreeMap<String, Method>,
}

/// Property of a thing, or parameter of a method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Property {
    /// Description for models; may be empty.
    pub description: String,
    /// Type of the value.
    #[serde(rename = "type")]
    pub kind: ValueKind,
}

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueKind {
    /// True or false.
    Boolean,
    /// A 32-bit integer.
    Number,
    /// Text. Also used for types that no firmware knows.
    String,
}

/// Method of a thing. All its parameters are required: the wire does not say which are optional.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Method {
    /// Description for models; may be empty.
    pub description: String,
    /// Parameters by name.
    pub parameters: BTreeMap<String, Property>,
}

/// State of a thing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThingState {
    /// Name of the thing.
    pub name: String,
    /// Values of its properties, by name.
    #[serde(rename = "state")]
    pub values: Map<String, Value>,
}

/// Command for a device. Firmware crashes on a missing name or method, and before 1.7 also on a
/// value of the wrong type: create commands with [`Thing::command`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Command {
    /// Name of the thing.
    pub name: String,
    /// Name of the method.
    pub method: String,
    /// Parameters by name. Omitted on the wire if empty.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
}

impl IotReport {
    /// Parses the message's `descriptors` and `states`. Skips entries without a name.
    pub fn from_object(message: &Map<String, Value>) -> Self {
        let entries = |field: &str| {
            message.get(field).and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
        };
        Self {
            things: entries("descriptors").iter().filter_map(Thing::from_value).collect(),
            states: entries("states").iter().filter_map(ThingState::from_value).collect(),
        }
    }
}

impl Thing {
    /// Parses one descriptor. `None` if it has no name.
    pub fn from_value(value: &Value) -> Option<Self> {
        let methods = fields(value, "methods").map(|(name, method)| {
            let parameters = properties(method, "parameters");
            (name.clone(), Method { description: text(method, "description"), parameters })
        });
        Some(Self {
            name: name(value, "name")?,
            description: text(value, "description"),
            properties: properties(value, "properties"),
            methods: methods.collect(),
        })
    }

    /// Creates the command that calls a method. Drops parameters that the method does not have.
    ///
    /// # Errors
    /// Returns an error if the method is unknown, or a parameter is missing or of the wrong type.
    pub fn command(
        &self,
        method: &str,
        given: &Map<String, Value>,
    ) -> Result<Command, DecodeError> {
        let known = self.methods.get(method).ok_or_else(|| {
            DecodeError::field("method", format!("`{}` has no `{method}`", self.name))
        })?;
        let mut parameters = Map::new();
        for (name, property) in &known.parameters {
            let fitting = given.get(name).and_then(|value| property.kind.fit(value));
            let wrong = || {
                DecodeError::field("parameters", format!("`{name}` must be a {}", property.kind))
            };
            parameters.insert(name.clone(), fitting.ok_or_else(wrong)?);
        }
        Ok(Command { name: self.name.clone(), method: method.to_owned(), parameters })
    }
}

impl ThingState {
    fn from_value(value: &Value) -> Option<Self> {
        let values = value.get("state").and_then(Value::as_object).cloned().unwrap_or_default();
        Some(Self { name: name(value, "name")?, values })
    }
}

impl Command {
    /// Parses one command, like a device does. `None` if the name or the method is missing.
    pub fn from_value(value: &Value) -> Option<Self> {
        let parameters = value.get("parameters").and_then(Value::as_object).cloned();
        Some(Self {
            name: name(value, "name")?,
            method: name(value, "method")?,
            parameters: parameters.unwrap_or_default(),
        })
    }
}

impl ValueKind {
    fn read(word: &str) -> Self {
        match word {
            "boolean" | "bool" => Self::Boolean,
            "number" | "integer" => Self::Number,
            _ => Self::String,
        }
    }

    /// Returns the value in a form that firmware accepts, if it has this type.
    fn fit(self, value: &Value) -> Option<Value> {
        match self {
            Self::Boolean => value.as_bool().map(Value::from),
            Self::Number => {
                let range = f64::from(i32::MIN)..=f64::from(i32::MAX);
                let number = value.as_f64().filter(|n| n.fract() == 0.0 && range.contains(n))?;
                #[allow(clippy::cast_possible_truncation, reason = "checked just above")]
                let whole = number as i32;
                Some(whole.into())
            }
            Self::String => value.as_str().map(Value::from),
        }
    }
}

impl std::fmt::Display for ValueKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Boolean => "boolean",
            Self::Number => "whole number",
            Self::String => "string",
        })
    }
}

fn properties(value: &Value, field: &str) -> BTreeMap<String, Property> {
    let read = |(name, value): (&String, &Value)| {
        let kind = ValueKind::read(&text(value, "type"));
        (name.clone(), Property { description: text(value, "description"), kind })
    };
    fields(value, field).map(read).collect()
}

fn fields<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.get(field).and_then(Value::as_object).into_iter().flatten()
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn name(value: &Value, field: &str) -> Option<String> {
    Some(text(value, field)).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn screen() -> Thing {
        Thing::from_value(&json!({
            "name": "Screen",
            "methods": {
                "set_brightness": {"parameters": {"brightness": {"type": "number"}}},
                "set_theme": {"parameters": {"theme_name": {"type": "string"}}},
                "wake": {"description": "no parameters here"},
            },
        }))
        .unwrap()
    }

    fn given(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn commands_contain_only_what_firmware_accepts() {
        let order =
            |method, value| screen().command(method, &given(&value)).map_err(|e| e.to_string());
        let set = order("set_brightness", json!({"brightness": 40.0, "more": 1})).unwrap();
        assert_eq!(set.parameters, given(&json!({"brightness": 40})));
        let wake = serde_json::to_value(order("wake", json!({})).unwrap()).unwrap();
        assert_eq!(wake, json!({"name": "Screen", "method": "wake"}));
        let refused = [
            order("explode", json!({})),
            order("set_theme", json!({})),
            order("set_theme", json!({"theme_name": 3})),
            order("set_brightness", json!({"brightness": "40"})),
            order("set_brightness", json!({"brightness": 3e9})),
        ]
        .map(|r| r.unwrap_err())
        .join("\n");
        expect_test::expect![[r#"
            field `method`: `Screen` has no `explode`
            field `parameters`: `theme_name` must be a string
            field `parameters`: `theme_name` must be a string
            field `parameters`: `brightness` must be a whole number
            field `parameters`: `brightness` must be a whole number"#]]
        .assert_eq(&refused);
    }

    #[test]
    fn invalid_descriptors_are_read_as_far_as_possible() {
        let odd = json!({
            "descriptors": [
                {"name": "A", "properties": [], "methods": {"m": 3}},
                {"name": "B", "properties": {"p": {"type": "float"}, "q": null}},
                {"description": "no name"},
                7,
            ],
            "states": [{"name": "A"}, {"state": {"p": 1}}, null],
        });
        let report = IotReport::from_object(&given(&odd));
        let names: Vec<&str> = report.things.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["A", "B"]);
        assert!(report.things[0].methods["m"].parameters.is_empty());
        assert_eq!(report.things[1].properties["p"].kind, ValueKind::String);
        assert_eq!(report.states, [ThingState { name: "A".into(), values: Map::new() }]);
        let bare = IotReport::from_object(&given(&json!({"descriptors": 3})));
        assert_eq!(bare, IotReport::default());
    }

    fn typed() -> impl Strategy<Value = BTreeMap<String, Property>> {
        let kind =
            prop_oneof![Just(ValueKind::Boolean), Just(ValueKind::Number), Just(ValueKind::String)];
        let property =
            (".{0,9}", kind).prop_map(|(description, kind)| Property { description, kind });
        prop::collection::btree_map(".{0,6}", property, 0..4)
    }

    fn things() -> impl Strategy<Value = Thing> {
        let method = (".{0,9}", typed())
            .prop_map(|(description, parameters)| Method { description, parameters });
        let methods = prop::collection::btree_map(".{0,6}", method, 0..4);
        (".{1,9}", ".{0,9}", typed(), methods).prop_map(
            |(name, description, properties, methods)| Thing {
                name,
                description,
                properties,
                methods,
            },
        )
    }

    proptest! {
        #[test]
        fn things_round_trip(
            things in prop::collection::vec(things(), 0..3),
            name in ".{1,9}",
            level: i32,
        ) {
            let state = ThingState { name: name.clone(), values: given(&json!({"level": level})) };
            let text = json!({"descriptors": things, "states": [state]}).to_string();
            let message: Map<String, Value> = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(
                IotReport::from_object(&message),
                IotReport { things, states: vec![state] }
            );
            let command =
                Command { name, method: "m".into(), parameters: given(&json!({"level": level})) };
            let text = serde_json::to_string(&command).unwrap();
            let value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(Command::from_value(&value), Some(command));
        }

        #[test]
        fn a_command_fits_its_method(thing in things(), number: i32, text in ".{0,9}", on: bool) {
            for (name, method) in &thing.methods {
                let value = |p: &Property| match p.kind {
                    ValueKind::Boolean => json!(on),
                    ValueKind::Number => json!(number),
                    ValueKind::String => json!(text),
                };
                let given: Map<String, Value> =
                    method.parameters.iter().map(|(n, p)| (n.clone(), value(p))).collect();
                prop_assert_eq!(thing.command(name, &given).unwrap().parameters, given);
            }
        }
    }
}
