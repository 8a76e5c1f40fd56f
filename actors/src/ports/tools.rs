//! The tools' port: one source of tools, wherever it lives. Which sources a conversation has, and
//! what the model calls them, is the host's part.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

/// A place where tools live: a device, a remote server, a client, this server itself.
pub trait ToolSource: Send + Sync {
    /// A short name, unique among the sources of a conversation: `device`, `weather-server`.
    fn name(&self) -> &str;

    /// The tools as they are known now; cheap, and asked anew before each round of a turn.
    fn tools(&self) -> Arc<[Tool]>;

    /// Calls a tool by the name that [`ToolSource::tools`] gives. Dropping the future cancels the
    /// call. The host bounds it by [`ToolSource::timeout`].
    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>>;

    /// Longest wait for a result.
    fn timeout(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// What sort of source it is, for counting: a word of ours, never a name given by others.
    fn kind(&self) -> &'static str {
        "other"
    }

    /// How many calls it takes at once, at least one: devices take one.
    fn at_once(&self) -> usize {
        8
    }
}

/// A tool, as its source describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name at the source; may hold any characters.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments, an object; passed on unchanged.
    pub parameters: Value,
    /// A call goes on when its turn is cut.
    pub finishes: bool,
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The model's id of the call; answers carry it.
    pub id: String,
    /// The tool's name at its source.
    pub name: String,
    /// The arguments, an object.
    pub arguments: Map<String, Value>,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    /// In order.
    pub content: Vec<ToolContent>,
    /// The tool itself says that it failed; the model is told so.
    pub failed: bool,
}

impl ToolOutput {
    /// An output of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![ToolContent::Text(text.into())], failed: false }
    }
}

/// A part of a tool's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolContent {
    /// Words or JSON.
    Text(String),
    /// A picture.
    Image {
        /// For example `image/jpeg`.
        mime_type: String,
        /// In base64, as it came.
        base64: String,
    },
}

/// Why a call brought no answer. Given to the model as the call's result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The source has no such tool (any more).
    #[error("there is no tool `{0}`")]
    Unknown(String),
    /// The arguments do not fit the tool's schema.
    #[error("the arguments are wrong: {0}")]
    Arguments(String),
    /// No answer in time.
    #[error("the tool did not answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The source is away or broken.
    #[error("the tool cannot be reached: {0}")]
    Unavailable(String),
    /// The source refused the call.
    #[error("the tool failed: {0}")]
    Failed(String),
}
