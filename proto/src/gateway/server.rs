//! Messages from the gateway to a text client. Each gets its timestamp when it is written.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::ids::SessionId;

/// What went wrong, as the document names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The message cannot be read, or a field of it is wrong.
    InvalidMessage,
    /// A type that nobody knows.
    UnknownMessageType,
    /// The language model failed.
    LlmError,
    /// No such session, or too many requests wait in it.
    SessionError,
    /// The language model did not answer in time.
    Timeout,
    /// Our own mistake.
    InternalError,
    /// The model asked for a tool that there is not.
    ToolNotFound,
    /// A tool failed.
    ToolExecutionFailed,
    /// The schema of a tool's parameters, or a call's arguments, are wrong.
    InvalidToolParameters,
    /// The client did not give a tool's result in time.
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

/// A change of the connection's or a request's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// The connection has this session now.
    Connected(SessionId),
    /// A request is worked on.
    Processing,
    /// This many calls of the client's tools follow, and are waited for.
    WaitingForTools(usize),
    /// A session has ended; the connection goes on with a new one.
    Idle {
        /// The new one.
        session_id: SessionId,
        /// The one that ended.
        ended_session_id: SessionId,
    },
}

/// What became of one tool that was to be registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Registration {
    /// Its name.
    pub name: String,
    /// `registered` or `failed`.
    pub status: &'static str,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
}

/// One call of a tool in a finished answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallShown {
    /// The tool, by the name that its source gives it.
    pub tool_name: String,
    /// What it was called with.
    pub arguments: Map<String, Value>,
    /// It brought a result.
    pub success: bool,
    /// How long it took, in milliseconds.
    pub duration_ms: f64,
    /// Where the tool lives: `client`, or a server's name.
    pub source: String,
    /// Why it brought none, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// Why it brought none, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One message to a text client.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerMessage {
    /// A change of state.
    Status(Status),
    /// A piece of an answer, for clients that stream.
    LlmDelta {
        /// Cleaned text; all pieces of a request together are its answer.
        content: String,
    },
    /// A whole answer: the end of its request.
    LlmResponse {
        /// Cleaned text.
        content: String,
        /// The calls that were made for it.
        tool_calls: Vec<CallShown>,
        /// The client ended it; the text is what there was until then.
        cancelled: bool,
    },
    /// A tool of the server was called.
    ToolCall {
        /// Its name.
        tool_name: String,
        /// What it was called with.
        arguments: Map<String, Value>,
        /// What it brought; always an object.
        result: Map<String, Value>,
        /// It did not fail.
        success: bool,
        /// How long it took, in milliseconds.
        duration_ms: f64,
    },
    /// Call this tool of yours.
    ToolCallback {
        /// The result carries it.
        call_id: String,
        /// The tool.
        tool_name: String,
        /// What to call it with; always an object.
        arguments: Map<String, Value>,
    },
    /// What became of the tools that were to be registered.
    ToolsRegistered {
        /// Each of them.
        tools: Vec<Registration>,
    },
    /// Something is wrong; the end of its request, where it concerns one.
    Error {
        /// What sort.
        code: ErrorCode,
        /// For people.
        message: String,
        /// More, for whoever looks for the cause.
        details: String,
    },
    /// A sign of life.
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
    /// An error without further details.
    pub fn error(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Error { code, message: message.into(), details: String::new() }
    }

    /// The message as JSON; `timestamp` is ISO 8601 with milliseconds and `Z`.
    pub fn encode(&self, timestamp: &str) -> String {
        match self {
            Self::Status(status) => written("status", status.fields(), timestamp),
            Self::LlmDelta { content } => {
                written("llm_delta", fields! { content: content }, timestamp)
            }
            Self::LlmResponse { content, tool_calls, cancelled } => {
                let mut body = fields! { content: content, tool_calls: tool_calls, is_final: true };
                if *cancelled {
                    body.insert("cancelled".into(), true.into());
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
