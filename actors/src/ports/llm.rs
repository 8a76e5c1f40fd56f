//! The language model's port: a conversation in, pieces of an answer out.

use futures_util::stream::BoxStream;

use super::ProviderError;

/// A language model.
pub trait Llm: Send + Sync {
    /// Answers a conversation. Nothing is sent before the stream is polled; dropping it ends the
    /// request. The stream ends after [`LlmDelta::Finished`] or an error.
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>>;
}

/// A conversation to be continued.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prompt {
    /// In order; the first is the system's.
    pub messages: Vec<ChatMessage>,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
    /// 0.0 to 1.0.
    pub temperature: f32,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub content: String,
}

impl ChatMessage {
    /// A message of this role.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }
}

/// Who said a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The deployment: how to behave.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum LlmDelta {
    /// Some more text, cut anywhere.
    Text(String),
    /// The answer is complete.
    Finished {
        /// The answer was cut at its longest length.
        truncated: bool,
    },
}
