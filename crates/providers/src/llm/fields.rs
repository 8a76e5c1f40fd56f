//! Request fields that some servers or models refuse. They are learnt from refusals, and omitted or
//! renamed in later requests. Not for the list of fields in a request.
//!
//! - A field that a refusal names is changed, one field at a time, and the request is resent
//!   immediately.
//! - If the refusal names no field, each field that was never accepted is changed by itself, then
//!   all of them. There are at most three fruitless searches per model.
//! - Only changes that led to an answer are remembered.
//! - Statements of a refusal about tools are in `refused_tools`, those about fields of earlier
//!   messages in `returned_fields`.

mod refused_tools;
mod returned_fields;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hearken_outbound::http::{Refusal, RefusalBody};
use hearken_ports::{ProviderError, ProviderErrorKind};
use http::StatusCode;
use serde_json::Value;

use self::refused_tools::{Complaint, RefusedTools, Trial};
use self::returned_fields::{RequiredField, Requirements};
use super::markup::Opening;

pub(super) use self::returned_fields::{REASONING, REASONING_DETAILS};

/// Request field that may be refused.
pub(crate) struct RefusableField {
    name: &'static str,
    /// Alternative name of the field; none to omit it.
    instead: Option<&'static str>,
}

/// Fields of OpenAI's chat API. Its newer models refuse `max_tokens`, and accept only their own
/// temperature. Older servers do not know the other fields.
pub(crate) const OPENAI: &[RefusableField] = &[
    // Learnt, not configured, so that old servers work without a setting per vendor. Decision 0036.
    RefusableField { name: "stream_options", instead: None },
    RefusableField { name: "max_tokens", instead: Some("max_completion_tokens") },
    RefusableField { name: "temperature", instead: None },
    RefusableField { name: "tool_choice", instead: None },
];

/// Fields of Anthropic's Messages API.
pub(crate) const ANTHROPIC: &[RefusableField] = &[
    RefusableField { name: "temperature", instead: None },
    RefusableField { name: "tool_choice", instead: None },
];

/// Maximum number of fruitless searches for the cause of a refusal.
const MOST_SEARCHES: u8 = 3;

/// Number of consecutive answers that started with thinking without an opening mark, from which on
/// a model's next answers are expected to. All of them are held back until their end: a single one
/// may only quote a closing mark, because a user asked for it.
const UNMARKED_ANSWERS: u8 = 2;

/// Maximum number of models that are remembered.
const MOST_MODELS: usize = 64;

/// Set of fields: one bit for each index of the list.
type Fields = u8;

fn bit(place: usize) -> Fields {
    1 << place
}

/// Known properties of one model at one base URL.
pub(crate) struct ModelFindings {
    /// Base URL and name of the model.
    identity: Arc<str>,
    fields: &'static [RefusableField],
    taken: AtomicU8,
    refused: AtomicU8,
    searches: AtomicU8,
    /// Number of its last answers that started with thinking without an opening mark, up to
    /// [`UNMARKED_ANSWERS`].
    unmarked: AtomicU8,
    tools: RefusedTools,
    requirements: Requirements,
}

impl ModelFindings {
    /// Creates an entry for a model, given only its base URL and its name.
    pub(crate) fn new(fields: &'static [RefusableField], base: &str, model: &str) -> Self {
        let unmarked = AtomicU8::new(if sounds_thoughtful(model) { UNMARKED_ANSWERS } else { 0 });
        let zero = || AtomicU8::new(0);
        let tools = RefusedTools::default();
        Self {
            identity: format!("{base} {model}").into(),
            fields,
            taken: zero(),
            refused: zero(),
            searches: zero(),
            unmarked,
            tools,
            requirements: Requirements::at(base),
        }
    }

    /// Returns the identity of the model: fields that it sent are returned only to it.
    pub(super) fn identity(&self) -> &Arc<str> {
        &self.identity
    }

