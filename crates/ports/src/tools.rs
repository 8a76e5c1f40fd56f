//! Port of a tool source. Not for selecting the sources of a conversation, nor for the names that
//! models use: the host decides these.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

/// Start of the result of a call that the server itself refused: no tool was called.
pub const NOT_CALLED: &str = "error: not called";

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

    /// Returns the maximum wait for a result.
    fn timeout(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// Returns the kind of source, for metrics and for questions to the person. It is a fixed word of the server, never a name from
    /// outside.
    fn kind(&self) -> &'static str {
        "other"
    }

    /// Returns the name of the source for metrics, if an administrator chose it. Names that a peer
    /// chose are not used, since there would be as many counters as names.
    fn metric_name(&self) -> Option<&str> {
        None
    }

    /// Returns the data for deciding whether a model may call this tool. By default, a source is
    /// not trusted.
    fn provenance(&self, tool: &str) -> Provenance {
        Provenance::untrusted(self.name(), tool)
    }

    /// Returns the number of the connection over which this tool is called; 0 if the name of the
    /// source stands for the same peer on every connection. A call is made only over the connection
    /// whose tool was offered: another peer may have taken the name of the tool since. For one
    /// instance of a source, a tool in [`ToolSource::tools`] always has the same number.
    fn connection_of(&self, _tool: &str) -> u64 {
        0
    }

    /// Returns the source without the parts with these names; `None` if it has no parts.
    fn without(&self, _names: &[String]) -> Option<Arc<dyn ToolSource>> {
        None
    }

    /// Returns the maximum number of concurrent calls, at least one. Devices accept one.
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
    /// True if a call continues when its turn is cut.
    pub finishes: bool,
    /// True if its source declares that a call may delete or overwrite something.
    pub destructive: bool,
}

/// Origin of a tool, and how far it is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// Name of its source, as lists of tools show it.
    pub source: String,
    /// Group of its source, if the source gives itself its name. Such a name is not evidence of
    /// the source's identity: it can make a policy only stricter.
    pub group: Option<String>,
    /// Name of such a source that it cannot choose: `token:` and the serial of the token with which
    /// it has connected. `None` for other sources, and if the serial is not known.
    pub key: Option<String>,
    /// Name of the tool at that source.
    pub tool: String,
    /// True if no third party can have written its results.
    pub trusted: bool,
    /// True if its definition differs from the one that was first seen or last accepted.
    pub changed: bool,
    /// True if it only changes a simulated world: the door of a game is not a real door.
    pub simulated: bool,
    /// True if its source is trusted with its own tools: results of the source do not make them
    /// require confirmation, except for tools that unlock, pay and the like.
    pub own_trust: bool,
}

impl Provenance {
    /// Creates the provenance of a tool whose results a third party may have written.
    pub fn untrusted(source: &str, tool: &str) -> Self {
        let source = source.into();
        let tool = tool.into();
        Self {
            source,
            group: None,
            key: None,
            tool,
            trusted: false,
            changed: false,
            simulated: false,
            own_trust: false,
        }
    }

    /// Creates the provenance of a tool whose results are trusted.
    pub fn trusted(source: &str, tool: &str) -> Self {
        Self { trusted: true, ..Self::untrusted(source, tool) }
    }
}

/// One tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Id of the call from the model; also in its result.
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
    /// True if the tool itself reports a failure, which is passed to the model.
    pub failed: bool,
}

impl ToolCall {
    /// Returns the size of the name and the arguments, in bytes of JSON.
    pub fn size_bytes(&self) -> usize {
        let arguments = serde_json::to_string(&self.arguments).map_or(0, |text| text.len());
        self.name.len() + arguments
    }
}

impl ToolOutput {
    /// Returns the size of all texts and pictures, in bytes.
    pub fn size_bytes(&self) -> usize {
        let part = |part: &ToolContent| match part {
            ToolContent::Text(text) => text.len(),
            ToolContent::Image { mime_type, base64 } => mime_type.len() + base64.len(),
        };
        self.content.iter().map(part).sum()
    }

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
    /// The tool did not answer in time.
    #[error("the tool did not answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The source is disconnected or broken.
    #[error("the tool cannot be reached: {0}")]
    Unavailable(String),
    /// The source refused the call.
    #[error("the tool failed: {0}")]
    Failed(String),
}
