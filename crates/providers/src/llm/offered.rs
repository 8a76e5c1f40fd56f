//! Tools that a request offers to the model. Not for a vendor's format.

use std::sync::Arc;

use hearken_ports::{OfferedTool, Prompt, ToolChoice};
use serde_json::json;

/// Maximum length of a name that servers accept.
const MAX_NAME: usize = 64;

/// Returns the tools of a prompt, and whether they may be called. Servers refuse a conversation
/// with calls of tools that are not offered. If a prompt offers no tools, those called before are
/// offered and may not be called.
pub(super) fn offered(prompt: &Prompt) -> (Arc<[OfferedTool]>, ToolChoice) {
    if !prompt.tools.is_empty() {
        return (Arc::clone(&prompt.tools), prompt.tool_choice);
    }
    let calls = prompt.messages.iter().flat_map(|message| &message.calls);
    let mut names: Vec<&str> = calls.map(|call| call.name.as_str()).filter(|n| legal(n)).collect();
    names.sort_unstable();
    names.dedup();
    let gone = |name: &str| OfferedTool {
        name: name.to_owned(),
        description: "No longer available.".to_owned(),
        parameters: json!({ "type": "object", "properties": {} }),
    };
    (names.into_iter().map(gone).collect(), ToolChoice::None)
}

fn legal(name: &str) -> bool {
    let sign = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(sign)
}

#[cfg(test)]
mod tests {
    use hearken_ports::{ChatMessage, ToolRequest};

    use super::*;

    #[test]
    fn called_tools_are_offered_if_a_prompt_has_none() {
        assert!(offered(&Prompt::default()).0.is_empty());
        let call = |name: &str| ToolRequest {
            id: "a".into(),
            name: name.into(),
            arguments: "{}".into(),
            ..ToolRequest::default()
        };
        let calls = vec![call("g"), call("f"), call("g"), call(""), call("a b")];
        let messages = vec![ChatMessage::calling("", calls)];
        let prompt = Prompt { messages, ..Prompt::default() };
        let (tools, choice) = offered(&prompt);
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!((names, choice), (vec!["f", "g"], ToolChoice::None));
        let (tools, choice) = offered(&Prompt { tools: tools[..1].into(), ..prompt });
        assert_eq!((tools.len(), choice), (1, ToolChoice::Auto));
    }
}
