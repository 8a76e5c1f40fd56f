//! Parses the arguments of calls, as models write them. Not for their check by the schema of a tool,
//! see [`super::calls`].

use hearken_ports::ToolError;
use hearken_proto::json::{NotParsed, weighed};
use serde_json::{Map, Value};

/// Parses the arguments of a call. Empty text and `null` mean no arguments: models write these. They
/// are also what a model leaves that breaks off before the arguments: the schema of the tool decides.
///
/// # Errors
/// [`ToolError::Arguments`] if the text is not a JSON object.
pub fn parsed_arguments(text: &str) -> Result<Map<String, Value>, ToolError> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match weighed(text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        // Some models encode the object a second time, as a JSON string.
        Ok(Value::String(inner)) if !inner.trim_start().starts_with('"') => {
            parsed_arguments(&inner)
        }
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(ToolError::Arguments("they are not a JSON object".into())),
        Err(NotParsed::TooHeavy(heavy)) => {
            Err(ToolError::Arguments(heavy.to_string().replacen("takes", "they take", 1)))
        }
        Err(NotParsed::NotJson(error)) => {
            Err(ToolError::Arguments(format!("they are not JSON: {error}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heavy_arguments_are_refused_with_the_reason() {
        let list = format!("[{}]", vec!["[]"; hearken_proto::json::MAX_WEIGHT / 64].join(","));
        let object = format!(r#"{{"a":{list}}}"#);
        let encoded = Value::String(object.clone()).to_string();
        for text in [list, object, encoded] {
            let Err(ToolError::Arguments(why)) = parsed_arguments(&text) else {
                panic!("accepted")
            };
            assert!(why.starts_with("they take more than 4096 KiB"), "{why}");
        }
    }
}