    /// Returns the expected opening of this model's answers.
    pub(super) fn opening(&self) -> Opening {
        match self.unmarked.load(Ordering::Relaxed) {
            UNMARKED_ANSWERS.. => Opening::Missing,
            _ => Opening::Marked,
        }
    }

    /// Records the opening of an answer. `None`: nothing in the answer shows it.
    pub(super) fn began(&self, opening: Option<Opening>) {
        let counted = |before: u8| match opening {
            Some(Opening::Missing) => Some(before.saturating_add(1).min(UNMARKED_ANSWERS)),
            // An answer that is held back may be all thinking.
            None if before >= UNMARKED_ANSWERS => None,
            Some(Opening::Marked) | None => Some(0),
        };
        self.unmarked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted).ok();
    }

    /// Returns the request without fields and tools that are known to be refused, and with those
    /// that are known to be required.
    pub(super) fn without_refused(&self, mut order: Value) -> Value {
        self.tools.leave_out(&mut order);
        self.requirements.apply(&mut order);
        self.changed(order, self.refused.load(Ordering::Relaxed))
    }

    /// Returns the fields that a request has.
    fn present(&self, order: &Value) -> Fields {
        let has = |field: &RefusableField| order.get(field.name).is_some();
        let places = self.fields.iter().enumerate().filter(|(_, field)| has(field));
        places.fold(0, |bits, (place, _)| bits | bit(place))
    }

    fn changed(&self, mut order: Value, fields: Fields) -> Value {
        let Some(all) = order.as_object_mut() else { return order };
        for (place, field) in self.fields.iter().enumerate() {
            if fields & bit(place) == 0 {
                continue;
            }
            if let (Some(value), Some(name)) = (all.remove(field.name), field.instead) {
                all.insert(name.to_owned(), value);
            }
        }
        order
    }

    /// Returns the field of `among` that a refusal names first; an empty set if it names none.
    fn named(&self, told: &RefusalBody, among: Fields) -> Fields {
        let text = told.param.as_ref().unwrap_or(&told.text);
        let names = self.fields.iter().enumerate().filter(|(place, _)| among & bit(*place) != 0);
        let named = names.filter_map(|(place, field)| Some((word(text, field.name)?, place)));
        named.min().map_or(0, |(_, place)| bit(place))
    }

    fn answered(&self, taken: Fields, refused: Fields) {
        self.taken.fetch_or(taken, Ordering::Relaxed);
        if self.refused.fetch_or(refused, Ordering::Relaxed) & refused != refused {
            let places = self.fields.iter().enumerate();
            let names: Vec<_> =
                places.filter(|(n, _)| refused & bit(*n) != 0).map(|(_, f)| f.name).collect();
            tracing::info!(fields = ?names, "the language model's API refuses these fields; leaving them out");
        }
    }

    /// Returns the sets of fields to change one after the other, after a refusal without a reason.
    fn guesses(&self, among: Fields) -> Vec<Fields> {
        let doubted = among & !self.taken.load(Ordering::Relaxed);
        let mut sets: Vec<Fields> =
            (0..self.fields.len()).map(|n| doubted & bit(n)).filter(|set| *set != 0).collect();
        if sets.len() > 1 {
            sets.push(doubted);
        }
        sets
    }
}

