//! Settings of museum clients, with their defaults. Not for the bounds of values, which the
//! configuration checks.

use std::time::Duration;

use hearken_base::{Secret, ms};
use serde::{Deserialize, Serialize};

/// Default instructions.
const SYSTEM_PROMPT: &str = "你是博物馆里的智能讲解员，陪伴观众了解文物，并帮他们操作客户端。
当前场景：{scene_type}；器灵：{spirit_id}；客户端：{client_type}。

准则：
1. 用观众使用的语言回答，简洁自然，适合朗读，不用Markdown和表情符号
2. 需要客户端做事时，调用最合适的一个函数，并用一句话告诉观众；不需要时直接回答
3. 不编造文物信息，不知道就说不知道";

/// Section `[museum]`: museum clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MuseumSettings {
    /// True to accept museum clients.
    pub enabled: bool,
    /// Bearer token of clients, which may also be `token` in the URL; empty to accept
    /// everybody near.
    pub token: Secret,
    /// True to accept clients of every network without a token. Otherwise only those on this
    /// machine and in its private networks need none.
    pub open_to_all: bool,
    /// Instructions for the model; `{scene_type}`, `{spirit_id}`, `{client_type}` and
    /// `{current_time}` are filled in.
    pub system_prompt: String,
    /// Sampling temperature, 0.0 to 2.0.
    pub temperature: f64,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
    /// Maximum number of messages that a session remembers.
    pub max_messages: usize,
    /// Time without use after which a session ends.
    #[serde(rename = "session_timeout_ms", with = "ms")]
    pub session_timeout: Duration,
    /// Maximum number of sessions; a further one is refused with 503.
    pub max_sessions: u64,
    /// Most of them that clients at one address have without a token; a further one is refused with
    /// 503.
    pub max_sessions_per_address: u64,
    /// Time for which the answer to the same question after the same conversation is cached; zero
    /// for no cache.
    #[serde(rename = "cache_answers_ms", with = "ms")]
    pub answers_for: Duration,
    /// Maximum number of requests of one session in a minute; a further one is answered with 429. 0
    /// for no limit.
    pub requests_per_minute: u32,
}

impl Default for MuseumSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            token: Secret::default(),
            open_to_all: false,
            system_prompt: SYSTEM_PROMPT.into(),
            temperature: 0.7,
            max_tokens: 1_024,
            max_messages: 10,
            session_timeout: Duration::from_secs(900),
            max_sessions: 10_000,
            max_sessions_per_address: 1_000,
            answers_for: Duration::from_secs(300),
            requests_per_minute: 60,
        }
    }
}
