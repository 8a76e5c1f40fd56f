//! Limits of untrusted JSON Schemas: their size before they are compiled, and the steps of a check
//! before it is made. Not for compiling them.
//!
//! A check is first walked as the validator does, and its steps are counted: in a schema of 2 KB
//! each part may refer twice to the next, which doubles the work with each part.

use hearken_ports::tool_limits::MAX_SCHEMA_BYTES;
use serde_json::{Map, Value};

/// Maximum number of values in a schema.
pub(super) const MAX_VALUES: usize = 4_096;
/// Maximum depth of a schema.
pub(super) const MAX_DEPTH: usize = 48;
/// Maximum number of regular expressions in a schema.
pub(super) const MAX_PATTERNS: usize = 16;
/// Maximum length of a regular expression, in bytes.
pub(super) const MAX_PATTERN_BYTES: usize = 512;

/// Maximum number of steps of one check: pairs of a part of the schema and a value.
const MAX_STEPS: usize = 50_000;
/// Maximum depth of a check, by references and by values.
const MAX_CHECK_DEPTH: usize = 96;
/// Steps per byte that a regular expression reads.
const STEPS_PER_BYTE: usize = 4;
/// Keywords that change the target of a reference.
const UNSUPPORTED: [&str; 6] =
    ["$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveRef", "id"];

/// Checks the size of a schema.
///
/// # Errors
/// Returns the limit that the schema exceeds, or an unsupported keyword in it.
pub(super) fn check_size(schema: &Value) -> Result<(), String> {
    Size::default().add(schema, 0)
}

/// Checks that checking this value does not take too much work.
///
/// # Errors
/// Returns a message if it does.
pub(super) fn check_work(schema: &Value, value: &Value) -> Result<(), String> {
    let mut work = Work { root: schema, steps: 0 };
    work.add(schema, value, 0).map_err(|TooMuch| "they take too long to check".to_owned())
}

#[derive(Default)]
struct Size {
    bytes: usize,
    values: usize,
    patterns: usize,
}

impl Size {
    fn add(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        self.values += 1;
        self.bytes += match value {
            Value::String(text) => text.len() + 3,
            Value::Number(number) => number.as_str().len() + 1,
            _ => 3,
        };
        if self.values > MAX_VALUES {
            return Err(format!("it has more than {MAX_VALUES} values"));
        }
        if depth > MAX_DEPTH {
            return Err(format!("it has more than {MAX_DEPTH} levels"));
        }
        match value {
            Value::Array(items) => {
                for item in items {
                    self.add(item, depth + 1)?;
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    self.bytes += name.len() + 4;
                    self.keyword(name, field, depth)?;
                    self.add(field, depth + 1)?;
                }
            }
            _ => {}
        }
        if self.bytes > MAX_SCHEMA_BYTES {
            return Err(format!("it is longer than {MAX_SCHEMA_BYTES} bytes"));
        }
        Ok(())
    }

    /// Checks a field that may be a keyword. A property of the same name has an object as value.
    fn keyword(&mut self, name: &str, field: &Value, depth: usize) -> Result<(), String> {
        match (name, field) {
            ("pattern", Value::String(pattern)) => self.pattern(pattern),
            ("patternProperties", Value::Object(patterns)) => {
                patterns.keys().try_for_each(|pattern| self.pattern(pattern))
            }
            ("$ref", Value::String(target)) if !is_local(target) => {
                Err("`$ref` must be `#` or begin with `#/`, without `%`".into())
            }
            (_, Value::String(_)) if depth > 0 && UNSUPPORTED.contains(&name) => {
                Err(format!("`{name}` is not supported here"))
            }
            _ => Ok(()),
        }
    }

    fn pattern(&mut self, pattern: &str) -> Result<(), String> {
        self.patterns += 1;
        if self.patterns > MAX_PATTERNS {
            return Err(format!("it has more than {MAX_PATTERNS} patterns"));
        }
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(format!("a pattern is longer than {MAX_PATTERN_BYTES} bytes"));
        }
        Ok(())
    }
}

fn is_local(target: &str) -> bool {
    // The validator would decode an encoded path, but the step count would not.
    target == "#" || target.starts_with("#/") && !target.contains('%')
}

struct TooMuch;

/// Steps of one check so far.
struct Work<'a> {
    root: &'a Value,
    steps: usize,
}

