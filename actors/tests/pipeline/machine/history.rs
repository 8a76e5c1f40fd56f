//! Allowed content of a connection's prompts: valid messages, and of earlier turns what was
//! answered and heard. Not for the device protocol.

use std::collections::HashSet;
use std::time::Duration;

use hearken_ports::{ChatMessage, Role};

use super::judge::{AT_ONCE, Connection, Faults, Speech, fault};
use super::outside::{ModelAct, sentence};
use super::trace::{Asked, numbers};

pub(super) fn check(connection: &Connection, faults: &mut Faults) {
    for (at, asked) in connection.asked() {
        legal(asked, faults);
        living(connection, at, asked, faults);
        remembered(connection, at, asked, faults);
    }
}

fn is_legal_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=64).contains(&name.len()) && name.chars().all(legal)
}

fn is_object(arguments: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(arguments).is_ok_and(|v| v.is_object())
}

/// Checks that a model API accepts these messages.
fn legal(asked: &Asked, faults: &mut Faults) {
    let k = asked.k;
    let mut messages = asked.messages.iter().peekable();
    if messages.next().is_none_or(|m| m.role != Role::System) {
        fault(faults, "prompt", format!("prompt {k} does not begin with the instructions"));
    }
    if messages.peek().is_none_or(|m| m.role != Role::User) {
        fault(faults, "prompt", format!("prompt {k} does not begin with the person's words"));
    }
    let mut ids = HashSet::new();
    let mut before = Role::System;
    while let Some(message) = messages.next() {
        if message.role == Role::Tool || (message.role == Role::User && before == Role::User) {
            fault(faults, "prompt", format!("prompt {k}: {:?} after {before:?}", message.role));
        }
        let empty = message.content.trim().is_empty() && message.calls.is_empty();
        if empty || (message.role == Role::User && !has_words(message)) {
            fault(faults, "noise asked", format!("prompt {k} holds {:?}", message.content));
        }
        before = message.role;
        for call in &message.calls {
            if !is_legal_name(&call.name) || !is_object(&call.arguments) {
                fault(faults, "prompt call", format!("prompt {k} holds the call {call:?}"));
            }
            if call.id.is_empty() || !ids.insert(&call.id) {
                fault(faults, "prompt id", format!("prompt {k} holds the id {:?} twice", call.id));
            }
        }
        for call in &message.calls {
            if messages.next().is_none_or(|m| m.role != Role::Tool || m.answers != call.id) {
                fault(faults, "prompt", format!("prompt {k}: no result follows {call:?}"));
            }
        }
    }
    let called = asked.messages.iter().any(|m| !m.calls.is_empty());
    if called && asked.tools.is_empty() {
        fault(faults, "prompt tools", format!("prompt {k} holds calls and offers no tools"));
    }
}

fn has_words(message: &ChatMessage) -> bool {
    message.content.chars().any(char::is_alphanumeric)
}

/// Checks that the question was neither cut nor already answered.
fn living(connection: &Connection, at: Duration, asked: &Asked, faults: &mut Faults) {
    for question in &asked.questions {
        let k = asked.k;
        let Some(said) = connection.said(*question, at) else {
            fault(faults, "asked", format!("prompt {k} asks {question}, which was not said"));
            continue;
        };
        let ended = |end: Duration| end > said && end + AT_ONCE < at;
        if connection.cuts().any(ended) {
            fault(faults, "asked cut", format!("prompt {k} asks {question}, which was cut"));
        }
        let answered = connection.speeches.iter().filter_map(Speech::heard).any(ended);
        if asked.round == 0 && answered {
            let what = format!("prompt {k} asks {question}, which was answered or refused");
            fault(faults, "asked again", what);
        }
    }
}

/// Checks that earlier turns are in the prompt with what was heard of them.
fn remembered(connection: &Connection, at: Duration, asked: &Asked, faults: &mut Faults) {
    let k = asked.k;
    let shown = |text: &str| connection.shown().any(|(when, t)| *when <= at && t == text.trim());
    let before = || connection.asked().map(|(_, earlier)| earlier).filter(|e| e.k < k);
    let last = asked.messages.iter().rposition(|m| m.role == Role::User).unwrap_or_default();
    let earlier_words = asked.messages[..last].iter().zip(&asked.messages[1..]);
    for (message, next) in earlier_words.filter(|(m, _)| m.role == Role::User) {
        let questions = numbers(&message.content, "question ");
        let heard = before().filter(|earlier| earlier.questions == questions);
        let heard = heard.flat_map(|earlier| (0..3).map(|n| sentence(earlier.k, n))).any(shown);
        // Calls stay with their question, also when the person adds another one before the answer.
        let mut called = before().filter(|earlier| earlier.does == ModelAct::Calls);
        let called = called.any(|earlier| earlier.questions.iter().all(|n| questions.contains(n)));
        // A turn that the model refused after its calls leaves their names.
        let is_noted = next.content.starts_with("I have called ");
        if !heard && (!called || next.calls.is_empty() && !is_noted) {
            let what = format!("prompt {k} holds {:?}, which was not answered", message.content);
            fault(faults, "remembered", what);
        }
    }
    for message in asked.messages.iter().filter(|m| m.role == Role::Assistant) {
        for earlier in numbers(&message.content, "Answer ") {
            for n in 0..3 {
                let whole = sentence(earlier, n).trim();
                if message.content.contains(whole) && !shown(whole) {
                    fault(faults, "unheard", format!("prompt {k} holds {whole:?}"));
                }
            }
        }
    }
}
