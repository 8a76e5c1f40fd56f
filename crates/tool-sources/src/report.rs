//! Reports on sources and their tools, as the API shows them. Not for what a source does.

use hearken_ports::{Tool, source_names};
use serde::Serialize;

use super::pins;

/// State of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "reason", rename_all = "lowercase")]
pub enum SourceState {
    /// The connection is being opened.
    Connecting,
    /// Its tools are known and can be called.
    Ready,
    /// The connection failed, for this reason, and is retried; or the server cannot run here.
    Failed(String),
    /// It is disabled.
    Disabled,
}

/// Origin of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Defined in the configuration.
    Configuration,
    /// Added over the API.
    Api,
    /// Connected by itself to the endpoint.
    Endpoint,
    /// Part of this server.
    Builtin,
}

/// Connection type of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// The server connects to it over HTTP.
    Http,
    /// The server connects to it over WebSocket.
    WebSocket,
    /// The server runs it as a child process.
    Stdio,
    /// It connected to the endpoint.
    Endpoint,
    /// It is this server itself.
    Builtin,
}

impl SourceKind {
    /// Returns the label for metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::WebSocket => "websocket",
            Self::Stdio => "stdio",
            Self::Endpoint => "endpoint",
            Self::Builtin => "builtin",
        }
    }
}

impl SourceReport {
    /// Returns the group of the source, if it gives itself its name.
    pub fn group(&self) -> Option<&'static str> {
        (self.kind == SourceKind::Endpoint).then_some(source_names::ENDPOINT)
    }

    /// Returns the number of its tools that may be offered.
    pub(super) fn offerable(&self) -> usize {
        match self.state {
            SourceState::Disabled => 0,
            SourceState::Connecting | SourceState::Ready | SourceState::Failed(_) => {
                self.tools.len()
            }
        }
    }
}

/// Report on a source.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SourceReport {
    /// Name of the source.
    pub name: String,
    /// Name of a tool client that it cannot choose: `token:` and the serial of its token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Connection type.
    pub kind: SourceKind,
    /// Origin of the source.
    pub origin: Origin,
    /// Ids of the devices that may use it; empty for all devices.
    pub devices: Vec<String>,
    /// State, and its reason.
    #[serde(flatten)]
    pub state: SourceState,
    /// Version of MCP or LiteMCP; empty while it is not connected.
    pub protocol: String,
    /// Number of connections so far.
    pub connections: u64,
    /// Calls and their bytes since the start; `None` if they are not counted by source.
    pub usage: Option<SourceUsage>,
    /// Reason that only a part of its tools is offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Tools of the last successful listing.
    pub tools: Vec<ToolReport>,
}

/// Calls of a source, with their sizes and total duration, since the source became known to this
/// instance.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct SourceUsage {
    /// Number of calls that have ended or were cancelled.
    pub calls: u64,
    /// Bytes of tool names and arguments.
    pub bytes_sent: u64,
    /// Bytes of results.
    pub bytes_received: u64,
    /// Time of all calls together, in seconds.
    pub seconds: f64,
}

/// Report on a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolReport {
    /// Name of the tool at the source.
    pub name: String,
    /// Description of the tool.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: serde_json::Value,
    /// True if its source says that a call may delete or overwrite something.
    pub destructive: bool,
    /// True if its definition differs from the one that was seen first or accepted last.
    pub changed: bool,
    /// Hash of its definition, in hexadecimal.
    pub definition_hash: String,
}

impl ToolReport {
    pub(super) fn from_tool(tool: &Tool, changed: bool) -> Self {
        Self {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
            destructive: tool.destructive,
            changed,
            definition_hash: pins::hash(tool),
        }
    }
}
