//! Messages from a text client to the gateway.

use serde_json::{Map, Value};

use super::{ErrorCode, MAX_SYSTEM_PROMPT_CHARS, MAX_TEXT_CHARS, MAX_TOKENS};
use crate::ids::SessionId;
use crate::json::{self, mismatch};

/// Maximum number of characters of an unknown `type` in an error message.
const MAX_KIND_CHARS: usize = 64;
/// Maximum length of a session's id, in bytes; Hearken's ids have 36.
const MAX_SESSION_ID_BYTES: usize = 64;

/// Message of a text client.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientMessage {
    /// Text to answer.
    TextInput {
        /// Text, never blank.
        text: String,
        /// Session to answer in. `None` means the connection's own.
        session_id: Option<SessionId>,
    },
    /// Sets preferences for later requests.
    Configure(Configure),
    /// Starts a session, or resumes one.
    StartSession {
        /// Session to resume.
        session_id: Option<SessionId>,
    },
    /// Ends the session.
    EndSession,
    /// Registers tools of the client.
    RegisterTools {
        /// Tools in order, each valid or refused with a reason.
        tools: Vec<Result<RegisteredTool, ToolRefusal>>,
    },
    /// Delivers the result of a client's tool.
    ToolResult(ToolResult),
    /// Asks for a `pong`.
    Ping,
    /// Cancels the running request. An addition of Hearken for clients that stream.
    Cancel,
}

/// Preferences of `configure`. Absent fields do not change.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Configure {
    /// Sampling temperature, 0.0 to 1.0.
    pub temperature: Option<f64>,
    /// Maximum length of an answer, in tokens.
    pub max_tokens: Option<u32>,
    /// True to include earlier messages in the prompt.
    pub enable_context: Option<bool>,
    /// True to stream answers, which may then be cancelled. An addition of Hearken.
    pub stream: Option<bool>,
    /// Instructions for the model in this session; empty for the deployment's. An addition of
    /// Hearken.
    pub system_prompt: Option<String>,
}

/// Tool of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct RegisteredTool {
    /// Valid name.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments: an object, not checked further.
    pub parameters: Value,
}

/// Refusal of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRefusal {
    /// Name of the tool, if it has one.
    pub name: String,
    /// Code of the mistake.
    pub code: ErrorCode,
    /// Mistake, as text for people.
    pub error: String,
}

/// Result of a client's tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// Id of the call, from the callback.
    pub call_id: String,
    /// Result, or the reason for its absence.
    pub outcome: Result<Value, String>,
}

/// Reason for which a message is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The text is not a JSON object, or a field is missing or wrong.
    #[error("{0}")]
    Invalid(String),
    /// The type is unknown.
    #[error("Unknown message type: {0}")]
    Unknown(String),
}

impl ReadError {
    /// Returns the code for the client.
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
    /// Parses a text message. `cancel` is known only to clients that stream.
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

/// Fields of one message. `null` counts as absent.
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

    /// Returns the session id. An empty one counts as absent: clients send it before they have one.
    fn session_id(&self) -> Result<Option<SessionId>, ReadError> {
        let id = self.text("session_id")?.filter(|id| !id.is_empty());
        if id.as_ref().is_some_and(|id| id.len() > MAX_SESSION_ID_BYTES) {
            return invalid(format!("`session_id` is longer than {MAX_SESSION_ID_BYTES} bytes"));
        }
        Ok(id.map(SessionId::new))
    }

    fn text_input(&self) -> Result<ClientMessage, ReadError> {
        let text = self.required_text("text")?;
        if text.trim().is_empty() {
            return invalid("Text cannot be empty");
        }
        if text.chars().count() > MAX_TEXT_CHARS {
            return invalid(format!("`text` must have at most {MAX_TEXT_CHARS} characters"));
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
        let system_prompt = self.text("system_prompt")?;
        let chars = system_prompt.as_ref().map_or(0, |text| text.chars().count());
        if chars > MAX_SYSTEM_PROMPT_CHARS {
            let most = MAX_SYSTEM_PROMPT_CHARS;
            return invalid(format!("`system_prompt` must have at most {most} characters"));
        }
        Ok(Configure {
            temperature,
            max_tokens,
            enable_context: self.flag("enable_context")?,
            stream: self.flag("stream")?,
            system_prompt,
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

/// Parses a whole number, also if written as `2048.0`, as some JSON writers do.
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
    fn mistakes_are_reported() {
        for (text, expected) in [
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
            assert_eq!(refused(text), expected, "{text}");
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
    fn a_result_or_a_reason_is_returned() {
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
    fn each_tool_is_checked_separately() {
        let text = r#"{"type": "register_tools", "tools": [
            {"name": "a.b", "description": "d", "parameters": {"type": "object"}},
            {"name": "a..b", "description": "d", "parameters": {"type": "object"}},
            {"name": "c", "parameters": {"type": "object"}},
            {"name": "d", "description": "d", "parameters": []}, {"name": "e", "description": ""}, 7]}"#;
        let Ok(ClientMessage::RegisterTools { tools }) = read(text) else { panic!("{text}") };
        let codes: Vec<_> = tools.iter().map(|t| t.as_ref().err().map(|e| e.code)).collect();
        let name = Some(ErrorCode::ToolRegistrationFailed);
        let schema = Some(ErrorCode::InvalidToolParameters);
        assert_eq!(codes, [None, name, name, schema, schema, name]);
    }

    #[test]
    fn instructions_have_at_most_8000_characters() {
        let of = |chars| format!(r#"{{"type": "configure", "system_prompt": "{chars}"}}"#);
        assert!(read(&of("好".repeat(8_000))).is_ok());
        let expected = "`system_prompt` must have at most 8000 characters";
        assert_eq!(refused(&of("x".repeat(8_001))), expected);
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in r#"(\{"type": ?"[a-z_]{0,14}"(, ?"[a-z_]{1,10}": ?[^,]{0,9}){0,3}\}|.{0,40})"#) {
            read(&text).ok();
        }
    }
}