/// Sends a request, and repeats it without the fields and tools that turn out to be refused.
pub(crate) async fn ask<T, F>(
    known: &ModelFindings,
    mut order: Value,
    send: impl Fn(Value) -> F,
) -> Result<T, ProviderError>
where
    F: Future<Output = Result<T, Refusal>>,
{
    // Refusals show which fields a server supports, so that no vendor needs a setting. Decision
    // 0036.
    known.tools.leave_out(&mut order);
    let mut required = known.requirements.apply(&mut order);
    let mut left_out = known.refused.load(Ordering::Relaxed) & known.present(&order);
    let mut trial = Trial::default();
    let refusal = loop {
        let sent = known.present(&order) & !left_out;
        let refusal = match send(known.changed(order.clone(), left_out)).await {
            Ok(answer) => {
                known.answered(sent, left_out);
                trial.answered(&known.tools);
                required.answered(&known.requirements);
                return Ok(answer);
            }
            Err(refusal) => refusal,
        };
        let complaint = Complaint::of(&refusal, &order);
        let has_place = matches!(complaint, Some(Complaint::Place(_)));
        // A refusal about a place may repeat the whole request.
        if let Some(field) = RequiredField::of(&refusal).filter(|_| !has_place) {
            if required.add(field, &mut order) {
                continue;
            }
            // Another model does not require the field.
            let mut error = refusal.error;
            error.kind = ProviderErrorKind::NotServed;
            return Err(error);
        }
        let may_name = is_of_the_fields(&refusal) && !has_place;
        let named = if may_name { known.named(&refusal.told, sent) } else { 0 };
        left_out |= named;
        // A field name is more reliable evidence than words about tools.
        let goes_on = named != 0
            || complaint.is_some_and(|complaint| {
                trial.leave_out(&known.tools, &mut order, complaint, &refusal)
            });
        if !goes_on {
            break refusal;
        }
    };
    let says_why =
        refusal.told.param.is_some() || refusal.told.code.is_some() || trial.has_repeated();
    if !is_of_the_fields(&refusal)
        || says_why
        || known.searches.load(Ordering::Relaxed) >= MOST_SEARCHES
    {
        return Err(refusal.error);
    }
    let sent = known.present(&order) & !left_out;
    let guesses = known.guesses(sent);
    if guesses.is_empty() {
        return Err(refusal.error);
    }
    for guess in guesses {
        match send(known.changed(order.clone(), left_out | guess)).await {
            Ok(answer) => {
                known.answered(sent & !guess, left_out | guess);
                return Ok(answer);
            }
            Err(other) if is_of_the_fields(&other) => {}
            Err(other) => return Err(other.error),
        }
    }
    known.searches.fetch_add(1, Ordering::Relaxed);
    Err(refusal.error)
}

/// Returns true if a refusal may be caused by a field.
fn is_of_the_fields(refusal: &Refusal) -> bool {
    let wrong = [StatusCode::BAD_REQUEST, StatusCode::UNPROCESSABLE_ENTITY];
    refusal.status.is_some_and(|status| wrong.contains(&status))
}

/// Returns the position of a name that appears as a separate word.
fn word(text: &str, name: &str) -> Option<usize> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name)
        .map(|(at, _)| at)
        .find(|at| !text[..*at].ends_with(part) && !text[at + name.len()..].starts_with(part))
}

/// Returns true if the model's name suggests thinking without an opening mark. Many servers omit
/// that mark for such models.
fn sounds_thoughtful(model: &str) -> bool {
    let words = ["r1", "qwq", "thinking", "reasoner", "reasoning"];
    let lower = model.to_ascii_lowercase();
    lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| words.contains(&part))
}

/// Known properties of each model at each base URL. Clones share them.
#[derive(Clone, Default)]
pub struct Findings(Arc<Mutex<Models>>);

/// Known properties of each model, by base URL and name.
type Models = BTreeMap<(String, String), Arc<ModelFindings>>;

impl std::fmt::Debug for Findings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Findings")
    }
}

impl Findings {
    /// Returns the known properties of this model. The number of models is bounded: beyond the
    /// bound, all are forgotten and relearnt.
    pub(crate) fn for_model(
        &self,
        base: &str,
        model: &str,
        fields: &'static [RefusableField],
    ) -> Arc<ModelFindings> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (base.to_owned(), model.to_owned());
        if all.len() >= MOST_MODELS && !all.contains_key(&key) {
            all.clear();
        }
        Arc::clone(
            all.entry(key).or_insert_with(|| Arc::new(ModelFindings::new(fields, base, model))),
        )
    }
}

#[cfg(test)]
mod tests;
