//! Messages from a text client to the gateway.

use serde_json::{Map, Value};

use super::{ErrorCode, MAX_TOKENS};
use crate::ids::SessionId;
use crate::json::{self, mismatch};

/// Most characters of an unknown `type` that are told back.
const MAX_KIND_CHARS: usize = 64;

/// One message of a text client.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientMessage {
    /// Something to answer.
    TextInput {
        /// The words; never blank.
        text: String,
        /// The session to answer in; none is the connection's own.
        session_id: Option<SessionId>,
    },
    /// How later requests are answered.
    Configure(Configure),
    /// Begin a session, or go on with this one.
    StartSession {
        /// The session to go on with.
        session_id: Option<SessionId>,
    },
    /// The session is over.
    EndSession,
    /// Tools of the client.
    RegisterTools {
        /// Each tool, or why it is refused; in order.
        tools: Vec<Result<RegisteredTool, ToolRefusal>>,
    },
    /// What a tool of the client brought.
    ToolResult(ToolResult),
    /// A sign of life is wanted.
    Ping,
    /// End the running request; an addition of ours, for clients that stream.
    Cancel,
}

/// What `configure` changes; what is absent stays as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Configure {
    /// 0.0 to 1.0.
    pub temperature: Option<f64>,
    /// Longest answer, in tokens.
    pub max_tokens: Option<u32>,
    /// The model is told what was said before.
    pub enable_context: Option<bool>,
    /// Answers come in pieces too, and may be cancelled; an addition of ours.
    pub stream: Option<bool>,
    /// How the model is to behave in this session, empty for the deployment's words; an addition
    /// of ours.
    pub system_prompt: Option<String>,
}

/// A tool that a client has.
#[derive(Debug, Clone, PartialEq)]
pub struct RegisteredTool {
    /// A legal name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments; an object, not checked further.
    pub parameters: Value,
}

/// Why a tool is not registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRefusal {
    /// Its name, as far as it has one.
    pub name: String,
    /// What sort of mistake.
    pub code: ErrorCode,
    /// The mistake, for people.
    pub error: String,
}

/// What a client's tool brought.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// As in the callback.
    pub call_id: String,
    /// The result, or why there is none.
    pub outcome: Result<Value, String>,
}

/// Why a message is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No JSON object, or a field that is missing or wrong.
    #[error("{0}")]
    Invalid(String),
    /// A type that nobody knows.
    #[error("Unknown message type: {0}")]
    Unknown(String),
}

impl ReadError {
    /// The code that the client is told.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Invalid(_) => ErrorCode::InvalidMessage,
            Self::Unknown(_) => ErrorCode::UnknownMessageType,
        }
    }
}

fn invalid<T>(reason: impl Into<String>) -> Result<T, ReadError> {
    Err(ReadError::Invalid(reason.into()))
}

impl ClientMessage {
    /// Reads a text message. `cancel` is known only to clients that stream.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn decode(text: &str, streams: bool) -> Result<Self, ReadError> {
        let fields = json::object(text.trim().as_bytes());
        let fields = Fields(fields.map_err(|error| ReadError::Invalid(error.to_string()))?);
        match fields.required_text("type")?.as_str() {
            "text_input" => fields.text_input(),
            "configure" => fields.configure().map(Self::Configure),
            "start_session" => Ok(Self::StartSession { session_id: fields.session_id()? }),
            "end_session" => Ok(Self::EndSession),
            "register_tools" => fields.register_tools(),
            "tool_result" => fields.tool_result().map(Self::ToolResult),
            "ping" => Ok(Self::Ping),
            "cancel" if streams => Ok(Self::Cancel),
            other => Err(ReadError::Unknown(other.chars().take(MAX_KIND_CHARS).collect())),
        }
    }
}

/// The fields of one message; `null` counts as absent.
struct Fields(Map<String, Value>);

