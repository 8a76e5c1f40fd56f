//! Fields of earlier messages that a model requires in a request: signatures and reasoning. The
//! calls of rules, of other models and of earlier turns have none, so that substitutes are sent.
//! Also ids: some gateways write ids that the model behind them refuses. Not for the fields that the model itself sent, which the messages already have.
//!
//! - Which substitutes a model requires is learnt from its refusals. Google's address requires
//!   signatures from the start.
//! - A refusal about these fields is not about a tool, even if it names one.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use hearken_outbound::http::{Refusal, kind_of_code};
use serde_json::{Map, Value, json};
use url::Url;

use super::super::call_ids::plain;

/// Signature that Google documents for calls that its model did not make.
const SIGNATURE: &str = "skip_thought_signature_validator";

/// Field of a message with calls that the model requires in the next request, as a text: the
/// reasoning of DeepSeek and Kimi.
pub(in crate::llm) const REASONING: &str = "reasoning_content";

/// The same as a list, in some gateways.
pub(in crate::llm) const REASONING_DETAILS: &str = "reasoning_details";

/// Reasoning of a message that has none. Models that require it refuse an empty text.
const NO_REASONING: &str = " ";

/// Domain of Google's API.
const GOOGLE: &str = "googleapis.com";

/// Fields of earlier messages that a refusal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequiredField {
    /// Signature of a call.
    Signature,
    /// Reasoning before a call.
    Reasoning,
    /// Blocks of thinking before a call, in Anthropic's API.
    Thinking,
    /// Id of a call in the form that every vendor accepts.
    PlainId,
}

impl RequiredField {
    /// Reads a refusal.
    pub(super) fn of(refusal: &Refusal) -> Option<Self> {
        let is_other = refusal.told.code.as_deref().and_then(kind_of_code).is_some();
        if is_other || !matches!(refusal.status?.as_u16(), 400 | 422) {
            return None;
        }
        let text = refusal.told.text.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if has(&["thought_signature", "thoughtsignature", "thought signature"]) {
            Some(Self::Signature)
        } else if has(&[REASONING, REASONING_DETAILS]) {
            Some(Self::Reasoning)
        } else if has(&["redacted_thinking", "thinking block"]) {
            Some(Self::Thinking)
        } else if has(&["tool call id was"]) {
            Some(Self::PlainId)
        } else {
            None
        }
    }
}

/// Treatment of the reasoning in earlier messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(u8)]
enum Reasoning {
    /// As the messages have it.
    #[default]
    AsIs,
    /// In all messages with calls.
    WithCalls,
    /// In all messages of the assistant.
    Everywhere,
    /// In none.
    Nowhere,
}

impl Reasoning {
    const ALL: [Self; 4] = [Self::AsIs, Self::WithCalls, Self::Everywhere, Self::Nowhere];
}

/// Known requirements of one model.
#[derive(Default)]
pub(super) struct Requirements {
    signatures: AtomicBool,
    plain_ids: AtomicBool,
    reasoning: AtomicU8,
}

impl Requirements {
    /// Creates the requirements of a model at this address.
    pub(super) fn at(base: &str) -> Self {
        let host = Url::parse(base).ok().and_then(|url| url.host_str().map(str::to_owned));
        let is_google = host.is_some_and(|host| {
            host.strip_suffix(GOOGLE).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        });
        Self { signatures: AtomicBool::new(is_google), ..Self::default() }
    }

    /// Changes a request to what is known.
    pub(super) fn apply(&self, order: &mut Value) -> Attempt {
        if self.signatures.load(Ordering::Relaxed) {
            add_signatures(order, false);
        }
        if self.plain_ids.load(Ordering::Relaxed) {
            set_plain_ids(order);
        }
        let reasoning = Reasoning::ALL[usize::from(self.reasoning.load(Ordering::Relaxed)) % 4];
        set_reasoning(order, reasoning);
        Attempt { reasoning, ..Attempt::default() }
    }

