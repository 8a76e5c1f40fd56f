//! What museum clients need to know of a deployment, with its defaults. Not for the
//! bounds of values, which the configuration checks.

use std::time::Duration;

use hearken_actors::settings::ms;
use hearken_base::Secret;
use serde::{Deserialize, Serialize};

/// The instructions, where none are configured.
const SYSTEM_PROMPT: &str = "你是博物馆里的智能讲解员，陪伴观众了解文物，并帮他们操作客户端。
当前场景：{scene_type}；器灵：{spirit_id}；客户端：{client_type}。

准则：
1. 用观众使用的语言回答，简洁自然，适合朗读，不用Markdown和表情符号
2. 需要客户端做事时，调用最合适的一个函数，并用一句话告诉观众；不需要时直接回答
3. 不编造文物信息，不知道就说不知道";

/// Section `[museum]`: how museum clients are served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MuseumSettings {
    /// Lets museum clients in.
    pub enabled: bool,
    /// Bearer token of clients, which may also stand as `token` in the URL; empty lets everybody
    /// in.
    pub token: Secret,
    /// Tells the model how to behave; `{scene_type}`, `{spirit_id}`, `{client_type}` and
    /// `{current_time}` are filled in.
    pub system_prompt: String,
    /// 0.0 to 2.0.
    pub temperature: f64,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
    /// Messages that a session remembers.
    pub max_messages: usize,
    /// Ends a session that nobody used for this long.
    #[serde(rename = "session_timeout_ms", with = "ms")]
    pub session_timeout: Duration,
    /// Most sessions at once; one more is refused with 503.
    pub max_sessions: u64,
    /// How long an answer is good for the same question after the same words; zero keeps none.
    #[serde(rename = "cache_answers_ms", with = "ms")]
    pub answers_for: Duration,
    /// Most requests of one session in a minute; one more is answered 429. 0 sets no limit.
    pub requests_per_minute: u32,
}

impl Default for MuseumSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            token: Secret::default(),
            system_prompt: SYSTEM_PROMPT.into(),
            temperature: 0.7,
            max_tokens: 1_024,
            max_messages: 10,
            session_timeout: Duration::from_secs(900),
            max_sessions: 10_000,
            answers_for: Duration::from_secs(300),
            requests_per_minute: 60,
        }
    }
}