impl Fields {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<Option<String>, ReadError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => invalid(format!("`{name}` {}", mismatch("text", other))),
        }
    }

    fn required_text(&self, name: &str) -> Result<String, ReadError> {
        self.text(name)?.map_or_else(|| invalid(format!("`{name}` is required")), Ok)
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, ReadError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => invalid(format!("`{name}` {}", mismatch("true or false", other))),
        }
    }

    /// Empty counts as absent: clients send it before they have one.
    fn session_id(&self) -> Result<Option<SessionId>, ReadError> {
        Ok(self.text("session_id")?.filter(|id| !id.is_empty()).map(SessionId::new))
    }

    fn text_input(&self) -> Result<ClientMessage, ReadError> {
        let text = self.required_text("text")?;
        if text.trim().is_empty() {
            return invalid("Text cannot be empty");
        }
        Ok(ClientMessage::TextInput { text, session_id: self.session_id()? })
    }

    fn configure(&self) -> Result<Configure, ReadError> {
        let temperature = match self.get("temperature").map(Value::as_f64) {
            None => None,
            Some(Some(t)) if (0.0..=1.0).contains(&t) => Some(t),
            Some(_) => return invalid("`temperature` must be a number from 0.0 to 1.0"),
        };
        let max_tokens = match self.get("max_tokens").map(whole_number) {
            None => None,
            Some(Some(n)) if (1..=MAX_TOKENS).contains(&n) => Some(n),
            Some(_) => {
                let reason = format!("`max_tokens` must be a whole number from 1 to {MAX_TOKENS}");
                return invalid(reason);
            }
        };
        Ok(Configure {
            temperature,
            max_tokens,
            enable_context: self.flag("enable_context")?,
            stream: self.flag("stream")?,
            system_prompt: self.text("system_prompt")?,
        })
    }

    fn register_tools(&self) -> Result<ClientMessage, ReadError> {
        match self.get("tools") {
            Some(Value::Array(tools)) => {
                Ok(ClientMessage::RegisterTools { tools: tools.iter().map(tool).collect() })
            }
            Some(other) => invalid(format!("`tools` {}", mismatch("an array", other))),
            None => invalid("`tools` is required"),
        }
    }

    fn tool_result(&self) -> Result<ToolResult, ReadError> {
        let call_id = self.required_text("call_id")?;
        let Some(success) = self.flag("success")? else {
            return invalid("`success` is required");
        };
        let outcome = if success {
            Ok(self.0.get("result").cloned().unwrap_or_default())
        } else {
            Err(match self.get("error") {
                Some(Value::String(error)) => error.clone(),
                Some(error) => error.to_string(),
                None => String::new(),
            })
        };
        Ok(ToolResult { call_id, outcome })
    }
}

/// Also written as `2048.0`, as some JSON writers do.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked just before")]
fn whole_number(value: &Value) -> Option<u32> {
    let number = value.as_f64()?;
    let whole = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
    whole.then_some(number as u32)
}