    fn learn(&self, attempt: &Attempt) {
        if attempt.signatures {
            self.signatures.store(true, Ordering::Relaxed);
        }
        if attempt.plain_ids {
            self.plain_ids.store(true, Ordering::Relaxed);
        }
        self.reasoning.fetch_max(attempt.reasoning as u8, Ordering::Relaxed);
    }
}

/// Changes to one request so far.
#[derive(Default)]
pub(super) struct Attempt {
    signatures: bool,
    plain_ids: bool,
    reasoning: Reasoning,
}

impl Attempt {
    /// Changes a request after a refusal. Returns false if nothing is left to try.
    pub(super) fn add(&mut self, field: RequiredField, order: &mut Value) -> bool {
        match field {
            RequiredField::Signature => {
                self.signatures = true;
                // If each call has a signature, the model refuses one of them.
                add_signatures(order, false) || add_signatures(order, true)
            }
            RequiredField::Reasoning => {
                let tried = self.reasoning;
                let mut later = Reasoning::ALL.into_iter().filter(|next| *next > tried);
                let changed = later.find(|next| set_reasoning(order, *next));
                self.reasoning = changed.unwrap_or(tried);
                changed.is_some()
            }
            RequiredField::PlainId => {
                self.plain_ids = true;
                set_plain_ids(order)
            }
            RequiredField::Thinking => {
                order.as_object_mut().is_some_and(|order| order.remove("thinking").is_some())
            }
        }
    }

    /// Records that the model accepted the request.
    pub(super) fn answered(&self, known: &Requirements) {
        known.learn(self);
    }
}

/// Returns the assistant's messages of a request.
fn assistants(order: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let messages = order.get_mut("messages").and_then(Value::as_array_mut).into_iter().flatten();
    messages
        .filter_map(Value::as_object_mut)
        .filter(|message| message.get("role").is_some_and(|role| role == "assistant"))
}

/// Adds a substitute to the first call of each message that has no signature, or to that of every
/// message. Returns false if nothing was changed.
fn add_signatures(order: &mut Value, to_all: bool) -> bool {
    let substitute = json!({ "google": { "thought_signature": SIGNATURE } });
    let mut changed = false;
    for message in assistants(order) {
        // Of several calls of one answer, only the first has a signature.
        let Some(call) = message
            .get_mut("tool_calls")
            .and_then(|calls| calls.get_mut(0))
            .and_then(Value::as_object_mut)
        else {
            continue;
        };
        let known = call
            .get("extra_content")
            .and_then(|extra| extra.pointer("/google/thought_signature"))
            .and_then(Value::as_str)
            .unwrap_or_default();
        if known.is_empty() || (to_all && known != SIGNATURE) {
            call.insert("extra_content".to_owned(), substitute.clone());
            changed = true;
        }
    }
    changed
}

/// Adds or removes reasoning. Returns false if nothing was changed.
fn set_reasoning(order: &mut Value, reasoning: Reasoning) -> bool {
    if reasoning == Reasoning::AsIs {
        return false;
    }
    let mut changed = false;
    for message in assistants(order) {
        let lacks = message.get(REASONING).and_then(Value::as_str).is_none_or(str::is_empty);
        let is_meant = reasoning == Reasoning::Everywhere || message.contains_key("tool_calls");
        if reasoning == Reasoning::Nowhere {
            for key in [REASONING, REASONING_DETAILS] {
                changed |= message.remove(key).is_some();
            }
        } else if lacks && is_meant {
            message.insert(REASONING.to_owned(), NO_REASONING.into());
            changed = true;
        }
    }
    changed
}

/// Gives calls and their results ids that every vendor accepts. Returns false if they have such ids.
fn set_plain_ids(order: &mut Value) -> bool {
    let mut changed = false;
    let mut set = |id: Option<&mut Value>| {
        if let Some(id) = id
            && let Some(plain) = id.as_str().map(|id| plain(id, 0))
            && *id != plain
        {
            *id = plain.into();
            changed = true;
        }
    };
    let messages = order.get_mut("messages").and_then(Value::as_array_mut).into_iter().flatten();
    for message in messages {
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        calls.into_iter().flatten().for_each(|call| set(call.get_mut("id")));
        set(message.get_mut("tool_call_id"));
    }
    changed
}