impl Work<'_> {
    fn count(&mut self, steps: usize) -> Result<(), TooMuch> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > MAX_STEPS { Err(TooMuch) } else { Ok(()) }
    }

    /// Counts the check of a value against a part of the schema.
    fn add(&mut self, schema: &Value, value: &Value, depth: usize) -> Result<(), TooMuch> {
        self.count(1)?;
        if depth > MAX_CHECK_DEPTH {
            return Err(TooMuch);
        }
        let Value::Object(keywords) = schema else { return Ok(()) };
        // Unevaluated fields and items are found by evaluating the other keywords a second time.
        let twice = ["unevaluatedProperties", "unevaluatedItems"];
        let times = if twice.iter().any(|name| keywords.contains_key(*name)) { 2 } else { 1 };
        for _ in 0..times {
            for (keyword, argument) in keywords {
                self.keyword(keywords, keyword, argument, value, depth + 1)?;
            }
        }
        Ok(())
    }

    fn keyword(
        &mut self,
        keywords: &Map<String, Value>,
        keyword: &str,
        argument: &Value,
        value: &Value,
        depth: usize,
    ) -> Result<(), TooMuch> {
        match (keyword, argument, value) {
            ("$ref", Value::String(target), _) => {
                let found = target.strip_prefix('#').and_then(|path| self.root.pointer(path));
                found.map_or(Ok(()), |found| self.add(found, value, depth))
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas), _) => {
                schemas.iter().try_for_each(|schema| self.add(schema, value, depth))
            }
            ("not" | "if" | "then" | "else", schema, _) => self.add(schema, value, depth),
            ("dependentSchemas" | "dependencies", Value::Object(schemas), Value::Object(_)) => {
                schemas.values().try_for_each(|schema| self.add(schema, value, depth))
            }
            ("enum", Value::Array(allowed), _) => self.count(allowed.len()),
            ("required" | "dependentRequired", names, Value::Object(_)) => {
                self.count(names.as_array().map_or(0, Vec::len))
            }
            ("pattern" | "format", _, Value::String(text)) => {
                self.count(text.len().saturating_mul(STEPS_PER_BYTE))
            }
            (_, _, Value::Object(fields)) => {
                self.fields(keywords, keyword, argument, fields, depth)
            }
            (_, _, Value::Array(items)) => self.items(keyword, argument, items, depth),
            _ => Ok(()),
        }
    }

    /// Counts a keyword for the fields of an object.
    fn fields(
        &mut self,
        keywords: &Map<String, Value>,
        keyword: &str,
        argument: &Value,
        fields: &Map<String, Value>,
        depth: usize,
    ) -> Result<(), TooMuch> {
        match (keyword, argument) {
            ("properties", Value::Object(known)) => known.iter().try_for_each(|(name, schema)| {
                fields.get(name).map_or(self.count(1), |field| self.add(schema, field, depth))
            }),
            ("patternProperties", Value::Object(patterns)) => {
                for (name, field) in fields {
                    for schema in patterns.values() {
                        self.count(name.len().saturating_mul(STEPS_PER_BYTE))?;
                        self.add(schema, field, depth)?;
                    }
                }
                Ok(())
            }
            ("additionalProperties" | "unevaluatedProperties", schema) => {
                let known = keywords.get("properties").and_then(Value::as_object);
                let is_known = |name| known.is_some_and(|known| known.contains_key(name));
                for (name, field) in fields {
                    self.count(1)?;
                    if keyword == "unevaluatedProperties" || !is_known(name) {
                        self.add(schema, field, depth)?;
                    }
                }
                Ok(())
            }
            ("propertyNames", schema) => fields
                .keys()
                .try_for_each(|name| self.add(schema, &Value::String(name.clone()), depth)),
            _ => Ok(()),
        }
    }

    /// Counts a keyword for the items of an array.
    fn items(
        &mut self,
        keyword: &str,
        argument: &Value,
        items: &[Value],
        depth: usize,
    ) -> Result<(), TooMuch> {
        match (keyword, argument) {
            ("items" | "prefixItems", Value::Array(schemas)) => {
                let mut pairs = schemas.iter().zip(items);
                pairs.try_for_each(|(schema, item)| self.add(schema, item, depth))
            }
            ("items" | "additionalItems" | "contains" | "unevaluatedItems", schema) => {
                items.iter().try_for_each(|item| self.add(schema, item, depth))
            }
            ("uniqueItems", Value::Bool(true)) => {
                self.count(items.len().saturating_mul(items.len()))
            }
            _ => Ok(()),
        }
    }
}
