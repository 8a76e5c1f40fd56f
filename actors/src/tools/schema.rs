//! Compiled schema of a tool for checking arguments. Not for handling wrong ones.

use jsonschema::Validator;
use serde_json::{Map, Value};

use crate::ports::{Tool, ToolError};

/// Maximum number of reported mistakes.
const MAX_MISTAKES: usize = 3;

/// Compiled JSON Schema of a tool's arguments. Compiling costs far more than a check.
pub struct Schema(Option<Validator>);

impl Schema {
    /// Compiles the tool's own schema. An invalid schema accepts everything: the tool may do its
    /// own checks.
    pub fn from_tool(tool: &Tool) -> Self {
        let validator = jsonschema::validator_for(&tool.parameters);
        if let Err(error) = &validator {
            tracing::debug!(%error, "cannot use the schema of a tool");
        }
        Self(validator.ok())
    }

    /// Compiles the schema of an object.
    ///
    /// # Errors
    /// Returns the reason if the value is not the schema of an object.
    pub fn of_object(schema: &Value) -> Result<Self, String> {
        if schema["type"] != "object" {
            return Err("`parameters` must be a JSON Schema of type object".into());
        }
        match jsonschema::validator_for(schema) {
            Ok(validator) => Ok(Self(Some(validator))),
            Err(error) => {
                let place = error.instance_path().to_string();
                let wrong = format!("`parameters` is not a JSON Schema: {place} {error}");
                Err(wrong.replace("  ", " "))
            }
        }
    }

    /// Checks arguments against the schema.
    ///
    /// # Errors
    /// [`ToolError::Arguments`] with some of the mistakes.
    pub fn check(&self, arguments: &Map<String, Value>) -> Result<(), ToolError> {
        let Some(validator) = &self.0 else { return Ok(()) };
        let arguments = Value::Object(arguments.clone());
        let mistakes: Vec<String> = validator
            .iter_errors(&arguments)
            .take(MAX_MISTAKES)
            .map(|mistake| match mistake.instance_path().to_string() {
                whole if whole.is_empty() => mistake.to_string(),
                path => format!("{path}: {mistake}"),
            })
            .collect();
        if mistakes.is_empty() { Ok(()) } else { Err(ToolError::Arguments(mistakes.join("; "))) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(parameters: Value, arguments: &Value) -> Result<(), ToolError> {
        let (name, description) = ("t".into(), String::new());
        let tool = Tool { name, description, parameters, finishes: false };
        Schema::from_tool(&tool).check(arguments.as_object().unwrap())
    }

    #[test]
    fn mistakes_are_named_and_a_wrong_schema_checks_nothing() {
        let number = json!({"properties": {"a": {"type": "number"}}, "required": ["b"]});
        assert_eq!(checked(number.clone(), &json!({"a": 1, "b": null})), Ok(()));
        let told = checked(number, &json!({"a": "x"})).unwrap_err().to_string();
        assert!(told.contains("/a: \"x\" is not of type \"number\""), "{told}");
        assert!(told.contains("; \"b\" is a required property") || told.contains("property; /a"));
        assert_eq!(checked(json!({"type": 7}), &json!({"a": 1})), Ok(()));
    }
}
