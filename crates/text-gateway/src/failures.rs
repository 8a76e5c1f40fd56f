//! Error messages for text clients about failed turns. Not for the log.

use hearken_dialogue::TurnError;
use hearken_ports::{ProviderErrorKind, ToolError};
use hearken_proto::text_gateway::{CallShown, ErrorCode, ServerMessage};

use super::text_output::code_of;

/// Returns the error message for a failed turn. If a tool failed and the model said nothing, the
/// tool's failure is reported.
pub(super) fn failure_message(error: &TurnError, calls: &[CallShown]) -> ServerMessage {
    let failure = calls.last().filter(|call| matches!(error, TurnError::NoWords) && !call.success);
    if let Some(call) = failure {
        return ServerMessage::Error {
            code: call.code.unwrap_or(ErrorCode::ToolExecutionFailed),
            message: format!("Tool `{}` failed", call.tool_name),
            details: call.error.clone().unwrap_or_default(),
        };
    }
    let (code, message) = match error {
        TurnError::Llm(e) if e.kind == ProviderErrorKind::Timeout => {
            (ErrorCode::Timeout, "The language model did not answer in time".to_owned())
        }
        TurnError::Tool { tool, error } => {
            let source = calls.iter().rfind(|c| c.tool_name == *tool).map(|c| c.source.as_str());
            let code = code_of(error, source.unwrap_or_default());
            (code, timed_out(tool, error, code))
        }
        TurnError::LimitReached(_) => (ErrorCode::LlmError, "Today's limit is reached".to_owned()),
        TurnError::Llm(_)
        | TurnError::NoWords
        | TurnError::TooManyRounds
        | TurnError::Recognition => (ErrorCode::LlmError, "Failed to process request".to_owned()),
    };
    // The log has more details. A client need not know the model's address.
    let details = match error {
        TurnError::Llm(e) => e.kind.to_string(),
        TurnError::Tool { error, .. } => error.to_string(),
        other => other.to_string(),
    };
    ServerMessage::Error { code, message, details }
}

fn timed_out(tool: &str, error: &ToolError, code: ErrorCode) -> String {
    match code {
        ErrorCode::ToolResultTimeout => format!("Tool execution timeout: `{tool}`"),
        _ => format!("Tool `{tool}` failed: {error}"),
    }
}
