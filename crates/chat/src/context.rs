//! Builds the prompt: instructions with the current state and tools, earlier messages, and the new
//! message. Not for the token budget.

use hearken_dialogue::CURRENT_TIME;
use hearken_dialogue::template::fill;
use hearken_ports::role::ReplyLanguage;
use hearken_ports::{ChatMessage, KeptMessage, OfferedTool, Prompt, ToolRequest};
use hearken_proto::chat::{ChatRequest, ChatSession, FunctionCall, Message, Role, ToolCall};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::ChatService;
use super::budget::whole_exchanges;
use super::state_tools::summary;

/// Builds the prompt of a turn.
pub(super) fn prompt(
    service: &ChatService,
    session: &ChatSession,
    state: &Map<String, Value>,
    tools: &[OfferedTool],
    before: &[KeptMessage],
    request: &ChatRequest,
) -> Prompt {
    let settings = service.settings.get();
    let role = service.role().unwrap_or_default();
    let own = role.system_prompt.trim();
    let system = fill(
        if own.is_empty() { &settings.system_prompt } else { own },
        &[
            ("{session_name}", &session.name),
            ("{state}", &summary(state)),
            ("{tools}", &listed(tools)),
            (CURRENT_TIME, &(service.now)()),
        ],
    );
    let rule = role.language.map(ReplyLanguage::rule).unwrap_or_default();
    let system = system + &rule;
    let mut messages = vec![ChatMessage::new(Role::System, system)];
    let before = if role.memory { before } else { &[] };
    let before = before.iter().map(|kept| to_model_message(&kept.message)).collect();
    messages.extend(whole_exchanges(before));
    messages
        .push(ChatMessage::new(Role::User, words(request.player_id.as_deref(), &request.message)));
    Prompt {
        messages,
        max_tokens: role.max_tokens.unwrap_or(settings.max_tokens),
        temperature: role.temperature.unwrap_or(settings.temperature),
        model: role.model.clone(),
        ..Prompt::default()
    }
}

fn listed(tools: &[OfferedTool]) -> String {
    if tools.is_empty() {
        return "（无）".into();
    }
    let line = |tool: &OfferedTool| {
        let description = tool.description.lines().next().unwrap_or_default();
        format!("- {}：{description}", tool.name)
    };
    tools.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns a person's words, prefixed with the speaker if the client named one.
fn words(player: Option<&str>, message: &str) -> String {
    player.map_or_else(|| message.to_owned(), |player| format!("[{player}] {message}"))
}

fn to_model_message(message: &Message) -> ChatMessage {
    let call = |call: &ToolCall| ToolRequest {
        id: call.id.clone(),
        name: call.function.name.clone(),
        arguments: call.function.arguments.clone(),
        ..ToolRequest::default()
    };
    let content = match message.role {
        Role::User => words(message.player_id.as_deref(), &message.content),
        _ => message.content.clone(),
    };
    ChatMessage {
        role: message.role,
        content,
        calls: message.tool_calls.iter().map(call).collect(),
        answers: message.tool_call_id.clone().unwrap_or_default(),
        read_from: message.read_from.clone(),
    }
}

/// Converts a message to the form in which it is stored and shown.
pub(super) fn to_stored_message(
    message: &ChatMessage,
    player_id: Option<&str>,
    at: Timestamp,
) -> Message {
    let call = |call: &ToolRequest| ToolCall {
        id: call.id.clone(),
        kind: "function".into(),
        function: FunctionCall { name: call.name.clone(), arguments: call.arguments.clone() },
    };
    Message {
        role: message.role,
        content: message.content.clone(),
        tool_calls: message.calls.iter().map(call).collect(),
        tool_call_id: Some(message.answers.clone()).filter(|id| !id.is_empty()),
        player_id: player_id.filter(|_| message.role == Role::User).map(str::to_owned),
        read_from: message.read_from.clone(),
        timestamp: at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_stored_unchanged() {
        let at = Timestamp::UNIX_EPOCH;
        let call = ToolRequest {
            id: "1".into(),
            name: "roll".into(),
            arguments: "{}".into(),
            ..ToolRequest::default()
        };
        for message in [
            ChatMessage::new(Role::User, "hi"),
            ChatMessage::calling("so", vec![call]),
            ChatMessage::result("1", "17"),
        ] {
            assert_eq!(to_model_message(&to_stored_message(&message, None, at)), message);
        }
        let kept = to_stored_message(&ChatMessage::new(Role::User, "hi"), Some("p1"), at);
        assert_eq!(
            (kept.content.as_str(), to_model_message(&kept).content.as_str()),
            ("hi", "[p1] hi")
        );
    }
}
