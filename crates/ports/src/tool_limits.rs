//! Limits on the data that a source of tools may put into a prompt. Not for names that models see,
//! nor for policies.

use hearken_proto::json::weight;

use crate::Tool;

/// Maximum size of a tool's argument schema, in bytes of JSON. Tools with larger ones are left out.
pub const MAX_SCHEMA_BYTES: usize = 64 * 1024;
/// Maximum number of tools of one source.
pub const MAX_TOOLS: usize = 1_000;
/// Maximum length of a tool's name at its source, in bytes. Tools with longer ones are left out.
pub const MAX_NAME_BYTES: usize = 256;
/// Maximum length of a tool's description, in characters. The rest is cut.
pub const MAX_DESCRIPTION_CHARS: usize = 2_000;
/// Maximum length of a tool's description that every vendor accepts, in characters. The rest is not
/// sent.
pub const MAX_SENT_DESCRIPTION_CHARS: usize = 1_024;
/// Maximum size of the tools of one source, in bytes of JSON. Further tools are left out.
pub const MAX_SOURCE_BYTES: usize = 1 << 20;

/// Maximum size of a tool's argument schema, in bytes of memory. Tools with larger ones are left
/// out.
pub const MAX_SCHEMA_WEIGHT: usize = 1 << 20;
/// Maximum size of the tools of one source, in bytes of memory. Further tools are left out.
pub const MAX_SOURCE_WEIGHT: usize = 8 << 20;

/// Returns the approximate size of a tool in memory, in bytes.
pub fn tool_weight(tool: &Tool) -> usize {
    tool.name.len() + tool.description.len() + weight(&tool.parameters)
}

/// Shortens a description to [`MAX_DESCRIPTION_CHARS`], ending with an ellipsis.
pub fn cut_description(description: &str) -> String {
    cut(description, MAX_DESCRIPTION_CHARS)
}

/// Shortens a description to [`MAX_SENT_DESCRIPTION_CHARS`], ending with an ellipsis.
pub fn sent_description(description: &str) -> String {
    cut(description, MAX_SENT_DESCRIPTION_CHARS)
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => {
            let mut shortened: String = text.chars().take(most - 1).collect();
            shortened.push('…');
            shortened
        }
    }
}

/// Returns the tools of a source within all limits, in order. Logs the number of omitted tools.
pub fn within_limits(source: &str, tools: impl IntoIterator<Item = Tool>) -> Vec<Tool> {
    let mut limited = LimitedTools::default();
    for tool in tools {
        limited.add(tool);
    }
    if !limited.is_complete() {
        limited.log_left_out(source, None);
    }
    limited.finish()
}

/// Tools of a source within all limits, in order, while they are listed. Of several tools with the
/// same name, the first stays, because a call reaches that one.
#[derive(Debug)]
pub struct LimitedTools {
    kept: Vec<Tool>,
    left_out: usize,
    /// Remaining bytes of JSON.
    room: usize,
    /// Remaining bytes of memory.
    memory: usize,
}

impl Default for LimitedTools {
    fn default() -> Self {
        Self { kept: Vec::new(), left_out: 0, room: MAX_SOURCE_BYTES, memory: MAX_SOURCE_WEIGHT }
    }
}

impl LimitedTools {
    /// Adds a tool, or leaves it out. Returns false if the listing may stop.
    pub fn add(&mut self, mut tool: Tool) -> bool {
        if self.kept.iter().any(|known| known.name == tool.name) {
            return true;
        }
        tool.description = cut_description(&tool.description);
        let schema = tool.parameters.to_string().len();
        let size = tool.name.len() + tool.description.len() + schema;
        let weighs = tool_weight(&tool);
        let fits = tool.name.len() <= MAX_NAME_BYTES
            && schema <= MAX_SCHEMA_BYTES
            && size <= self.room
            && weighs <= MAX_SCHEMA_WEIGHT.min(self.memory)
            && self.kept.len() < MAX_TOOLS;
        if fits {
            self.room -= size;
            self.memory -= weighs;
            self.kept.push(tool);
        } else {
            self.left_out += 1;
        }
        self.kept.len() < MAX_TOOLS && self.left_out < MAX_TOOLS
    }

    /// Returns true if no tool was left out.
    pub fn is_complete(&self) -> bool {
        self.left_out == 0
    }

    /// Logs the number of tools that were left out, and of such warnings that were not logged.
    pub fn log_left_out(&self, source: &str, not_logged: Option<u64>) {
        tracing::warn!(
            source,
            left_out = self.left_out,
            kept = self.kept.len(),
            not_logged,
            "left out tools: their names or schemas are too large, or there are too many"
        );
    }

    /// Returns the tools.
    pub fn finish(self) -> Vec<Tool> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tool(name: &str, description: &str, parameters: Value) -> Tool {
        let name = name.to_owned();
        let description = description.to_owned();
        Tool { name, description, parameters, finishes: false, destructive: false }
    }

    fn names(tools: &[Tool]) -> Vec<&str> {
        tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    #[test]
    fn descriptions_are_cut_between_characters() {
        type Cut = fn(&str) -> String;
        let cuts: [(Cut, usize); 2] = [
            (cut_description, MAX_DESCRIPTION_CHARS),
            (sent_description, MAX_SENT_DESCRIPTION_CHARS),
        ];
        for (cut, most) in cuts {
            let longest = "字".repeat(most);
            assert_eq!(cut(&longest), longest);
            let cut = cut(&"字".repeat(most + 1));
            assert_eq!(cut.chars().count(), most);
            assert!(cut.ends_with("字…"));
        }
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
