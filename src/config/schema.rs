//! What each key is: meaning, type, range, default, variables. All of it comes from the structs of
//! the sections: doc comments, types, `#[schemars(range(...))]`, `Default`. Not for their values in
//! one configuration.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Number, Value, json};

use super::env::{ALIASES, PREFIX};
use super::{Config, names};

// Derived, because a list beside the structs would differ from them sooner or later. Decision 0086.
/// A key of the configuration.
#[derive(Debug, Clone)]
pub struct Key {
    /// Place in [`Config`]. A key of a table in a list has `[]` after the name of the list.
    pub path: String,
    /// What it means.
    pub about: String,
    /// Type of its values.
    pub kind: Kind,
    /// Default; null if the key must be given.
    pub default: Value,
    /// Smallest value.
    pub min: Option<Number>,
    /// Largest value.
    pub max: Option<Number>,
    /// The only values, if they are listed.
    pub one_of: Vec<Value>,
}

/// Type of a key's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Boolean,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// Text.
    Text,
    /// A list.
    List,
    /// A table with names of the owner's choice.
    Table,
}

impl Key {
    /// Returns the name by which it is written.
    pub fn name(&self) -> String {
        names::written(&self.path)
    }

    /// Reports whether it belongs to a table in a list, of which there may be several.
    pub fn is_in_list(&self) -> bool {
        self.path.contains("[]")
    }

    /// Returns the section in which it is written, and its name there.
    pub fn place(&self) -> (String, String) {
        let name = self.name();
        let (section, key) = name.rsplit_once('.').unwrap_or(("", &name));
        (section.to_owned(), key.to_owned())
    }

    /// Returns the environment variables that set it, the general one first.
    pub fn variables(&self) -> Vec<String> {
        if self.is_in_list() || self.kind == Kind::Table {
            return Vec::new();
        }
        let aliases = ALIASES.iter().filter(|alias| alias.key == self.path);
        let named = aliases.map(|alias| {
            let unit = if alias.seconds { " (in seconds)" } else { "" };
            format!("{}{unit}", alias.name)
        });
        std::iter::once(variable(&self.name())).chain(named).collect()
    }

    /// Returns the unit that the name of the key ends in.
    pub fn unit(&self) -> Option<&'static str> {
        const UNITS: [(&str, &str); 9] = [
            ("_ms", "milliseconds"),
            ("_days", "days"),
            ("_bytes", "bytes"),
            ("_hz", "Hz"),
            ("_bps", "bits per second"),
            ("_percent", "percent"),
            ("_mib", "MiB"),
            ("_seconds", "seconds"),
            ("_tokens", "tokens"),
        ];
        let is_number = matches!(self.kind, Kind::Integer | Kind::Number);
        UNITS.iter().find(|(end, _)| is_number && self.path.ends_with(end)).map(|(_, unit)| *unit)
    }

    /// Returns what is allowed, in words: `100 to 600000`; `None` if the type alone decides.
    pub fn range(&self) -> Option<String> {
        if !self.one_of.is_empty() {
            let values: Vec<String> = self.one_of.iter().map(plain).collect();
            let (last, rest) = values.split_last()?;
            return Some(match rest {
                [] => last.clone(),
                rest => format!("{} or {last}", rest.join(", ")),
            });
        }
        let items = if self.kind == Kind::List { " entries" } else { "" };
        match (self.min.as_ref(), self.max.as_ref()) {
            (Some(min), Some(max)) => Some(format!("{} to {}{items}", number(min), number(max))),
            (None, Some(max)) => Some(format!("at most {}{items}", number(max))),
            (Some(min), None) if number(min) != "0" => Some(format!("at least {}", number(min))),
            _ => None,
        }
    }

    /// Returns what to use instead, if the key does not allow this value.
    pub fn remedy_for(&self, value: &Value) -> Option<String> {
        let measured = match value {
            Value::Number(number) => number.as_f64(),
            Value::Array(items) => u32::try_from(items.len()).ok().map(f64::from),
            _ => None,
        };
        let limit = |limit: &Option<Number>| limit.as_ref().and_then(Number::as_f64);
        let is_below = measured.zip(limit(&self.min)).is_some_and(|(value, min)| value < min);
        let is_above = measured.zip(limit(&self.max)).is_some_and(|(value, max)| value > max);
        let is_listed = self.one_of.is_empty() || self.one_of.contains(value);
        let fits = is_listed && !is_below && !is_above;
        (!fits).then(|| format!("use {}", self.range().unwrap_or_default()))
    }
}

