//! Port between HTTP and a language model: request, answer and errors. No HTTP and no native code
//! here. Each side can be tested without the other.

use std::ops::ControlFlow;

use serde_json::Value;

/// Language model that continues one conversation at a time.
pub trait Generator {
    /// Generates the answer to a conversation. Calls `emit` with every piece as soon as it is
    /// produced. If `emit` returns `Break`, the model stops at once and finishes with
    /// [`FinishReason::Cut`].
    fn generate(&mut self, request: &Generation, emit: Emit<'_>) -> Result<Finish, LlmError>;
}

/// Callback that receives each piece of an answer. It returns `Break` to stop the model.
pub type Emit<'a> = &'a mut dyn FnMut(Piece<'_>) -> ControlFlow<()>;

/// One step of the model's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The prompt is still being read. There is no output yet; the caller can stop the model.
    Reading,
    /// Bytes of the answer. A character may be split between two pieces.
    Bytes(&'a [u8]),
}

/// End of an answer: reason and token counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finish {
    /// Reason of the end.
    pub reason: FinishReason,
    /// Tokens in the prompt.
    pub prompt_tokens: u32,
    /// Prompt tokens that were taken from the cache.
    pub cached_tokens: u32,
    /// Tokens in the answer.
    pub completion_tokens: u32,
}

/// Reason why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended the answer itself.
    Stop,
    /// The answer reached its maximum length, or the context was full.
    Length,
    /// The receiver of the pieces stopped the model.
    Cut,
}

/// Request to continue one conversation, validated and with every default filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// Messages of the conversation, in order.
    pub messages: Vec<Message>,
    /// Tools that the model may call.
    pub tools: Vec<Tool>,
    /// Rule on calling tools.
    pub tool_choice: ToolChoice,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Maximum length of the answer, in tokens.
    pub max_tokens: u32,
    /// Stop texts: the answer ends before any of these texts.
    pub stop: Vec<String>,
    /// Low priority: the request waits for all others, and is cancelled when another one arrives.
    pub gives_way: bool,
}

/// Message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Role of the speaker.
    pub role: Role,
    /// Text of the message.
    pub content: String,
    /// Tool calls of the assistant, in order; empty for the other roles.
    pub tool_calls: Vec<ToolCall>,
}

/// Role of the speaker of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions for the model.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// Result of a tool.
    Tool,
}

/// Tool that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Name of the tool.
    pub name: String,
    /// Description of when to use the tool; may be empty.
    pub description: String,
    /// JSON Schema of the arguments; an object.
    pub parameters: Value,
}

/// Tool call made by the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Name of the tool.
    pub name: String,
    /// Arguments as JSON text.
    pub arguments: String,
}

/// Rule on calling tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No calls.
    None,
    /// The model decides, and the form of a call is not restricted: a call may name a tool that
    /// does not exist.
    Free,
    /// The model must call a tool.
    Required,
    /// The model must call this tool.
    Named(String),
}

/// Sampling parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Temperature: from 0.0 (always the most likely token) to 2.0.
    pub temperature: f32,
    /// Nucleus sampling: picks among the most likely tokens that together have this probability;
    /// above 0.0, at most 1.0.
    pub top_p: f32,
    /// Penalty that grows with the number of earlier occurrences of a token, from -2.0 to 2.0.
    pub frequency_penalty: f32,
    /// Penalty for a token that occurred at all, from -2.0 to 2.0.
    pub presence_penalty: f32,
    /// Random seed. The same seed and the same conversation give the same answer. `None` gives a
    /// different answer each time.
    pub seed: Option<u32>,
}

impl Default for Sampling {
    /// Returns temperature and top-p as published for Qwen2.5 in its `generation_config.json`.
    fn default() -> Self {
        Self {
            temperature: 0.7,
            top_p: 0.8,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            seed: None,
        }
    }
}

/// Reason why the model could not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LlmError {
    /// The newest messages alone are longer than the context.
    #[error(
        "the last message and the system message take {tokens} tokens, at most {limit} fit: shorten them or start with a larger --context"
    )]
    TooLong {
        /// Length of the messages, in tokens.
        tokens: usize,
        /// Limit, in tokens.
        limit: usize,
    },
    /// The model could not be loaded.
    #[error("cannot load the language model: {0}")]
    Load(String),
    /// The native engine failed.
    #[error("the language model failed: {0}")]
    Engine(String),
}
