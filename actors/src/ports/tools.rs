//! Port of a tool source. Not for selecting the sources of a conversation, nor for the names that
//! models use: the host decides these.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

/// Source of tools: a device, a remote server, a client or this server itself.
pub trait ToolSource: Send + Sync {
    /// Returns a short name, unique among the sources of a conversation: `device`,
    /// `weather-server`.
    fn name(&self) -> &str;

    /// Returns the currently known tools. Must be cheap: called before each round of a turn.
    fn tools(&self) -> Arc<[Tool]>;

    /// Calls a tool by a name from [`ToolSource::tools`]. Dropping the future cancels the call. The
    /// host limits it to [`ToolSource::timeout`].
    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>>;

    /// Returns the longest wait for a result.
    fn timeout(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// Returns the kind of source for metrics. It is a fixed word of the server, never a name from
    /// outside.
    fn kind(&self) -> &'static str {
        "other"
    }

    /// Returns the maximum number of concurrent calls, at least one. Devices take one.
    fn at_once(&self) -> usize {
        8
    }
}

/// Tool as described by its source.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Name at the source. It may contain any characters.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments, an object. Passed on unchanged.
    pub parameters: Value,
    /// Set if a call continues when its turn is cut.
    pub finishes: bool,
}

/// One tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Id of the call from the model. Results carry it.
    pub id: String,
    /// Name of the tool at its source.
    pub name: String,
    /// Arguments, an object.
    pub arguments: Map<String, Value>,
}

/// Result of a tool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    /// Parts of the result, in order.
    pub content: Vec<ToolContent>,
    /// Set if the tool itself reports a failure, which is passed to the model.
    pub failed: bool,
}

impl ToolOutput {
    /// Creates an output of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![ToolContent::Text(text.into())], failed: false }
    }
}

/// Part of a tool's result.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolContent {
    /// Text or JSON.
    Text(String),
    /// A picture.
    Image {
        /// MIME type, for example `image/jpeg`.
        mime_type: String,
        /// Base64 data as received.
        base64: String,
    },
}

/// Reason for a call without a result. Given to the model as the call's result.
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
    /// The source is disconnected or broken.
    #[error("the tool cannot be reached: {0}")]
    Unavailable(String),
    /// The source refused the call.
    #[error("the tool failed: {0}")]
    Failed(String),
}
