//! Definitions of tools as they come from their sources: the conversion from MCP, and the limits on
//! what a source may put into a prompt. Not for names that models see, nor for policies.

use rmcp::model;
use serde_json::Value;

use super::schema::MAX_BYTES as MAX_SCHEMA_BYTES;
use crate::ports::Tool;

/// Maximum number of tools of one source.
pub const MAX_TOOLS: usize = 1_000;
/// Longest name of a tool at its source, in bytes. A tool with a longer one is left out.
pub const MAX_NAME_BYTES: usize = 256;
/// Longest description of a tool, in characters. The rest is cut.
pub const MAX_DESCRIPTION_CHARS: usize = 2_000;
/// Largest size of the tools of one source, in bytes of JSON. Further tools are left out.
pub const MAX_SOURCE_BYTES: usize = 1 << 20;

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

/// Cuts a description that is too long, and marks the place.
pub fn cut_description(description: &str) -> String {
    match description.char_indices().nth(MAX_DESCRIPTION_CHARS) {
        None => description.to_owned(),
        Some(_) => {
            let mut kept: String = description.chars().take(MAX_DESCRIPTION_CHARS - 1).collect();
            kept.push('…');
            kept
        }
    }
}

/// Returns the tools of a source within all limits, in order. Of several tools with the same name,
/// keeps the first: a call reaches that one. Logs what is left out.
pub fn within_limits(source: &str, tools: impl IntoIterator<Item = Tool>) -> Vec<Tool> {
    let mut kept: Vec<Tool> = Vec::new();
    let (mut left_out, mut room) = (0_usize, MAX_SOURCE_BYTES);
    for mut tool in tools {
        if kept.iter().any(|known| known.name == tool.name) {
            continue;
        }
        tool.description = cut_description(&tool.description);
        let schema = tool.parameters.to_string().len();
        let size = tool.name.len() + tool.description.len() + schema;
        let fits = tool.name.len() <= MAX_NAME_BYTES
            && schema <= MAX_SCHEMA_BYTES
            && size <= room
            && kept.len() < MAX_TOOLS;
        if fits {
            room -= size;
            kept.push(tool);
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        tracing::warn!(
            source,
            left_out,
            kept = kept.len(),
            "left out tools whose names or schemas are too long, or that are too many"
        );
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn from_json(tool: Value) -> Tool {
        from_mcp(&serde_json::from_value(tool).unwrap())
    }

    fn tool(name: &str, description: &str, parameters: Value) -> Tool {
        let (name, description) = (name.to_owned(), description.to_owned());
        Tool { name, description, parameters, finishes: false, destructive: false }
    }

    fn names(tools: &[Tool]) -> Vec<&str> {
        tools.iter().map(|tool| tool.name.as_str()).collect()
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
        let longest = "字".repeat(MAX_DESCRIPTION_CHARS);
        assert_eq!(cut_description(&longest), longest);
    }

    #[test]
    fn tools_beyond_a_limit_are_left_out_and_the_others_stay() {
        let schema = json!({"description": "x".repeat(MAX_SCHEMA_BYTES)});
        let tools = [
            tool("a", "first", json!({})),
            tool("a", "second", json!({})),
            tool(&"n".repeat(MAX_NAME_BYTES + 1), "", json!({})),
            tool("large", "", schema),
            tool("b", &"x".repeat(9_000), json!({})),
        ];
        let kept = within_limits("s", tools);
        assert_eq!(names(&kept), ["a", "b"]);
        assert_eq!((kept[0].description.as_str(), kept[1].description.len()), ("first", 2_002));
        let many = (0..MAX_TOOLS + 5).map(|n| tool(&n.to_string(), "", json!({})));
        assert_eq!(within_limits("s", many).len(), MAX_TOOLS);
        let schema = json!({"description": "x".repeat(60_000)});
        let large = (0..99).map(|n| tool(&n.to_string(), "", schema.clone()));
        assert_eq!(within_limits("s", large).len(), MAX_SOURCE_BYTES / 60_020);
    }
}
