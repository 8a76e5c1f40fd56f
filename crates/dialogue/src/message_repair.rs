//! Makes messages valid for every model's API. An API refuses a whole request for one invalid name,
//! id or result, and would refuse each later request that repeats it. Not for remembering messages,
//! nor for checking a call against its tool.

use std::collections::HashSet;

use hearken_ports::{ChatMessage, Role, ToolRequest};
use hearken_proto::json::weighed;
use serde_json::{Map, Value};

use crate::tools::names;

/// Maximum length of a call's id, in bytes. Longer ids are replaced.
const MAX_ID: usize = 64;
/// Maximum length of one message, in bytes. Tool results are cut to a much shorter length earlier.
const MAX_CONTENT: usize = 1 << 20;
/// Replacement for an empty result.
const NO_RESULT: &str = "done";

/// Makes these messages valid, in place. After this, calls have valid names, unique ids and JSON
/// objects as arguments, and each call is directly followed by its result. Removes what cannot be
/// repaired: calls without a result, results without a call, and answers without words.
pub fn repair(messages: &mut Vec<ChatMessage>) {
    let mut used = HashSet::new();
    let mut kept = Vec::with_capacity(messages.len());
    let mut rest = std::mem::take(messages).into_iter().peekable();
    while let Some(mut message) = rest.next() {
        message.content = text(message.content);
        match message.role {
            Role::Tool => {}
            Role::Assistant if !message.calls.is_empty() => {
                let mut results = Vec::new();
                while let Some(result) = rest.next_if(|m| m.role == Role::Tool) {
                    results.push(result);
                }
                kept.extend(round(message, results, &mut used));
            }
            Role::Assistant if message.content.trim().is_empty() => {}
            _ => kept.push(ChatMessage {
                read_from: message.read_from,
                ..ChatMessage::new(message.role, message.content)
            }),
        }
    }
    *messages = kept;
}

/// Returns a message with its calls, followed by their results.
fn round(
    message: ChatMessage,
    results: Vec<ChatMessage>,
    used: &mut HashSet<String>,
) -> Vec<ChatMessage> {
    let mut results: Vec<Option<ChatMessage>> = results.into_iter().map(Some).collect();
    let mut calls = Vec::new();
    let mut told = Vec::new();
    for call in message.calls {
        let its = |m: &&mut Option<ChatMessage>| m.as_ref().is_some_and(|m| m.answers == call.id);
        let Some(result) = results.iter_mut().find(its).and_then(Option::take) else { continue };
        let id = id(&call.id, used);
        told.push(ChatMessage::result(&id, self::result(result.content)));
        let name = names::nearest(&call.name);
        let arguments = arguments(call.arguments);
        let connection = call.connection;
        calls.push(ToolRequest { id, name, arguments, connection, vendor: call.vendor });
    }
    if calls.is_empty() && message.content.trim().is_empty() {
        return Vec::new();
    }
    let mut round = vec![ChatMessage::calling(message.content, calls)];
    round.append(&mut told);
    round
}

/// Gives each of these calls an id that is unique among them and in the messages before them. Some
/// model APIs omit call ids, or use one id twice.
pub(super) fn number(calls: &mut [ToolRequest], before: &[ChatMessage]) {
    let mut used = before.iter().flat_map(|m| &m.calls).map(|c| c.id.clone()).collect();
    for call in calls {
        call.id = id(&call.id, &mut used);
    }
}

/// Returns the id, or a new one if it is invalid or in use.
fn id(id: &str, used: &mut HashSet<String>) -> String {
    let legal = (1..=MAX_ID).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    let own = Some(id.to_owned()).filter(|_| legal);
    let others = (used.len() + 1..).map(|number| format!("call_{number}"));
    let mut free = own.into_iter().chain(others).filter(|id| !used.contains(id));
    let id = free.next().unwrap_or_default();
    used.insert(id.clone());
    id
}

/// Returns the arguments unchanged if they are a JSON object, else `{}`.
pub(super) fn arguments(arguments: String) -> String {
    let is_object = weighed::<Map<String, Value>>(&arguments).is_ok();
    if is_object { arguments } else { "{}".to_owned() }
}

/// Returns the cleaned result, or [`NO_RESULT`] if it is empty.
pub(super) fn result(result: String) -> String {
    let result = text(result);
    if result.trim().is_empty() { NO_RESULT.to_owned() } else { result }
}

