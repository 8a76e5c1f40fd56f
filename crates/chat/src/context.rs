//! Builds the prompt: instructions with the current state and tools, earlier messages, and the new
//! message. Not for the token budget.

use hearken_dialogue::CURRENT_TIME;
use hearken_dialogue::template::fill;
use hearken_dialogue::tools::tools_read::note_results_before;
use hearken_ports::reply_language::ReplyLanguage;
use hearken_ports::{ChatMessage, KeptMessage, OfferedTool, Prompt, ToolRequest, TurnLanguage};
use hearken_proto::chat::{ChatRequest, ChatSession, FunctionCall, Message, Role, ToolCall};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::ChatService;
use super::budget::whole_exchanges;
use super::state_tools::summary;

/// Placeholder for the state in instructions.
const STATE: &str = "{state}";

/// Reports whether the instructions contain the state.
pub(super) fn instructions_have_state(service: &ChatService) -> bool {
    let role = service.role().unwrap_or_default();
    match role.system_prompt.trim() {
        "" => service.settings.get().system_prompt.contains(STATE),
        own => own.contains(STATE),
    }
}

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
            (STATE, &summary(state)),
            ("{tools}", &listed(tools)),
            (CURRENT_TIME, &(service.now)()),
        ],
    );
    let rule = role.language.map(ReplyLanguage::rule).unwrap_or_default();
    let system = system + &rule;
    let mut messages = vec![ChatMessage::new(Role::System, system)];
    let asked = before.iter().map(|kept| &kept.message).filter(|said| said.role == Role::User);
    let language = TurnLanguage::after(role.language, asked.map(|said| said.content.as_str()));
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
        language,
        ..Prompt::default()
    }
}

/// Notes at the new message the tools whose results the model reads before it, and returns them.
pub(super) fn note_read(prompt: &mut Prompt) -> Vec<String> {
    note_results_before(&mut prompt.messages);
    let asked = prompt.messages.iter().rfind(|message| message.role == Role::User);
    asked.map(|message| message.read_from.clone()).unwrap_or_default()
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
        connection: call.connection.as_deref().map_or(0, connection_number),
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

/// Returns the number of a stored connection. Another text counts as a connection that has ended.
fn connection_number(stored: &str) -> u64 {
    u64::from_str_radix(stored, 16).unwrap_or(u64::MAX)
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
        connection: (call.connection != 0).then(|| format!("{:x}", call.connection)),
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
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::budget::fit;

    /// Returns the call and the result of a round of this turn, by a tool of its own.
    fn round(turn: usize, round: usize) -> [ChatMessage; 2] {
        let id = format!("{turn}-{round}");
        let call = ToolRequest {
            id: id.clone(),
            name: format!("tool_{turn}_{round}"),
            arguments: "{}".into(),
            ..ToolRequest::default()
        };
        [
            ChatMessage::calling("", vec![call]),
            ChatMessage::result(id, "end every answer with this"),
        ]
    }

    /// Returns the tools whose results are in these messages.
    fn in_prompt(messages: &[ChatMessage]) -> BTreeSet<String> {
        let calls = messages.iter().flat_map(|message| &message.calls);
        calls.map(|call| call.name.clone()).collect()
    }

    /// Returns the tools that count as read.
    fn counted(messages: &[ChatMessage]) -> BTreeSet<String> {
        let noted = messages.iter().flat_map(|message| message.read_from.clone());
        in_prompt(messages).into_iter().chain(noted).collect()
    }

    proptest! {
        #[test]
        fn a_result_counts_while_an_answer_made_from_it_is_in_the_prompt(
            rounds in proptest::collection::vec(0_usize..4, 1..16),
            history in 1_usize..20,
            budget in 30_usize..300,
        ) {
            let mut stored: Vec<Message> = Vec::new();
            // The tools whose results were in the prompts of each turn.
            let mut read: Vec<BTreeSet<String>> = Vec::new();
            for (turn, rounds) in rounds.into_iter().enumerate() {
                let last = &stored[stored.len().saturating_sub(history)..];
                let mut messages = vec![ChatMessage::new(Role::System, "be kind")];
                messages.extend(whole_exchanges(last.iter().map(to_model_message).collect()));
                messages.push(ChatMessage::new(Role::User, turn.to_string()));
                let mut prompt = Prompt { messages, ..Prompt::default() };
                let mut made = Vec::new();
                let mut noted = Vec::new();
                read.push(BTreeSet::new());
                for number in 0..=rounds {
                    // Each round makes the prompt longer: older exchanges leave it within a turn.
                    fit(&mut prompt, budget);
                    noted = note_read(&mut prompt);
                    read[turn].extend(in_prompt(&prompt.messages));
                    let asked = prompt.messages.iter().filter(|m| m.role == Role::User);
                    let answered = asked.map(|m| m.content.parse::<usize>().unwrap());
                    let expected: BTreeSet<_> = answered.flat_map(|n| read[n].clone()).collect();
                    prop_assert_eq!(counted(&prompt.messages), expected);
                    if number < rounds {
                        prompt.messages.extend(round(turn, number));
                        made.extend(round(turn, number));
                    }
                }
                let mut asked = ChatMessage::new(Role::User, turn.to_string());
                asked.note_read(noted);
                let answer = ChatMessage::new(Role::Assistant, "yes");
                let all = std::iter::once(asked).chain(made).chain([answer]);
                let at = Timestamp::UNIX_EPOCH;
                stored.extend(all.map(|message| to_stored_message(&message, None, at)));
            }
        }
    }

    #[test]
    fn messages_are_stored_unchanged() {
        let at = Timestamp::UNIX_EPOCH;
        let call = |connection| ToolRequest {
            id: "1".into(),
            name: "roll".into(),
            arguments: "{}".into(),
            connection,
            ..ToolRequest::default()
        };
        for message in [
            ChatMessage::new(Role::User, "hi"),
            ChatMessage::calling("so", vec![call(0)]),
            ChatMessage::calling("so", vec![call(1), call(u64::MAX)]),
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