fn tool(value: &Value) -> Result<RegisteredTool, ToolRefusal> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let name = text("name").unwrap_or_default();
    let refusal = |code, error: &str| ToolRefusal {
        name: name.chars().take(2 * super::MAX_TOOL_NAME_CHARS).collect(),
        code,
        error: error.to_owned(),
    };
    if !super::is_tool_name(&name) {
        return Err(refusal(
            ErrorCode::ToolRegistrationFailed,
            "Invalid tool name: a letter or underscore, then letters, digits, underscores and \
             single dots, 64 characters at most",
        ));
    }
    let Some(description) = text("description") else {
        return Err(refusal(ErrorCode::ToolRegistrationFailed, "`description` is required"));
    };
    match value.get("parameters").filter(|parameters| !parameters.is_null()) {
        Some(parameters @ Value::Object(_)) => {
            Ok(RegisteredTool { name, description, parameters: parameters.clone() })
        }
        Some(_) => Err(refusal(
            ErrorCode::InvalidToolParameters,
            "`parameters` must be a JSON Schema of type object",
        )),
        None => Err(refusal(ErrorCode::InvalidToolParameters, "`parameters` is required")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<ClientMessage, ReadError> {
        ClientMessage::decode(text, true)
    }

    fn refused(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, told) in [
            ("[]", "the message must be a JSON object, not an array"),
            (r#"{"text": "hi"}"#, "`type` is required"),
            (r#"{"type": 1}"#, "`type` must be text, not a number"),
            (r#"{"type": "sing"}"#, "Unknown message type: sing"),
            (r#"{"type": "text_input"}"#, "`text` is required"),
            (r#"{"type": "text_input", "text": " \n"}"#, "Text cannot be empty"),
            (r#"{"type": "text_input", "text": 5}"#, "`text` must be text, not a number"),
            (
                r#"{"type": "text_input", "text": "hi", "session_id": 5}"#,
                "`session_id` must be text, not a number",
            ),
            (
                r#"{"type": "configure", "temperature": 1.1}"#,
                "`temperature` must be a number from 0.0 to 1.0",
            ),
            (
                r#"{"type": "configure", "max_tokens": 0}"#,
                "`max_tokens` must be a whole number from 1 to 2048",
            ),
            (
                r#"{"type": "configure", "max_tokens": 2.5}"#,
                "`max_tokens` must be a whole number from 1 to 2048",
            ),
            (
                r#"{"type": "configure", "enable_context": 1}"#,
                "`enable_context` must be true or false, not a number",
            ),
            (r#"{"type": "register_tools"}"#, "`tools` is required"),
            (
                r#"{"type": "register_tools", "tools": {}}"#,
                "`tools` must be an array, not an object",
            ),
            (r#"{"type": "tool_result", "success": true}"#, "`call_id` is required"),
            (r#"{"type": "tool_result", "call_id": "x"}"#, "`success` is required"),
        ] {
            assert_eq!(refused(text), told, "{text}");
        }
        assert!(refused("{").starts_with("the message is not JSON: "));
        let cancel = ClientMessage::decode(r#"{"type": "cancel"}"#, false).unwrap_err();
        assert_eq!(cancel.code(), ErrorCode::UnknownMessageType);
    }

    #[test]
    fn null_and_empty_ids_count_as_absent() {
        let own = ClientMessage::TextInput { text: "hi".into(), session_id: None };
        for id in ["null", r#""""#] {
            let text = format!(r#"{{"type": "text_input", "text": "hi", "session_id": {id}}}"#);
            assert_eq!(read(&text), Ok(own.clone()));
        }
    }

    #[test]
    fn a_result_or_a_reason_comes_back() {
        let text = |rest: &str| format!(r#"{{"type": "tool_result", "call_id": "c", {rest}}}"#);
        for (rest, outcome) in [
            (r#""success": true, "result": {"level": 85}"#, Ok(serde_json::json!({"level": 85}))),
            (r#""success": true"#, Ok(Value::Null)),
            (r#""success": false, "error": "away", "result": null"#, Err("away".to_owned())),
            (r#""success": false, "error": null"#, Err(String::new())),
        ] {
            let result = ToolResult { call_id: "c".into(), outcome };
            assert_eq!(read(&text(rest)), Ok(ClientMessage::ToolResult(result)));
        }
    }

    #[test]
    fn each_tool_is_judged_by_itself() {
        let text = r#"{"type": "register_tools", "tools": [
            {"name": "a.b", "description": "d", "parameters": {"type": "object"}},
            {"name": "a..b", "description": "d", "parameters": {"type": "object"}},
            {"name": "c", "parameters": {"type": "object"}},
            {"name": "d", "description": "d", "parameters": []}, {"name": "e", "description": ""}, 7]}"#;
        let Ok(ClientMessage::RegisterTools { tools }) = read(text) else { panic!("{text}") };
        let codes: Vec<_> = tools.iter().map(|t| t.as_ref().err().map(|e| e.code)).collect();
        let (name, schema) =
            (Some(ErrorCode::ToolRegistrationFailed), Some(ErrorCode::InvalidToolParameters));
        assert_eq!(codes, [None, name, name, schema, schema, name]);
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in r#"(\{"type": ?"[a-z_]{0,14}"(, ?"[a-z_]{1,10}": ?[^,]{0,9}){0,3}\}|.{0,40})"#) {
            read(&text).ok();
        }
    }
}
