//! Messages from the gateway to a text client. Each gets its timestamp when it is encoded.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::ids::SessionId;

/// Error codes of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The message is unreadable, or a field is wrong.
    InvalidMessage,
    /// The type is unknown.
    UnknownMessageType,
    /// The language model failed.
    LlmError,
    /// There is no such session, or too many of its requests are waiting.
    SessionError,
    /// The language model did not answer in time.
    Timeout,
    /// Internal error of the server.
    InternalError,
    /// The model called a tool that does not exist.
    ToolNotFound,
    /// A tool failed.
    ToolExecutionFailed,
    /// The schema of a tool's parameters or the arguments of a call are invalid.
    InvalidToolParameters,
    /// The client did not return a tool's result in time.
    ToolResultTimeout,
    /// A tool was not registered.
    ToolRegistrationFailed,
}

impl ErrorCode {
    /// All codes, in the order of the document.
    pub const ALL: [Self; 11] = [
        Self::InvalidMessage,
        Self::UnknownMessageType,
        Self::LlmError,
        Self::SessionError,
        Self::Timeout,
        Self::InternalError,
        Self::ToolNotFound,
        Self::ToolExecutionFailed,
        Self::InvalidToolParameters,
        Self::ToolResultTimeout,
        Self::ToolRegistrationFailed,
    ];
}

/// Change of the state of the connection or of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// The connection uses this session from this message on.
    Connected(SessionId),
    /// A request is being processed.
    Processing,
    /// This number of calls of client tools follows, and the server waits for their results.
    WaitingForTools(usize),
    /// A session has ended. The connection continues with a new one.
    Idle {
        /// New session.
        session_id: SessionId,
        /// Session that ended.
        ended_session_id: SessionId,
    },
}

/// Result of the registration of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Registration {
    /// Name of the tool.
    pub name: String,
    /// `registered` or `failed`.
    pub status: &'static str,
    /// Reason for a failure, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Reason for a failure, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
}

/// Tool call in a finished answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallShown {
    /// Name of the tool at its source.
    pub tool_name: String,
    /// Arguments of the call.
    pub arguments: Map<String, Value>,
    /// True if there is a result.
    pub success: bool,
    /// Duration in milliseconds.
    pub duration_ms: f64,
    /// Source of the tool: `client`, or a server's name.
    pub source: String,
    /// Reason for a failure, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// Reason for a failure, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Message to a text client.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerMessage {
    /// Change of state.
    Status(Status),
    /// Piece of an answer, for clients that stream.
    LlmDelta {
        /// Cleaned text. The joined pieces of a request are its answer.
        content: String,
    },
    /// Complete answer, which ends its request.
    LlmResponse {
        /// Cleaned text.
        content: String,
        /// Calls made for the answer.
        tool_calls: Vec<CallShown>,
        /// True if the client cancelled the request. The text is incomplete then.
        cancelled: bool,
        /// True if the session could not be stored: a restart of the server loses the turn.
        unstored: bool,
    },
    /// Report of a call of a server's tool.
    ToolCall {
        /// Name of the tool.
        tool_name: String,
        /// Arguments of the call.
        arguments: Map<String, Value>,
        /// Result; always an object.
        result: Map<String, Value>,
        /// True if the call did not fail.
        success: bool,
        /// Duration in milliseconds.
        duration_ms: f64,
    },
    /// Call of a client's tool.
    ToolCallback {
        /// Id of the call. The result must contain it.
        call_id: String,
        /// Name of the tool.
        tool_name: String,
        /// Arguments; always an object.
        arguments: Map<String, Value>,
    },
    /// Results of a registration of tools.
    ToolsRegistered {
        /// Result for each tool.
        tools: Vec<Registration>,
    },
    /// Error. If it concerns a request, it ends that request.
    Error {
        /// Error code.
        code: ErrorCode,
        /// Text for people.
        message: String,
        /// Details for finding the cause.
        details: String,
    },
    /// Answers `ping`.
    Pong,
}

#[derive(Serialize)]
struct Written<'a, B> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    body: B,
    timestamp: &'a str,
}

fn written(kind: &'static str, body: impl Serialize, timestamp: &str) -> String {
    let message = Written { kind, body, timestamp };
    serde_json::to_string(&message).expect("plain maps and strings are JSON")
}

macro_rules! fields {
    ($($name:ident : $value:expr),* $(,)?) => {{
        let mut fields = Map::new();
        $(fields.insert(
            stringify!($name).to_owned(),
            serde_json::to_value($value).expect("plain maps and strings are JSON"),
        );)*
        fields
    }};
}

impl ServerMessage {
    /// Creates an error without details.
    pub fn error(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Error { code, message: message.into(), details: String::new() }
    }

    /// Returns the message as JSON. `timestamp` is ISO 8601 with milliseconds and `Z`.
    pub fn encode(&self, timestamp: &str) -> String {
        match self {
            Self::Status(status) => written("status", status.fields(), timestamp),
            Self::LlmDelta { content } => {
                written("llm_delta", fields! { content: content }, timestamp)
            }
            Self::LlmResponse { content, tool_calls, cancelled, unstored } => {
                let mut body = fields! { content: content, tool_calls: tool_calls, is_final: true };
                if *cancelled {
                    body.insert("cancelled".into(), true.into());
                }
                if *unstored {
                    body.insert("stored".into(), false.into());
                }
                written("llm_response", body, timestamp)
            }
            Self::ToolCall { tool_name, arguments, result, success, duration_ms } => {
                let body = fields! {
                    tool_name: tool_name, arguments: arguments, result: result,
                    success: success, duration_ms: duration_ms,
                };
                written("tool_call", body, timestamp)
            }
            Self::ToolCallback { call_id, tool_name, arguments } => {
                let body = fields! { call_id: call_id, tool_name: tool_name, arguments: arguments };
                written("tool_callback", body, timestamp)
            }
            Self::ToolsRegistered { tools } => {
                let count = tools.iter().filter(|t| t.error.is_none()).count();
                written("tools_registered", fields! { count: count, tools: tools }, timestamp)
            }
            Self::Error { code, message, details } => {
                let body = fields! { code: code, message: message, details: details };
                written("error", body, timestamp)
            }
            Self::Pong => written("pong", Map::new(), timestamp),
        }
    }
}

impl Status {
    fn fields(&self) -> Map<String, Value> {
        let (status, data) = match self {
            Self::Connected(id) => ("connected", fields! { session_id: id }),
            Self::Processing => ("processing", fields! { message: "正在处理您的请求..." }),
            Self::WaitingForTools(count) => ("waiting_for_tools", fields! { pending_tools: count }),
            Self::Idle { session_id, ended_session_id } => {
                ("idle", fields! { session_id: session_id, ended_session_id: ended_session_id })
            }
        };
        fields! { status: status, data: data }
    }
}
