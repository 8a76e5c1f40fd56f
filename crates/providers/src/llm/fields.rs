//! Fields of requests that some bases or models refuse: found out by being refused, and left out or
//! written under another name from then on. Not for what fields a request has.
//!
//! - What a refusal names is changed, one field after the other, and asked again at once.
//! - Where it names nothing, each field that was never taken is changed by itself, then all of them;
//!   a base that refuses all that as well is not searched like this more than three times.
//! - Only what was answered then is remembered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hearken_actors::ports::ProviderError;
use hearken_base::http::{Refusal, RefusalBody};
use http::StatusCode;
use serde_json::Value;

use super::markup::Opening;

/// A field that may be refused.
pub(crate) struct Doubtful {
    name: &'static str,
    /// The name that it is written under instead; without one it is left out.
    instead: Option<&'static str>,
}

/// Those of OpenAI's chat API. Its newer models take no `max_tokens`, and only their own
/// temperature; older bases do not know the others.
pub(crate) const OPENAI: &[Doubtful] = &[
    Doubtful { name: "stream_options", instead: None },
    Doubtful { name: "max_tokens", instead: Some("max_completion_tokens") },
    Doubtful { name: "temperature", instead: None },
    Doubtful { name: "tool_choice", instead: None },
];

/// Those of Anthropic's Messages API.
pub(crate) const ANTHROPIC: &[Doubtful] = &[
    Doubtful { name: "temperature", instead: None },
    Doubtful { name: "tool_choice", instead: None },
];

/// Searches for what a refusal may mean that came to nothing, before there are no more.
const MOST_SEARCHES: u8 = 3;

/// Models that are remembered.
const MOST_MODELS: usize = 64;

/// Fields, as bits by their place in the list.
type Fields = u8;

fn bit(place: usize) -> Fields {
    1 << place
}

/// What is known of one model at one base.
pub(crate) struct Known {
    fields: &'static [Doubtful],
    taken: AtomicU8,
    refused: AtomicU8,
    searches: AtomicU8,
    /// Its answers begin with thinking that nothing marks.
    unmarked: AtomicU8,
}

impl Known {
    /// A model of which only its name is known.
    pub(crate) fn new(fields: &'static [Doubtful], model: &str) -> Self {
        let unmarked = AtomicU8::new(sounds_thoughtful(model).into());
        let zero = || AtomicU8::new(0);
        Self { fields, taken: zero(), refused: zero(), searches: zero(), unmarked }
    }

    /// How an answer of this model is likely to begin.
    pub(super) fn opening(&self) -> Opening {
        match self.unmarked.load(Ordering::Relaxed) {
            0 => Opening::Marked,
            _ => Opening::Missing,
        }
    }

    /// How one began.
    pub(super) fn began(&self, opening: Opening) {
        self.unmarked.store((opening == Opening::Missing).into(), Ordering::Relaxed);
    }

    /// The order without what is known to be refused.
    pub(super) fn taken_as(&self, order: Value) -> Value {
        self.changed(order, self.refused.load(Ordering::Relaxed))
    }

    fn bits(&self, wanted: impl Fn(&Doubtful) -> bool) -> Fields {
        let places = self.fields.iter().enumerate().filter(|(_, field)| wanted(field));
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

    /// The first field among these that a refusal names.
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
            tracing::info!(fields = ?names, "the language model's base does not take these fields");
        }
    }

    /// The fields whose change may answer what a refusal without a reason means, in sets.
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

/// Sends an order, and again as the model is found to take it.
pub(crate) async fn ask<T, F>(
    known: &Known,
    order: Value,
    send: impl Fn(Value) -> F,
) -> Result<T, ProviderError>
where
    F: Future<Output = Result<T, Refusal>>,
{
    let present = known.bits(|field| order.get(field.name).is_some());
    let mut left_out = known.refused.load(Ordering::Relaxed) & present;
    let mut refusal = match send(known.changed(order.clone(), left_out)).await {
        Ok(answer) => {
            known.answered(present & !left_out, 0);
            return Ok(answer);
        }
        Err(refusal) => refusal,
    };
    while is_of_the_fields(&refusal) {
        let named = known.named(&refusal.told, present & !left_out);
        if named == 0 {
            break;
        }
        left_out |= named;
        match send(known.changed(order.clone(), left_out)).await {
            Ok(answer) => {
                known.answered(present & !left_out, left_out);
                return Ok(answer);
            }
            Err(again) => refusal = again,
        }
    }
    let says_why = refusal.told.param.is_some() || refusal.told.code.is_some();
    if !is_of_the_fields(&refusal)
        || says_why
        || known.searches.load(Ordering::Relaxed) >= MOST_SEARCHES
    {
        return Err(refusal.error);
    }
    let guesses = known.guesses(present & !left_out);
    if guesses.is_empty() {
        return Err(refusal.error);
    }
    for guess in guesses {
        match send(known.changed(order.clone(), left_out | guess)).await {
            Ok(answer) => {
                known.answered(present & !left_out & !guess, left_out | guess);
                return Ok(answer);
            }
            Err(other) if is_of_the_fields(&other) => {}
            Err(other) => return Err(other.error),
        }
    }
    known.searches.fetch_add(1, Ordering::Relaxed);
    Err(refusal.error)
}

/// A refusal that may mean a field.
fn is_of_the_fields(refusal: &Refusal) -> bool {
    let wrong = [StatusCode::BAD_REQUEST, StatusCode::UNPROCESSABLE_ENTITY];
    refusal.status.is_some_and(|status| wrong.contains(&status))
}

/// Where a name stands as a word of its own.
fn word(text: &str, name: &str) -> Option<usize> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name)
        .map(|(at, _)| at)
        .find(|at| !text[..*at].ends_with(part) && !text[at + name.len()..].starts_with(part))
}

/// Models of which many bases leave out the mark before what they think, by their names.
fn sounds_thoughtful(model: &str) -> bool {
    let words = ["r1", "qwq", "thinking", "reasoner", "reasoning"];
    let lower = model.to_ascii_lowercase();
    lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| words.contains(&part))
}

/// What is known of each model at each base. Clones share it.
#[derive(Clone, Default)]
pub struct Findings(Arc<Mutex<Models>>);

/// What is known of each model, by its base and name.
type Models = BTreeMap<(String, String), Arc<Known>>;

impl std::fmt::Debug for Findings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Findings")
    }
}

impl Findings {
    /// What is known of this model. The number of models is bounded: where too many were asked, all
    /// are found out anew.
    pub(crate) fn for_model(
        &self,
        base: &str,
        model: &str,
        fields: &'static [Doubtful],
    ) -> Arc<Known> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (base.to_owned(), model.to_owned());
        if all.len() >= MOST_MODELS && !all.contains_key(&key) {
            all.clear();
        }
        Arc::clone(all.entry(key).or_insert_with(|| Arc::new(Known::new(fields, model))))
    }
}

#[cfg(test)]
#[path = "fields_tests.rs"]
mod tests;
