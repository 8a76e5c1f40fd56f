//! The last calls of the services of a turn: request, response and duration. In memory, bounded,
//! without secrets. Not for metrics, nor for the use of the responses in a turn.

mod ports;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hearken_base::redaction::{MASK, redact};
use hearken_ports::ProviderError;
use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;
use utoipa::ToSchema;

/// Maximum number of stored calls per service.
pub const MOST_CALLS: usize = 200;
/// Maximum length of a stored text, in characters.
const MOST_CHARS: usize = 500;
/// Maximum number of stored names of called tools.
const MOST_NAMES: usize = 20;

/// A service of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TurnService {
    /// The recogniser.
    Asr,
    /// The language model.
    Llm,
    /// The synthesiser.
    Tts,
}

/// Outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CallOutcome {
    /// It is in progress.
    Running,
    /// It was answered.
    Answered,
    /// It failed.
    Failed,
    /// Its caller stopped waiting.
    Cancelled,
}

/// Content of a request or a response. Fields that the service does not have are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct CallContent {
    /// Text: the user's last words, or the text that was recognised, generated or to be spoken; at
    /// most 500 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub text: Option<String>,
    /// Name of the model; empty for the configured one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model: Option<String>,
    /// Name of the voice; empty for the configured one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub voice: Option<String>,
    /// Number of messages in the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub messages: Option<usize>,
    /// Number of characters of all messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub characters: Option<usize>,
    /// Number of tools that were offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tools: Option<usize>,
    /// Maximum length of the answer, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub max_tokens: Option<u32>,
    /// Sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub temperature: Option<f64>,
    /// Names of the tools that the model called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub calls: Option<Vec<String>>,
    /// Tokens of the prompt, as the provider reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer, as the provider reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub completion_tokens: Option<u64>,
    /// Length of sound, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub audio_ms: Option<u64>,
}

/// A call in its current state.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedCall {
    /// Number among all calls, from 1.
    pub number: u64,
    /// The service.
    pub service: TurnService,
    /// Time of its start.
    pub began: Timestamp,
    /// Time until the first piece of the answer.
    pub first: Option<Duration>,
    /// Time until its end.
    pub total: Option<Duration>,
    /// Outcome so far.
    pub outcome: CallOutcome,
    /// Reason of the failure.
    pub error: Option<String>,
    /// The request.
    pub sent: CallContent,
    /// The response so far.
    pub got: CallContent,
}

/// The last calls. Clones share them.
#[derive(Clone)]
pub struct CallLog(Arc<Shared>);

struct Shared {
    words: bool,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    number: u64,
    last: VecDeque<(TurnService, Arc<Mutex<LoggedCall>>)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CallLog {
    /// Creates an empty log. Texts are stored only with `words`.
    pub fn new(words: bool) -> Self {
        Self(Arc::new(Shared { words, calls: Mutex::default() }))
    }

    /// Reports whether texts are stored.
    pub fn keeps_words(&self) -> bool {
        self.0.words
    }

    /// Returns the last calls of a service, or of all, newest first.
    pub fn last(&self, service: Option<TurnService>, most: usize) -> Vec<LoggedCall> {
        let calls = lock(&self.0.calls);
        let wanted = calls.last.iter().rev();
        let wanted = wanted.filter(|(of, _)| service.is_none_or(|service| service == *of));
        wanted.take(most).map(|(_, call)| lock(call).clone()).collect()
    }

    /// Deletes the calls that started up to this time, because their conversation is deleted.
    pub fn forget(&self, until: Timestamp) {
        lock(&self.0.calls).last.retain(|(_, call)| lock(call).began > until);
    }

    fn begin(&self, service: TurnService, sent: CallContent) -> OpenCall {
        let mut calls = lock(&self.0.calls);
        calls.number += 1;
        let call = Arc::new(Mutex::new(LoggedCall {
            number: calls.number,
            service,
            began: Timestamp::now(),
            first: None,
            total: None,
            outcome: CallOutcome::Running,
            error: None,
            sent,
            got: CallContent::default(),
        }));
        let own = |(of, _): &&(TurnService, _)| *of == service;
        if calls.last.iter().filter(own).count() >= MOST_CALLS
            && let Some(oldest) = calls.last.iter().position(|call| own(&call))
        {
            calls.last.remove(oldest);
        }
        calls.last.push_back((service, Arc::clone(&call)));
        OpenCall { call, begun: Instant::now(), words: self.0.words }
    }

    /// Returns a text as it is stored: its beginning, without secrets.
    fn kept(&self, text: &str) -> Option<String> {
        kept(text, self.0.words)
    }
}

fn kept(text: &str, words: bool) -> Option<String> {
    words.then(|| {
        // Truncated JSON could hide a secret.
        let is_json = text.trim_start().starts_with(['{', '[']);
        if is_json && serde_json::from_str::<IgnoredAny>(text).is_err() {
            return MASK.to_owned();
        }
        let mut text = Value::String(text.to_owned());
        redact(&mut text);
        text.as_str().unwrap_or_default().chars().take(MOST_CHARS).collect()
    })
}

/// A call in progress. Dropping it before its end marks it as cancelled.
struct OpenCall {
    call: Arc<Mutex<LoggedCall>>,
    begun: Instant,
    words: bool,
}

impl OpenCall {
    /// Records a piece of the answer.
    fn got(&self, change: impl FnOnce(&mut CallContent)) {
        let mut call = lock(&self.call);
        call.first.get_or_insert_with(|| self.begun.elapsed());
        change(&mut call.got);
    }

    /// Adds to the text of the response.
    fn got_text(&self, text: &str) {
        let words = self.words;
        self.got(|got| {
            let told = got.text.as_ref().map_or(0, |text| text.chars().count());
            if words && told < MOST_CHARS {
                let more = text.chars().take(MOST_CHARS - told);
                got.text.get_or_insert_default().extend(more);
            }
        });
    }

    /// Adds to the length of the audio that was sent.
    fn sends(&self, audio_ms: u64) {
        let sent = &mut lock(&self.call).sent;
        sent.audio_ms = Some(sent.audio_ms.unwrap_or_default().saturating_add(audio_ms));
    }

    fn end(&self, outcome: CallOutcome, error: Option<String>) {
        let mut call = lock(&self.call);
        if call.outcome == CallOutcome::Running {
            (call.outcome, call.error) = (outcome, error);
            call.total = Some(self.begun.elapsed());
            call.got.text = call.got.text.take().and_then(|text| kept(&text, true));
        }
    }

    fn ends_well(&self) {
        self.end(CallOutcome::Answered, None);
    }

    fn fails(&self, error: &ProviderError) {
        self.end(CallOutcome::Failed, kept(&error.to_string(), true));
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.end(CallOutcome::Cancelled, None);
    }
}

#[cfg(test)]
mod tests;
