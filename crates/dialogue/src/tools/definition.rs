//! Tool definitions of sources: the conversion from MCP, and other forms that servers and devices
//! use. Not for limits, names that models see, nor for policies.

use hearken_ports::Tool;
use hearken_ports::tool_limits::cut_description;
use rmcp::model;
use serde_json::Value;

/// Field names of a tool's schema at servers and devices: that of MCP, and those of model APIs.
pub const SCHEMA_FIELDS: [&str; 3] = ["inputSchema", "input_schema", "parameters"];

/// Returns the MIME type, if any, and the data of a picture in a data URL.
pub fn data_url(text: &str) -> Option<(Option<&str>, &str)> {
    let (kind, data) = text.strip_prefix("data:")?.split_once(";base64,")?;
    Some((kind.split(';').next().filter(|kind| kind.contains('/')), data))
}

/// Converts a tool of MCP. Its title replaces a missing description.
pub fn from_mcp(tool: &model::Tool) -> Tool {
    let description = tool.description.as_deref().or(tool.title.as_deref());
    Tool {
        name: tool.name.to_string(),
        description: cut_description(description.unwrap_or_default()),
        parameters: Value::Object(tool.input_schema.as_ref().clone()),
        finishes: false,
        destructive: tool.annotations.as_ref().is_some_and(is_destructive),
    }
}

/// Reports whether the hints say that a call may delete or overwrite something. Only explicit hints
/// count: by the default of the protocol, most tools of most servers would be destructive.
fn is_destructive(hints: &model::ToolAnnotations) -> bool {
    match (hints.read_only_hint, hints.destructive_hint) {
        (Some(true), _) | (_, Some(false)) | (None, None) => false,
        (_, Some(true)) | (Some(false), None) => true,
    }
}

#[cfg(test)]
mod tests {
    use hearken_ports::tool_limits::MAX_DESCRIPTION_CHARS;
    use serde_json::json;

    use super::*;

    fn from_json(tool: Value) -> Tool {
        from_mcp(&serde_json::from_value(tool).unwrap())
    }

    #[test]
    fn only_explicit_hints_make_a_tool_destructive() {
        for (hints, destructive) in [
            (json!({}), false),
            (json!({"title": "Delete"}), false),
            (json!({"destructiveHint": true}), true),
            (json!({"readOnlyHint": false}), true),
            (json!({"readOnlyHint": false, "destructiveHint": false}), false),
            (json!({"readOnlyHint": true, "destructiveHint": true}), false),
            (json!({"destructiveHint": false}), false),
        ] {
            let told = from_json(json!({"name": "t", "inputSchema": {}, "annotations": hints}));
            assert_eq!(told.destructive, destructive, "{hints}");
        }
        assert!(!from_json(json!({"name": "t", "inputSchema": {}})).destructive);
    }

    #[test]
    fn long_descriptions_and_titles_are_cut_between_characters() {
        let long = "字".repeat(MAX_DESCRIPTION_CHARS + 1);
        for key in ["description", "title"] {
            let told = from_json(json!({"name": "t", "inputSchema": {}, key: long}));
            assert_eq!(told.description.chars().count(), MAX_DESCRIPTION_CHARS);
            assert!(told.description.ends_with("字…"));
        }
    }
}
