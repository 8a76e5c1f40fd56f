//! Invariants of text clients' sessions. Not for those of applications.

use std::collections::BTreeMap;

use hearken_ports::{ChatMessage, Role};
use serde_json::Value;

use super::{Judge, Known, Message};

/// A message of a user, and everything in reply to it.
struct Turn {
    asked: Message,
    answer: String,
}

impl Judge {
    /// Records an answer that was marked as not stored: it may be stored or not.
    pub(crate) fn unstored(&self, message: Message, answer: &str) {
        self.note(&format!("{message} is answered, and not stored: {answer}"));
        self.notes().counts.unstored += 1;
        if !answer.contains(&message.answer()) {
            self.wrong(format!("{message} has the answer of another: {answer}"));
        }
    }

    /// Checks the stored messages of a text client's conversation at the end.
    pub(crate) fn stored_text(&self, conversation: u16, state: &str) {
        let mut wrong = Vec::new();
        {
            let mut notes = self.notes();
            notes.counts.conversations += 1;
            let stored: Result<Value, _> = serde_json::from_str(state);
            match stored.and_then(|stored| serde_json::from_value(stored["messages"].clone())) {
                Ok(stored) => {
                    judge_turns(conversation, &turns(stored), &notes.messages, &mut wrong);
                }
                Err(error) => wrong.push(format!("{conversation} is stored as {state}: {error}")),
            }
        }
        wrong.into_iter().for_each(|what| self.wrong(what));
    }
}

fn turns(stored: Vec<ChatMessage>) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for message in stored {
        match (message.role, Message::in_text(&message.content)) {
            (Role::User, Some(asked)) => turns.push(Turn { asked, answer: String::new() }),
            (Role::Assistant, _) => {
                if let Some(turn) = turns.last_mut() {
                    turn.answer.push_str(&message.content);
                }
            }
            _ => {}
        }
    }
    turns
}

fn judge_turns(
    conversation: u16,
    turns: &[Turn],
    messages: &BTreeMap<Message, Known>,
    wrong: &mut Vec<String>,
) {
    let said: Vec<Message> = turns.iter().map(|turn| turn.asked).collect();
    let of_this = messages.iter().filter(|(message, _)| message.conversation == conversation);
    for (message, known) in of_this {
        let mut places = said.iter().enumerate().filter(|(_, said)| *said == message);
        let place = places.next().map(|(place, _)| place);
        if places.next().is_some() {
            wrong.push(format!("{message} is stored twice: {said:?}"));
        }
        let Some(place) = place else {
            if known.answer.is_some() {
                wrong.push(format!("{message} was answered but is not stored: {said:?}"));
            }
            continue;
        };
        if known.answer.is_some() && !turns[place].answer.contains(&message.answer()) {
            let answer = &turns[place].answer;
            wrong.push(format!("{message} is stored with the answer {answer:?}"));
        }
        let late = |before: &&Message| said[place..].contains(*before);
        if let Some(before) = known.answered_before.iter().find(late) {
            wrong.push(format!("{message} is stored before {before}, which was answered earlier"));
        }
        if message.is_last() && !known.prompts.contains(&said[..=place]) {
            wrong.push(format!(
                "{message} is stored after {:?}, but was answered after {:?}",
                &said[..place],
                known.prompts,
            ));
        }
    }
}
