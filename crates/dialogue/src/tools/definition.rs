//! Definitions of tools as they come from their sources: the conversion from MCP, and forms that servers and devices use beside
//! its own. Not for limits, names that models see, nor for policies.

use hearken_ports::Tool;
use hearken_ports::tool_limits::cut_description;
use rmcp::model;
use serde_json::Value;

/// Fields under which servers and devices write the schema of a tool: that of MCP, and those of models' interfaces.
pub const SCHEMA_FIELDS: [&str; 3] = ["inputSchema", "input_schema", "parameters"];

/// Returns the type, if there is one, and the data of a picture that is given as a data URL.
pub fn data_url(text: &str) -> Option<(Option<&str>, &str)> {
    let (kind, data) = text.strip_prefix("data:")?.split_once(";base64,")?;
    Some((kind.split(';').next().filter(|kind| kind.contains('/')), data))
}

/// Converts a tool of MCP. Its title stands in for a missing description.
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

/// Reports whether the hints say that a call may delete or overwrite something. Only what a server
/// says counts: without a word about it, most tools of most servers would be destructive by the
/// default of the protocol.
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
    fn only_what_a_server_says_makes_a_tool_destructive() {
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
