//! Settings of museum clients, with their defaults. Not for the bounds of values, which the
//! configuration checks.

use std::time::Duration;

use hearken_base::{Secret, ms};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default instructions.
const SYSTEM_PROMPT: &str = "你是博物馆里的智能讲解员，陪伴观众了解文物，并帮他们操作客户端。
当前场景：{scene_type}；器灵：{spirit_id}；客户端：{client_type}。

准则：
1. 用观众使用的语言回答，简洁自然，适合朗读，不用Markdown和表情符号
2. 需要客户端做事时，调用最合适的一个函数，并用一句话告诉观众；不需要时直接回答
3. 不编造文物信息，不知道就说不知道";

/// Section `[museum]`: museum clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MuseumSettings {
    /// Accept museum clients.
    pub enabled: bool,
    /// Token that clients send as `Authorization: Bearer TOKEN` or `?token=TOKEN`, at least
    /// 16 characters long. Empty admits all clients on this machine and in its private
    /// networks (RFC 1918, link-local and unique local addresses), but no forwarded
    /// requests.
    pub token: Secret,
    /// Admit clients from all networks and through proxies without a token, if `token` is
    /// empty. The service is then open to every client that reaches the port.
    pub open_to_all: bool,
    /// System prompt. `{scene_type}`, `{spirit_id}`, `{client_type}` and `{current_time}`
    /// are replaced. With `{current_time}`, answers are cached for at most one minute.
    pub system_prompt: String,
    /// Sampling temperature.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: f64,
    /// Maximum length of an answer.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_tokens: u32,
    /// Maximum number of messages that a session remembers.
    #[schemars(range(min = 2, max = 1_000))]
    pub max_messages: usize,
    /// Time without a request or heartbeat after which a session ends. The original clients
    /// send a heartbeat every two minutes.
    #[serde(rename = "session_timeout_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 1_000, max = 2_592_000_000_u64))]
    pub session_timeout: Duration,
    /// Maximum number of concurrent sessions; further ones get 503.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_sessions: u64,
    /// Maximum number of sessions of the clients at one address that send no token; further
    /// ones get 503. All clients on this machine count as one address.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub max_sessions_per_address: u64,
    /// Time for which the answer to the same question after the same conversation is
    /// cached. `0` disables the cache.
    #[serde(rename = "cache_answers_ms", with = "ms")]
    #[schemars(with = "u64", range(max = 86_400_000))]
    pub answers_for: Duration,
    /// Maximum number of requests per minute from one address; further ones get 429. For
    /// programs on this machine and clients that send a token, the limit applies to each
    /// session, and to their registrations by address. `0` disables the limit.
    #[schemars(range(max = 1_000_000))]
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