/// Removes control characters, which databases and some model APIs refuse, and limits the length.
/// Line ends and tabs stay.
pub(super) fn text(mut text: String) -> String {
    let is_odd = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if text.contains(is_odd) {
        text.retain(|c| !is_odd(c));
    }
    text.truncate(text.floor_char_boundary(MAX_CONTENT));
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn call(id: &str, name: &str, arguments: &str) -> ToolRequest {
        ToolRequest {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            ..ToolRequest::default()
        }
    }

    fn mended(mut messages: Vec<ChatMessage>) -> Vec<ChatMessage> {
        repair(&mut messages);
        messages
    }

    #[test]
    fn valid_messages_are_unchanged() {
        let legal = vec![
            ChatMessage::new(Role::System, "be kind"),
            ChatMessage::new(Role::User, "hi\n\tthere"),
            ChatMessage::calling(
                "",
                vec![call("a:0", "f", r#"{"n": 1.10}"#), call("b", "f", "{}")],
            ),
            ChatMessage::result("a:0", "1"),
            ChatMessage::result("b", "2"),
            ChatMessage::new(Role::Assistant, "Done."),
            ChatMessage::new(Role::User, "again"),
        ];
        assert_eq!(mended(legal.clone()), legal);
    }

    #[test]
    fn messages_stored_by_older_versions_are_repaired() {
        let calls = vec![call("", "", "[1]"), call("", "self.volume", ""), call("x", "f", "{}")];
        let kept = vec![
            ChatMessage::result("?", "of nobody"),
            ChatMessage::new(Role::User, "hi\0"),
            ChatMessage::calling("", calls),
            ChatMessage::result("", ""),
            ChatMessage::result("", "o\u{1b}k"),
            ChatMessage::new(Role::Assistant, " "),
            ChatMessage::calling("well", vec![call("y", "f", "{}")]),
            ChatMessage::calling("", vec![call("call_1", "g", "{}")]),
            ChatMessage::result("call_1", "3"),
        ];
        let told = vec![
            ChatMessage::new(Role::User, "hi"),
            ChatMessage::calling(
                "",
                vec![call("call_1", "tool_811c9dc5", "{}"), call("call_2", "self_volume", "{}")],
            ),
            ChatMessage::result("call_1", "done"),
            ChatMessage::result("call_2", "ok"),
            ChatMessage::new(Role::Assistant, "well"),
            ChatMessage::calling("", vec![call("call_3", "g", "{}")]),
            ChatMessage::result("call_3", "3"),
        ];
        assert_eq!(mended(kept), told);
    }

    fn any_message() -> impl Strategy<Value = ChatMessage> {
        let id = prop_oneof![Just(String::new()), "[ab]", "\\PC{0,70}", "call_[0-3]"];
        let name = prop_oneof![Just(String::new()), "[a-z]{1,3}", "\\PC{0,70}"];
        let arguments = prop_oneof![Just("{}".to_owned()), Just("[]".into()), "\\PC{0,9}"];
        let calls = (id.clone(), name, arguments).prop_map(|(id, name, arguments)| ToolRequest {
            id,
            name,
            arguments,
            ..ToolRequest::default()
        });
        let calls = prop::collection::vec(calls, 0..3);
        let role = prop::sample::select(vec![Role::User, Role::Assistant, Role::Tool]);
        (role, ".{0,5}", calls, id).prop_map(|(role, content, calls, answers)| ChatMessage {
            calls,
            answers,
            ..ChatMessage::new(role, content)
        })
    }

    proptest! {
        #[test]
        fn repair_is_total_and_idempotent(messages in prop::collection::vec(any_message(), 0..12)) {
            let told = mended(messages);
            let mut ids = HashSet::new();
            let mut rest = told.iter();
            while let Some(message) = rest.next() {
                prop_assert_ne!(message.role, Role::Tool);
                prop_assert!(!message.content.contains('\0'));
                for call in &message.calls {
                    prop_assert!(ids.insert(&call.id) && (1..=MAX_ID).contains(&call.id.len()));
                    prop_assert!((1..=names::MAX_NAME).contains(&call.name.len()));
                    prop_assert!(call.name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)));
                    prop_assert!(serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok());
                }
                for call in &message.calls {
                    let result = rest.next().expect("a call without its result");
                    prop_assert_eq!((result.role, &result.answers), (Role::Tool, &call.id));
                    prop_assert!(!result.content.trim().is_empty());
                }
            }
            prop_assert_eq!(mended(told.clone()), told);
        }
    }
}
