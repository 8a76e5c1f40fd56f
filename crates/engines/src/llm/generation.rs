//! The port between HTTP and a language model: what is asked, what comes back, how it fails.
//! No HTTP and no native code here, so that either side can be tested without the other.

use std::ops::ControlFlow;

use serde_json::Value;

/// A language model that continues one conversation at a time.
pub trait Generator {
    /// Answers a conversation. Every piece is handed to `emit` as it is made; when `emit` answers
    /// `Break` the model stops at once and finishes as [`FinishReason::Cut`].
    fn generate(&mut self, request: &Generation, emit: Emit<'_>) -> Result<Finish, LlmError>;
}

/// Takes each piece of an answer as it is made; `Break` when no more is wanted.
pub type Emit<'a> = &'a mut dyn FnMut(Piece<'_>) -> ControlFlow<()>;

/// One step of the model's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Still reading the prompt; nothing to show, a chance to stop.
    Reading,
    /// Bytes of the answer; a character may be split between two pieces.
    Bytes(&'a [u8]),
}

/// How an answer ended, and what it cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finish {
    /// Why it ended.
    pub reason: FinishReason,
    /// Tokens in the prompt.
    pub prompt_tokens: u32,
    /// Prompt tokens that were still in the cache and did not have to be read again.
    pub cached_tokens: u32,
    /// Tokens in the answer.
    pub completion_tokens: u32,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model had said everything.
    Stop,
    /// The answer reached its longest length, or the context was full.
    Length,
    /// Whoever received the pieces wanted no more.
    Cut,
}

/// One conversation to be continued, checked and with every default filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// The conversation, in order.
    pub messages: Vec<Message>,
    /// What the model may call.
    pub tools: Vec<Tool>,
    /// Whether it may, must or must not.
    pub tool_choice: ToolChoice,
    /// How words are picked.
    pub sampling: Sampling,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
    /// The answer ends before any of these texts.
    pub stop: Vec<String>,
    /// Waits for all others, and is cut when one comes.
    pub gives_way: bool,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub content: String,
    /// What the assistant called, in order; empty for the other roles.
    pub tool_calls: Vec<ToolCall>,
}

/// Who said a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// How to behave.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// What a tool returned.
    Tool,
}

/// Something the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// When to use it; may be empty.
    pub description: String,
    /// JSON Schema of its arguments; an object.
    pub parameters: Value,
}

/// A call that the model made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Which tool.
    pub name: String,
    /// Its arguments as JSON text.
    pub arguments: String,
}

/// Whether the model may call tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// Not at all.
    None,
    /// As it likes, in whatever form: nothing keeps it to the tools that there are.
    Free,
    /// It must call one.
    Required,
    /// It must call this one.
    Named(String),
}

/// How words are picked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// 0.0 (always the likeliest) to 2.0.
    pub temperature: f32,
    /// Picks among the likeliest words that together have this probability, above 0.0 to 1.0.
    pub top_p: f32,
    /// Makes a word less likely the more often it came already, -2.0 to 2.0.
    pub frequency_penalty: f32,
    /// Makes a word less likely once it came, -2.0 to 2.0.
    pub presence_penalty: f32,
    /// Same seed and same conversation: same answer. None: another answer each time.
    pub seed: Option<u32>,
}

impl Default for Sampling {
    /// Temperature and top-p as published for Qwen2.5 in its `generation_config.json`.
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

/// Why the model could not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LlmError {
    /// The newest messages alone are longer than the context.
    #[error(
        "the last message and the system message take {tokens} tokens, at most {limit} fit: shorten them or start with a larger --context"
    )]
    TooLong {
        /// How long they are.
        tokens: usize,
        /// How much fits.
        limit: usize,
    },
    /// The model could not be loaded.
    #[error("cannot load the language model: {0}")]
    Load(String),
    /// The native engine failed.
    #[error("the language model failed: {0}")]
    Engine(String),
}
