//! Chat sessions of applications: their table of the configuration, to the actors' settings. Not
//! for what the values may be, which is checked with the rest.

use std::time::Duration;

use hearken_actors::chat::ChatSettings;
use hearken_base::Secret;
use serde::{Deserialize, Serialize};

use super::{Config, ms};

/// Chat sessions of applications, `/api/sessions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChatConfig {
    /// Applications are let in.
    pub enabled: bool,
    /// What they show as a bearer token, or as `token` in the URL; empty lets everybody in.
    pub token: Secret,
    /// How the model is to behave.
    pub system_prompt: String,
    /// Rounds of calls in a turn; one more ends it with an error.
    pub max_iterations: usize,
    /// Messages of a session that are read for a turn.
    pub message_history_size: u32,
    /// Tokens that the model is told at most; older exchanges are left out.
    pub token_budget: usize,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
    /// 0.0 to 1.0.
    pub temperature: f64,
    /// The model may call the server's other tools too.
    pub server_tools: bool,
    /// Longest wait for a turn of the same session that is under way.
    pub lock_wait_ms: u64,
    /// Watchers at once; one more is refused with 503.
    pub max_watchers: usize,
    /// How often a watcher is pinged.
    pub ping_interval_ms: u64,
    /// A watcher that sends nothing at all for this long is gone.
    pub pong_timeout_ms: u64,
    /// Deleted sessions are forgotten after this time.
    pub purge_after_days: u32,
}

impl Default for ChatConfig {
    fn default() -> Self {
        let s = ChatSettings::default();
        Self {
            enabled: true,
            token: Secret::default(),
            system_prompt: s.system_prompt,
            max_iterations: s.max_iterations,
            message_history_size: s.history,
            token_budget: s.token_budget,
            max_tokens: s.max_tokens,
            temperature: s.temperature,
            server_tools: s.server_tools,
            lock_wait_ms: ms(s.lock_wait),
            max_watchers: 1_000,
            ping_interval_ms: ms(s.ping_every),
            pong_timeout_ms: ms(s.dead_after),
            purge_after_days: 30,
        }
    }
}

impl Config {
    /// What chat sessions need of the configuration.
    pub fn chat_sessions(&self) -> ChatSettings {
        let c = &self.chat;
        ChatSettings {
            system_prompt: c.system_prompt.clone(),
            max_iterations: c.max_iterations,
            history: c.message_history_size,
            token_budget: c.token_budget,
            max_tokens: c.max_tokens,
            temperature: c.temperature,
            server_tools: c.server_tools,
            lock_wait: Duration::from_millis(c.lock_wait_ms),
            ping_every: Duration::from_millis(c.ping_interval_ms),
            dead_after: Duration::from_millis(c.pong_timeout_ms),
            purge_after: Duration::from_secs(u64::from(c.purge_after_days) * 86_400),
            tools: self.tools.settings(),
            ..ChatSettings::default()
        }
    }
}
