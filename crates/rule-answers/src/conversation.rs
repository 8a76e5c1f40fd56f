//! The turns of a prompt: words, calls with their results, and the answer. Not for what they mean.

use hearken_instant::{Bindings, Call, Outcome, Referent, has_done};
use hearken_ports::{ChatMessage, NOT_CALLED, Role, ToolRequest};
use serde_json::Value;

/// Start of the result of a call that failed.
const FAILED: &str = "error:";
/// Longest name of a person before their words, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// One turn of a conversation.
#[derive(Debug, Default)]
pub(crate) struct Said<'a> {
    /// Words of the person, without their name.
    pub(crate) words: &'a str,
    /// Rounds of calls.
    pub(crate) rounds: Vec<Round<'a>>,
    /// Last text of the assistant; empty if there is none.
    pub(crate) answer: &'a str,
}

/// Calls that were made together.
#[derive(Debug)]
pub(crate) struct Round<'a> {
    calls: &'a [ToolRequest],
    /// Results in the order of the calls; `None` for a missing one.
    results: Vec<Option<&'a str>>,
}

impl Said<'_> {
    /// Reports whether the turn begins with a call that the server asked about before, and refused: the words are no consent
    /// to it, and may ask for something else.
    pub(crate) fn begins_refused(&self) -> bool {
        self.rounds.first().is_some_and(Round::is_refused)
    }

    /// Reports whether a call of the turn has succeeded.
    pub(crate) fn has_succeeded(&self) -> bool {
        self.rounds.iter().any(|round| round.outcomes().iter().any(has_done))
    }
}

impl Round<'_> {
    /// Reports whether the server refused the calls: none was made.
    pub(crate) fn is_refused(&self) -> bool {
        let is_refused =
            |result: &Option<&str>| result.is_some_and(|text| text.starts_with(NOT_CALLED));
        !self.results.is_empty() && self.results.iter().all(is_refused)
    }

    /// Reports whether these calls are the planned ones.
    pub(crate) fn made(&self, planned: &[Call]) -> bool {
        let same = |(made, planned): (&ToolRequest, &Call)| {
            made.name == planned.tool
                && serde_json::from_str::<Value>(&made.arguments)
                    .is_ok_and(|arguments| arguments.as_object() == Some(&planned.arguments))
        };
        self.calls.len() == planned.len() && self.calls.iter().zip(planned).all(same)
    }

    /// Returns what the last successful call has changed, if a rule could have made it.
    pub(crate) fn referent(&self, bindings: &Bindings) -> Option<Referent> {
        let outcomes = self.outcomes();
        let mut made =
            self.calls.iter().zip(&outcomes).rev().filter(|(_, outcome)| has_done(outcome));
        made.find_map(|(call, _)| {
            let arguments = serde_json::from_str::<Value>(&call.arguments).ok()?;
            bindings.referent_of(&call.name, arguments.as_object()?)
        })
    }

    /// Returns the results of the calls.
    pub(crate) fn outcomes(&self) -> Vec<Outcome> {
        let outcome = |result: &Option<&str>| match result {
            Some(text) if !text.starts_with(FAILED) => Ok((*text).to_owned()),
            Some(text) => Err((*text).to_owned()),
            None => Err(String::new()),
        };
        self.results.iter().map(outcome).collect()
    }
}

/// Returns the turns of a conversation, oldest first.
pub(crate) fn turns(messages: &[ChatMessage]) -> Vec<Said<'_>> {
    let mut turns: Vec<Said<'_>> = Vec::new();
    for message in messages {
        if message.role == Role::User {
            turns.push(Said { words: without_name(&message.content), ..Said::default() });
            continue;
        }
        let Some(turn) = turns.last_mut() else { continue };
        match message.role {
            Role::Assistant => {
                if !message.content.trim().is_empty() {
                    turn.answer = message.content.trim();
                }
                if !message.calls.is_empty() {
                    let results = vec![None; message.calls.len()];
                    turn.rounds.push(Round { calls: &message.calls, results });
                }
            }
            Role::Tool => {
                let Some(round) = turn.rounds.last_mut() else { continue };
                let at = round.calls.iter().position(|call| call.id == message.answers);
                if let Some(result) = at.and_then(|at| round.results.get_mut(at)) {
                    *result = Some(&message.content);
                }
            }
            Role::System | Role::User => {}
        }
    }
    turns
}

/// Returns the words of a message without the name of a recognised person: `[Anna] louder`.
pub(crate) fn without_name(content: &str) -> &str {
    let named = content.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    named.filter(|(name, _)| name.len() <= MAX_NAME_BYTES).map_or(content, |(_, words)| words)
}
