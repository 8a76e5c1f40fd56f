//! The messages that a dialogue remembers: the person's words, the calls of tools with their
//! results, and of our words what was heard. Whole turns are forgotten, oldest first. Not for what
//! the model is told besides, nor for storing it.

use std::ops::Range;
use std::time::Duration;

use super::legal;
use super::phrases::is_han;
use super::turn::{Said, ToolRound, TurnEnd, TurnRecord};
use crate::audio::playout::PlayedBack;
use crate::ports::{ChatMessage, Role};

/// Characters a second spoken, for a sentence whose length is not known yet: Han, and others.
const HAN_PER_SECOND: f64 = 4.5;
const LATIN_PER_SECOND: f64 = 15.0;
/// Words that nobody answered are kept up to this length, beside the newest.
const UNANSWERED_BYTES: usize = 16 << 10;

/// What is remembered, in order.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    messages: Vec<ChatMessage>,
    max_messages: usize,
    /// The model refused the last turn.
    refused: bool,
}

impl Memory {
    /// A memory of at most this many messages, which holds these. Of them is left out what is too
    /// old, what no prompt may hold, and words that were not answered.
    pub fn new(max_messages: usize, messages: Vec<ChatMessage>) -> Self {
        let mut memory = Self { messages, max_messages, refused: false };
        legal::mend(&mut memory.messages);
        memory.messages.dedup_by(|next, before| {
            let unanswered = next.role == Role::User && before.role == Role::User;
            if unanswered {
                std::mem::swap(next, before);
            }
            unanswered
        });
        memory.take_unanswered();
        memory.forget();
        memory
    }

    /// What is remembered, oldest first.
    pub fn messages(&self) -> &[ChatMessage] {
        &self.messages
    }

    /// Adds words of the person; to the last message where that was theirs too.
    pub(super) fn push_words(&mut self, words: &str) {
        push_user(&mut self.messages, words);
    }

    /// The words at the end that nobody has answered.
    pub(super) fn unanswered(&self) -> Option<&str> {
        self.messages.last().filter(|m| m.role == Role::User).map(|m| m.content.as_str())
    }

    /// Takes back the words at the end that nobody has answered.
    pub(super) fn take_unanswered(&mut self) -> Option<String> {
        let last = self.messages.pop_if(|m| m.role == Role::User)?;
        Some(last.content)
    }

    /// Remembers a finished turn, as far as it was heard, and gives whether it was answered at all:
    ///
    /// - Of a turn of which nothing was heard and in which no tool was called nothing is
    ///   remembered, nor of words before it that were still to be answered.
    /// - Of a turn that failed only what was heard is remembered: a model may have failed because
    ///   of a tool's result.
    /// - Of a turn that the model refused nothing is remembered; where it refuses two turns in a
    ///   row, what is wrong stands in what is remembered, and all of it is forgotten.
    pub fn commit(&mut self, record: &TurnRecord, heard: PlayedBack) -> bool {
        if record.is_refused() {
            self.take_unanswered();
            if std::mem::replace(&mut self.refused, true) {
                self.messages.clear();
            }
            return false;
        }
        let mut answer = Vec::new();
        let mut from = 0;
        let failed = matches!(record.end, TurnEnd::Failed(_));
        for round in record.rounds.iter().filter(|_| !failed) {
            let text = heard_text(&record.said, from..round.after, &heard);
            from = round.after;
            answer.extend(called(text, round));
        }
        let reply = heard_text(&record.said, from..record.said.len(), &heard);
        if !reply.is_empty() {
            answer.push(ChatMessage::new(Role::Assistant, reply));
        }
        let Some(words) = record.user.as_ref().filter(|_| !answer.is_empty()) else {
            self.take_unanswered();
            return false;
        };
        self.refused = false;
        self.push_words(words);
        self.messages.append(&mut answer);
        legal::mend(&mut self.messages);
        self.forget();
        true
    }

