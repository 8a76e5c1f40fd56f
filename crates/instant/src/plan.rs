//! What an utterance leads to: calls in at most two phases, and the answer, which depends on their results. Not for the choice of
//! the calls, which is in `rules`.

use hearken_base::language::Language;

use crate::act::Act;
use crate::asked;
use crate::forecast;
use crate::outcome::{Outcome, has_answered, has_done};
use crate::phrases::say;
use crate::referent::{Call, Referent};
use crate::state;

/// Answer in plain text for speech.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The text, in the language of the utterance.
    pub text: String,
    /// What the next utterance may refer to; `None` if nothing.
    pub referent: Option<Referent>,
    /// True if all calls succeeded.
    pub is_done: bool,
}

/// What follows the calls of a phase.
#[derive(Debug, Clone)]
pub enum Next {
    /// The second phase: more calls.
    Calls(Plan),
    /// The answer.
    Answer(Answer),
    /// The results do not have what is needed: the model is to answer. Nothing has been changed.
    GiveUp,
}

/// Calls of a phase, and what follows them.
#[derive(Debug, Clone)]
pub struct Plan {
    rule: String,
    language: Language,
    acts: Vec<Act>,
}

impl Plan {
    pub(crate) fn new(rule: String, language: Language, acts: Vec<Act>) -> Self {
        Self { rule, language, acts }
    }

    /// Returns the name of the rule; the names of several are joined with `+`.
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Returns the language of the utterance and of the answer.
    pub fn language(&self) -> Language {
        self.language
    }

    fn reads(&self) -> Vec<Call> {
        let mut reads: Vec<Call> = Vec::new();
        for act in &self.acts {
            if let Act::Change { read, .. } | Act::Entity { read, .. } | Act::Query { read, .. } =
                act
                && !reads.contains(read)
            {
                reads.push(read.clone());
            }
        }
        reads
    }

    /// Returns the calls of this phase, to be made in this order; empty if the answer needs none. If one reads a state, all do.
    pub fn calls(&self) -> Vec<Call> {
        let reads = self.reads();
        if !reads.is_empty() {
            return reads;
        }
        let call = |act: &Act| {
            if let Act::Do { call, .. } | Act::Ask { call, .. } = act {
                Some(call.clone())
            } else {
                None
            }
        };
        self.acts.iter().filter_map(call).collect()
    }

    /// Takes the results of [`Self::calls`], in their order; a missing one counts as failed.
    pub fn next(self, outcomes: &[Outcome]) -> Next {
        let reads = self.reads();
        if reads.is_empty() {
            return self.answer(outcomes).map_or(Next::GiveUp, Next::Answer);
        }
        let mut acts = Vec::new();
        for act in self.acts {
            let read = match &act {
                Act::Change { read, .. } | Act::Entity { read, .. } | Act::Query { read, .. } => {
                    reads.iter().position(|one| one == read)
                }
                _ => None,
            };
            let Some(at) = read else {
                acts.push(act);
                continue;
            };
            let next = match (act, outcomes.get(at)) {
                (Act::Query { .. }, outcome) if !outcome.is_some_and(has_answered) => {
                    Some(Act::Fail { text: asked::failed(self.language) })
                }
                (Act::Query { question, .. }, Some(Ok(text))) => {
                    asked::answer(&question, text, self.language)
                }
                (act, Some(Ok(text))) => state::resolve(act, text, self.language),
                _ => None,
            };
            let Some(next) = next else { return Next::GiveUp };
            acts.push(next);
        }
        let plan = Self { acts, ..self };
        if plan.calls().is_empty() {
            plan.answer(&[]).map_or(Next::GiveUp, Next::Answer)
        } else {
            Next::Calls(plan)
        }
    }

    /// Returns the answer; `None` if it is for the model to word.
    fn answer(&self, outcomes: &[Outcome]) -> Option<Answer> {
        let mut outcomes = outcomes.iter();
        let mut done = Vec::new();
        let mut failed = Vec::new();
        let mut referent: Option<Referent> = None;
        for act in &self.acts {
            let next = match act {
                Act::Say { text, referent } => {
                    done.push(text.clone());
                    referent.clone()
                }
                Act::Do { subject, referent, .. } => {
                    if outcomes.next().is_some_and(has_done) {
                        done.push(subject.done(self.language));
                        referent.clone()
                    } else {
                        failed.push(subject.failed(self.language));
                        None
                    }
                }
                Act::Fail { text } => {
                    failed.push(text.clone());
                    None
                }
                Act::Ask { asked, .. } => {
                    let result = outcomes.next().filter(|outcome| has_answered(outcome));
                    let text = result.and_then(|outcome| outcome.as_deref().ok());
                    match text.map(|text| forecast::reply(asked, text, self.language)) {
                        Some(Some(text)) => done.push(text),
                        // What else was done has to be reported.
                        Some(None) if self.acts.len() == 1 => return None,
                        Some(None) | None => failed.push(forecast::failed(self.language)),
                    }
                    None
                }
                Act::Change { .. } | Act::Entity { .. } | Act::Query { .. } => None,
            };
            referent = match (referent, next) {
                (Some(before), Some(next)) => Some(joined(before, next)),
                (before, next) => next.or(before),
            };
        }
        let is_done = failed.is_empty();
        done.extend(failed);
        let text = done.join(say(self.language, "", " "));
        Some(Answer { text, referent, is_done })
    }
}

/// Joins the referents of two parts of an utterance: of the same kind, both places are meant.
fn joined(before: Referent, mut next: Referent) -> Referent {
    if before.about == next.about && !before.rooms.is_empty() && !next.rooms.is_empty() {
        let mut rooms = before.rooms;
        rooms.retain(|room| !next.rooms.contains(room));
        rooms.append(&mut next.rooms);
        next.rooms = rooms;
    }
    next
}