/// Returns the environment variable of a key by its written name.
pub fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.to_uppercase().replace('.', "__"))
}

/// Renders a number as people write it: 0.0 is `0`.
fn number(value: &Number) -> String {
    match (value.as_i64(), value.as_u64(), value.as_f64()) {
        (Some(n), ..) => n.to_string(),
        (_, Some(n), _) => n.to_string(),
        (.., Some(n)) => n.to_string(),
        _ => value.to_string(),
    }
}

/// Renders a value without quotation marks.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(value) => number(value),
        other => other.to_string(),
    }
}

/// All keys and sections.
pub struct Reference {
    /// Keys by path, in the order of the alphabet.
    pub keys: BTreeMap<String, Key>,
    /// Meaning of each section and of each list of tables, by path.
    pub sections: BTreeMap<String, String>,
}

impl Reference {
    /// Returns the key that a person means by this name, current or old.
    pub fn key(&self, name: &str) -> Option<&Key> {
        self.keys.get(&names::resolve(name).path)
    }

    /// Returns the written name of the key or section that was probably meant by an unknown one.
    pub fn nearest(&self, name: &str) -> Option<String> {
        let all: Vec<(&String, String)> =
            self.keys.keys().chain(self.sections.keys()).map(|p| (p, names::written(p))).collect();
        let distance = |(path, written): &&(&String, String)| {
            strsim::levenshtein(path, name).min(strsim::levenshtein(written, name))
        };
        if let Some(path) =
            name.strip_prefix("expert.").filter(|path| self.keys.contains_key(*path))
        {
            return Some(names::written(path));
        }
        let best = all.iter().min_by_key(distance)?;
        if distance(&best) <= 4.min(name.len() / 2) {
            return Some(best.1.clone());
        }
        // The right name, in the wrong section.
        let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
        let mut same = all.iter().filter(|(path, _)| last(path) == last(name));
        let (_, written) = same.next()?;
        same.next().is_none().then(|| written.clone())
    }
}

/// Returns every key of the program.
pub fn reference() -> &'static Reference {
    static REFERENCE: LazyLock<Reference> = LazyLock::new(build);
    &REFERENCE
}

fn build() -> Reference {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<Config>();
    let mut found = Reference { keys: BTreeMap::new(), sections: BTreeMap::new() };
    let defaults = json!(Config::default());
    collect(&mut found, "", schema.as_value(), &defaults);
    found
}

/// Adds the keys of an object.
fn collect(found: &mut Reference, path: &str, schema: &Value, defaults: &Value) {
    if !path.is_empty() {
        found.sections.insert(path.to_owned(), about(schema));
    }
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    for (name, property) in properties {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let default = defaults.get(name).unwrap_or(&Value::Null);
        if property["properties"].is_object() {
            collect(found, &path, property, default);
            continue;
        }
        found.keys.insert(path.clone(), key(path.clone(), property, default.clone()));
        if property["items"]["properties"].is_object() {
            let mut items = property["items"].clone();
            // The list says what its tables are.
            items["description"] = property["description"].clone();
            collect(found, &format!("{path}[]"), &items, &Value::Null);
        }
    }
}

fn key(path: String, schema: &Value, default: Value) -> Key {
    let limits =
        if schema["items"].is_null() { ["minimum", "maximum"] } else { ["minItems", "maxItems"] };
    let limit = |name: &str| schema[name].as_number().cloned();
    let default = if default.is_null() { schema["default"].clone() } else { default };
    Key {
        about: about(schema),
        kind: kind(schema),
        min: limit(limits[0]),
        max: limit(limits[1]),
        one_of: one_of(schema),
        default,
        path,
    }
}

fn about(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('\n', " ")
}