    /// Forgets whole turns, the oldest first; of a turn that is too long in itself its first
    /// rounds of calls, each with its results: a model's API refuses the one without the other.
    fn forget(&mut self) {
        let max = self.max_messages;
        let is = |role: Role| move |m: &ChatMessage| m.role == role;
        while self.messages.len() > max
            && let Some(turn) = self.messages.iter().skip(1).position(is(Role::User))
        {
            self.messages.drain(..=turn);
        }
        while self.messages.len() > max
            && let Some(calls) = self.messages.iter().position(|m| !m.calls.is_empty())
        {
            let results = self.messages[calls].calls.len();
            self.messages.drain(calls..=calls + results);
        }
        let first = self.messages.iter().position(is(Role::User)).unwrap_or(self.messages.len());
        self.messages.drain(..first);
    }
}

/// Adds a person's words; to the last message where that is theirs too, whose beginning is
/// forgotten where it gets too long: no model answers for hours, and the person goes on asking.
pub(super) fn push_user(messages: &mut Vec<ChatMessage>, words: &str) {
    match messages.last_mut() {
        Some(last) if last.role == Role::User => {
            let room = UNANSWERED_BYTES.saturating_sub(words.len());
            let too_long = last.content.len().saturating_sub(room);
            last.content.drain(..last.content.ceil_char_boundary(too_long));
            join(&mut last.content, words);
        }
        _ => messages.push(ChatMessage::new(Role::User, words)),
    }
}

/// A round of calls and its results, with what was heard before it.
fn called(text: String, round: &ToolRound) -> Vec<ChatMessage> {
    let mut messages = vec![ChatMessage::calling(text, round.calls.clone())];
    let results = round.calls.iter().zip(&round.results);
    messages.extend(results.map(|(call, result)| ChatMessage::result(&call.id, result)));
    messages
}

/// Of these sentences the remembered ones that were heard, the last one cut at the heard fraction.
fn heard_text(said: &[Said], range: Range<usize>, heard: &PlayedBack) -> String {
    let mut text = String::new();
    for (i, sentence) in said.iter().enumerate().take(range.end).skip(range.start) {
        let broken = heard.broken.iter().find(|(at, _)| *at == i);
        let part = match broken {
            Some((_, played)) => cut(&sentence.text, *played, None),
            None if i < heard.whole => sentence.text.as_str(),
            None if i == heard.whole => cut(&sentence.text, heard.partial, heard.partial_of),
            None => break,
        };
        if sentence.remembered {
            join(&mut text, part);
        }
    }
    text
}

/// The beginning of a sentence of which so much was heard: by its length where that is known, else
/// by the usual pace of speech. Never ends inside a word.
pub(super) fn cut(text: &str, heard: Duration, length: Option<Duration>) -> &str {
    let total = length.map_or_else(|| estimated_seconds(text), |d| d.as_secs_f64());
    let fraction = (heard.as_secs_f64() / total.max(0.001)).min(1.0);
    let count = text.chars().count();
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a sentence has a few hundred characters, and the fraction is 0 to 1"
    )]
    let keep = (count as f64 * fraction) as usize;
    let end = text.char_indices().nth(keep).map_or(text.len(), |(i, _)| i);
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && !is_han(c));
    if inside(text[..end].chars().next_back()) && inside(text[end..].chars().next()) {
        let word = text[..end].rfind(|c: char| !inside(Some(c)));
        return word.map_or("", |i| text[..i].trim_end());
    }
    text[..end].trim_end()
}

/// How long a text takes to speak, roughly.
fn estimated_seconds(text: &str) -> f64 {
    text.chars().map(|c| 1.0 / if is_han(c) { HAN_PER_SECOND } else { LATIN_PER_SECOND }).sum()
}

/// Appends a sentence, with a space between where the script uses spaces.
fn join(text: &mut String, next: &str) {
    let tight =
        |c: Option<char>| c.is_none_or(|c| is_han(c) || "。，！？；：、…”」』）".contains(c));
    if !next.is_empty() && !tight(text.chars().next_back()) {
        text.push(' ');
    }
    text.push_str(next);
}
