//! What museum clients need to know of a deployment, with its defaults. Not for reading them.

use std::time::Duration;

/// The instructions, where none are configured.
const SYSTEM_PROMPT: &str = "你是博物馆里的智能讲解员，陪伴观众了解文物，并帮他们操作客户端。
当前场景：{scene_type}；器灵：{spirit_id}；客户端：{client_type}。

准则：
1. 用观众使用的语言回答，简洁自然，适合朗读，不用Markdown和表情符号
2. 需要客户端做事时，调用最合适的一个函数，并用一句话告诉观众；不需要时直接回答
3. 不编造文物信息，不知道就说不知道";

/// How museum clients are served.
#[derive(Debug, Clone, PartialEq)]
pub struct MuseumSettings {
    /// Tells the model how to behave; `{scene_type}`, `{spirit_id}`, `{client_type}` and
    /// `{current_time}` are filled in.
    pub system_prompt: String,
    /// 0.0 to 2.0.
    pub temperature: f64,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
    /// Messages that a session remembers.
    pub max_messages: usize,
    /// A session that nobody used for this long is over.
    pub session_timeout: Duration,
    /// Most sessions at once.
    pub max_sessions: u64,
    /// How long an answer is good for the same question; zero keeps none.
    pub answers_for: Duration,
}

impl Default for MuseumSettings {
    fn default() -> Self {
        Self {
            system_prompt: SYSTEM_PROMPT.into(),
            temperature: 0.7,
            max_tokens: 1_024,
            max_messages: 10,
            session_timeout: Duration::from_secs(900),
            max_sessions: 10_000,
            answers_for: Duration::from_secs(300),
        }
    }
}
