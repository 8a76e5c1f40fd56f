//! A tool as a device lists it, and the validation of its arguments. Not for the set of tools of a device.

use serde_json::{Map, Value, json};

/// Kind of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Boolean,
    Integer { range: Option<(i32, i32)>, default: Option<i32> },
    String,
}

/// Tool as listed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tool {
    pub(super) name: String,
    description: String,
    pub(super) arguments: Vec<(String, Kind)>,
    /// True if the tool is listed only if `withUserTools` is requested.
    pub(super) user_only: bool,
}

impl Tool {
    pub(super) fn new(name: &str, description: &str, arguments: Vec<(&str, Kind)>) -> Self {
        let arguments = arguments.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect();
        Self::scripted(name, description, arguments)
    }

    pub(super) fn scripted(name: &str, description: &str, arguments: Vec<(String, Kind)>) -> Self {
        Self { name: name.into(), description: description.into(), arguments, user_only: false }
    }

    pub(super) fn for_users(mut self) -> Self {
        self.user_only = true;
        self
    }

    /// Returns the description in the format of firmware, with keys in firmware's order.
    pub(super) fn listing(&self) -> String {
        let properties = self.arguments.iter().map(|(name, kind)| {
            let schema = match kind {
                Kind::Boolean => r#"{"type":"boolean"}"#.to_owned(),
                Kind::String => r#"{"type":"string"}"#.to_owned(),
                Kind::Integer { range, default } => {
                    let default = default.map_or(String::new(), |d| format!(",\"default\":{d}"));
                    let range = range.map_or(String::new(), |(low, high)| {
                        format!(",\"minimum\":{low},\"maximum\":{high}")
                    });
                    format!("{{\"type\":\"integer\"{default}{range}}}")
                }
            };
            format!("\"{name}\":{schema}")
        });
        let properties = properties.collect::<Vec<_>>().join(",");
        let required: Vec<&str> = self
            .arguments
            .iter()
            .filter(|(_, kind)| kind.required())
            .map(|(name, _)| name.as_str())
            .collect();
        let required = if required.is_empty() {
            String::new()
        } else {
            format!(",\"required\":{}", json!(required))
        };
        let audience = if self.user_only { r#","annotations":{"audience":["user"]}"# } else { "" };
        format!(
            "{{\"name\":{},\"description\":{},\"inputSchema\":{{\"type\":\"object\",\
             \"properties\":{{{properties}}}{required}}}{audience}}}",
            json!(self.name),
            json!(self.description)
        )
    }

    /// Checks the given arguments and returns those that the tool takes.
    ///
    /// # Errors
    /// Fails, with the texts of firmware, if an argument is missing, of another type or out of
    /// range.
    pub(super) fn check(&self, given: Option<&Value>) -> Result<Map<String, Value>, String> {
        let mut taken = Map::new();
        for (name, kind) in &self.arguments {
            let value = given.and_then(|g| g.get(name));
            let found = match kind {
                Kind::Boolean => value.filter(|v| v.is_boolean()).cloned(),
                Kind::String => value.filter(|v| v.is_string()).cloned(),
                Kind::Integer { range, default } => {
                    let number = value.filter(|v| v.is_number()).map(int32);
                    if let (Some(number), Some((low, high))) = (number, range) {
                        within(number, *low, *high)?;
                    }
                    number.or(*default).map(Value::from)
                }
            };
            let found = found.ok_or_else(|| format!("Missing valid argument: {name}"))?;
            taken.insert(name.clone(), found);
        }
        Ok(taken)
    }
}

impl Kind {
    pub(super) fn required(&self) -> bool {
        !matches!(self, Self::Integer { default: Some(_), .. })
    }
}

fn within(number: i32, low: i32, high: i32) -> Result<(), String> {
    if number < low {
        return Err(format!("Value is below minimum allowed: {low}"));
    }
    if number > high {
        return Err(format!("Value exceeds maximum allowed: {high}"));
    }
    Ok(())
}

/// Converts a number as firmware's JSON library does: whole, and clamped to 32 bits.
pub(super) fn int32(number: &Value) -> i32 {
    number.as_f64().unwrap_or_default() as i32
}
