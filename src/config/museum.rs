//! Museum clients: their table of the configuration, to their settings. Not for what the values
//! may be, which is checked with the rest.

use std::time::Duration;

use hearken_base::Secret;
use serde::{Deserialize, Serialize};

use super::{Config, ms};
use crate::museum::MuseumSettings;

/// Museum clients, `/api/session` and `/api/agent`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MuseumConfig {
    /// Museum clients are let in.
    pub enabled: bool,
    /// What they show as a bearer token, or as `token` in the URL; empty lets everybody in.
    pub token: Secret,
    /// How the model is to behave.
    pub system_prompt: String,
    /// 0.0 to 2.0.
    pub temperature: f64,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
    /// Messages that a session remembers.
    pub max_messages: usize,
    /// A session that nobody used for this long is over.
    pub session_timeout_ms: u64,
    /// Most sessions at once; one more is refused with 503.
    pub max_sessions: u64,
    /// How long an answer is good for the same question after the same words; 0 keeps none.
    pub cache_answers_ms: u64,
    /// Requests of one session in a minute; beyond, 429. 0 sets no limit.
    pub requests_per_minute: u32,
}

impl Default for MuseumConfig {
    fn default() -> Self {
        let s = MuseumSettings::default();
        Self {
            enabled: true,
            token: Secret::default(),
            system_prompt: s.system_prompt,
            temperature: s.temperature,
            max_tokens: s.max_tokens,
            max_messages: s.max_messages,
            session_timeout_ms: ms(s.session_timeout),
            max_sessions: s.max_sessions,
            cache_answers_ms: ms(s.answers_for),
            requests_per_minute: 60,
        }
    }
}

impl Config {
    /// What museum clients need of the configuration.
    pub fn museum_clients(&self) -> MuseumSettings {
        let m = &self.museum;
        MuseumSettings {
            system_prompt: m.system_prompt.clone(),
            temperature: m.temperature,
            max_tokens: m.max_tokens,
            max_messages: m.max_messages,
            session_timeout: Duration::from_millis(m.session_timeout_ms),
            max_sessions: m.max_sessions,
            answers_for: Duration::from_millis(m.cache_answers_ms),
        }
    }
}