fn kind(schema: &Value) -> Kind {
    let name = match &schema["type"] {
        Value::Array(names) => names.first().and_then(Value::as_str),
        name => name.as_str(),
    };
    match name {
        Some("boolean") => Kind::Boolean,
        Some("integer") => Kind::Integer,
        Some("number") => Kind::Number,
        Some("array") => Kind::List,
        Some("object") => Kind::Table,
        _ => Kind::Text,
    }
}

/// Returns the values of an enumeration, in the order of its declaration.
fn one_of(schema: &Value) -> Vec<Value> {
    if let Some(values) = schema["enum"].as_array() {
        return values.clone();
    }
    let variants = schema["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    let values = |variant: &Value| match &variant["const"] {
        Value::Null => variant["enum"].as_array().cloned().unwrap_or_default(),
        value => vec![value.clone()],
    };
    variants.iter().flat_map(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_explained_and_has_a_default_that_it_allows() {
        let reference = reference();
        assert!(reference.keys.len() > 280, "{}", reference.keys.len());
        for (path, key) in &reference.keys {
            assert!(key.about.len() > 10, "{path} has no doc comment");
            assert_eq!(key.remedy_for(&key.default), None, "{path}: {}", key.default);
            assert!(key.about.ends_with(['.', ')', '`']), "{path}: {}", key.about);
        }
        for (path, about) in &reference.sections {
            assert!(about.len() > 5, "[{path}] has no doc comment");
        }
    }

    /// Adds the paths of 64-bit integers that may be larger than a reader of JSON represents.
    fn add_unbounded(schema: &Value, path: &str, found: &mut Vec<String>) {
        let is_wide = ["uint64", "int64", "uint"].iter().any(|format| schema["format"] == *format);
        let most = schema["maximum"].as_u64();
        let is_bounded = most.is_some_and(|most| most < 1 << 53) || schema["enum"].is_array();
        if is_wide && !is_bounded {
            found.push(path.to_owned());
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            add_unbounded(property, &format!("{path}.{name}"), found);
        }
        if schema["items"].is_object() {
            add_unbounded(&schema["items"], &format!("{path}[]"), found);
        }
    }

    #[test]
    fn no_integer_is_larger_than_readers_of_toml_and_json_represent() {
        let mut settings = SchemaSettings::draft2020_12();
        settings.inline_subschemas = true;
        let schema = settings.into_generator().into_root_schema_for::<Config>();
        let mut found = Vec::new();
        add_unbounded(schema.as_value(), "", &mut found);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn keys_have_types_ranges_units_and_variables() {
        let key = |name: &str| reference().key(name).unwrap_or_else(|| panic!("no {name}"));
        let port = key("server.port");
        assert_eq!((port.kind, port.default.clone()), (Kind::Integer, json!(9400)));
        assert_eq!(port.variables(), ["HEARKEN__SERVER__PORT", "CLOUD_PORT"]);
        let timeout = key("llm.timeout_ms");
        assert_eq!(timeout.variables()[1], "LLM_TIMEOUT (in seconds)");
        assert_eq!(timeout.unit(), Some("milliseconds"));
        assert_eq!(key("speaking.packet_ms").range().unwrap(), "20, 40 or 60");
        assert_eq!(key("gateway.temperature").range().unwrap(), "0 to 1");
        assert_eq!(key("lanes.uplink").variables(), ["HEARKEN__EXPERT__LANES__UPLINK"]);
        assert_eq!(key("llm.provider").range().unwrap(), "openai or anthropic");
        assert_eq!(key("tools.servers[].name").kind, Kind::Text);
        assert_eq!(key("llm.extra").kind, Kind::Table);
        assert_eq!(key("speaking.packet_ms").remedy_for(&json!(30)).unwrap(), "use 20, 40 or 60");
        assert_eq!(key("gateway.temperature").remedy_for(&json!(3.0)).unwrap(), "use 0 to 1");
        let nearest = |name: &str| reference().nearest(name);
        assert_eq!(nearest("server.prot").as_deref(), Some("server.port"));
        assert_eq!(nearest("lanes.uplnk").as_deref(), Some("expert.lanes.uplink"));
        assert_eq!(nearest("sever").as_deref(), Some("server"));
        assert_eq!(nearest("server.base_url"), None);
        assert_eq!(nearest("general.trust_proxy").as_deref(), Some("ota.trust_proxy"));
        assert_eq!(nearest("x"), None);
    }
}
