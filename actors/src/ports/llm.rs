//! The language model's port: a conversation in, pieces of an answer out.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
pub use hearken_proto::chat::Role;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ProviderError;

/// A language model.
pub trait Llm: Send + Sync {
    /// Answers a conversation. Nothing is sent before the stream is polled; dropping it ends the
    /// request. The stream ends after [`LlmDelta::Finished`] or an error.
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>>;

    /// Reads ahead what a conversation's prompts begin with, where the first answer then comes
    /// sooner; otherwise does nothing. Dropping it ends the request.
    fn read_ahead(&self, _opening: Prompt) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A conversation to be continued.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prompt {
    /// In order; the first is the system's.
    pub messages: Vec<ChatMessage>,
    /// What the model may call; empty offers nothing.
    pub tools: Arc<[OfferedTool]>,
    /// Whether it may call them in this answer.
    pub tool_choice: ToolChoice,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
    /// 0.0 to 1.0.
    pub temperature: f64,
}

/// What a model may do with the tools that it is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// It calls them or not, as it likes.
    #[default]
    Auto,
    /// It only answers. The tools are offered all the same, since bases refuse a conversation with
    /// calls of tools that nobody offers.
    None,
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedTool {
    /// 1 to 64 letters, digits, `_` and `-`; unique in a prompt.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub parameters: Value,
}

/// A call of a tool, as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRequest {
    /// The call's id; unique in a conversation.
    pub id: String,
    /// The tool's name as it was offered, if the model kept to it.
    pub name: String,
    /// The arguments: JSON of an object, if the model wrote it well.
    pub arguments: String,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// Who said it.
    pub role: Role,
    /// What was said, or what the tool answered.
    pub content: String,
    /// The calls that the model asked for beside its words; each is followed by its result.
    pub calls: Vec<ToolRequest>,
    /// The call that a tool's message answers; empty for the others.
    pub answers: String,
}

impl ChatMessage {
    /// A message of this role.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), calls: Vec::new(), answers: String::new() }
    }

    /// What the model said and called at once.
    pub fn calling(content: impl Into<String>, calls: Vec<ToolRequest>) -> Self {
        Self { calls, ..Self::new(Role::Assistant, content) }
    }

    /// What a call brought.
    pub fn result(id: impl Into<String>, content: impl Into<String>) -> Self {
        Self { answers: id.into(), ..Self::new(Role::Tool, content) }
    }
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum LlmDelta {
    /// Some more text, cut anywhere.
    Text(String),
    /// The model begins to write calls of tools: the text before is complete.
    Calling,
    /// A whole call of a tool, once the model has written it.
    Call(ToolRequest),
    /// The answer is complete.
    Finished {
        /// The answer was cut at its longest length.
        truncated: bool,
        /// What it cost, where the provider tells.
        usage: Option<Usage>,
    },
}

/// Tokens that an answer cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Read.
    pub prompt_tokens: u64,
    /// Written.
    pub completion_tokens: u64,
}
