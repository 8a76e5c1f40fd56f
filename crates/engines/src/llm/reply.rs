//! Responses in OpenAI's JSON: whole answers, chunks of a streamed answer, errors. Pure.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::answer::Part;
use super::engine::Refused;
use super::generation::{Finish, FinishReason, LlmError};
use super::request::BadRequest;

/// Fields that are constant within one answer.
#[derive(Debug, Clone)]
pub struct Envelope {
    id: String,
    created: u64,
    model: String,
    include_usage: bool,
    calls: usize,
}

impl Envelope {
    /// Creates the envelope of one answer of this model, created at this time (seconds since 1970).
    pub fn new(model: &str, created: u64, include_usage: bool) -> Self {
        let id = format!("chatcmpl-{}", uuid::Uuid::new_v4().simple());
        Self { id, created, model: model.to_owned(), include_usage, calls: 0 }
    }

    /// Renders the chunk that opens a streamed answer.
    pub fn opening(&self) -> Bytes {
        self.chunk(&json!({ "role": "assistant", "content": "" }), None)
    }

    /// Renders one part of a streamed answer.
    pub fn part(&mut self, part: &Part) -> Bytes {
        match part {
            Part::Text(text) => self.chunk(&json!({ "content": text }), None),
            Part::Call(call) => {
                let index = self.calls;
                self.calls += 1;
                let function = json!({ "name": call.name, "arguments": call.arguments });
                let call = json!({ "index": index, "id": call_id(), "type": "function", "function": function });
                self.chunk(&json!({ "tool_calls": [call] }), None)
            }
        }
    }

    /// Renders the end of a streamed answer: the reason, the token counts if requested, the final
    /// mark.
    pub fn ending(&self, finish: &Finish) -> Bytes {
        let reason = finish_reason(finish, self.calls > 0);
        let mut out = self.chunk(&json!({}), Some(reason)).to_vec();
        if self.include_usage {
            let mut chunk = self.frame("chat.completion.chunk");
            chunk["choices"] = json!([]);
            chunk["usage"] = usage(finish);
            out.extend(event(&chunk));
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
        out.into()
    }

    /// Renders a whole answer.
    pub fn whole(&self, parts: &[Part], finish: &Finish) -> Value {
        let mut text = String::new();
        let mut calls = Vec::new();
        for part in parts {
            match part {
                Part::Text(more) => text.push_str(more),
                Part::Call(call) => calls.push(json!({
                    "id": call_id(),
                    "type": "function",
                    "function": { "name": call.name, "arguments": call.arguments },
                })),
            }
        }
        let reason = finish_reason(finish, !calls.is_empty());
        let mut message = json!({ "role": "assistant", "content": text });
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
            if text.is_empty() {
                message["content"] = Value::Null;
            }
        }
        let mut whole = self.frame("chat.completion");
        whole["choices"] =
            json!([{ "index": 0, "message": message, "logprobs": null, "finish_reason": reason }]);
        whole["usage"] = usage(finish);
        whole
    }

    fn frame(&self, object: &str) -> Value {
        json!({ "id": self.id, "object": object, "created": self.created, "model": self.model })
    }

    fn chunk(&self, delta: &Value, reason: Option<&str>) -> Bytes {
        let mut chunk = self.frame("chat.completion.chunk");
        chunk["choices"] =
            json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": reason }]);
        event(&chunk)
    }
}

/// Renders one server-sent event.
fn event(value: &Value) -> Bytes {
    format!("data: {value}\n\n").into()
}

fn call_id() -> String {
    format!("call_{}", uuid::Uuid::new_v4().simple())
}

fn finish_reason(finish: &Finish, called: bool) -> &'static str {
    match finish.reason {
        _ if called => "tool_calls",
        FinishReason::Length => "length",
        FinishReason::Stop | FinishReason::Cut => "stop",
    }
}

fn usage(finish: &Finish) -> Value {
    json!({
        "prompt_tokens": finish.prompt_tokens,
        "completion_tokens": finish.completion_tokens,
        "total_tokens": finish.prompt_tokens + finish.completion_tokens,
        "prompt_tokens_details": { "cached_tokens": finish.cached_tokens },
    })
}

/// Error in OpenAI's format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// HTTP status.
    pub status: u16,
    /// Time after which to retry, for the `Retry-After` header.
    pub retry_after: Option<Duration>,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<String>,
    message: String,
}

impl Failure {
    fn new(status: u16, kind: &'static str, message: impl ToString) -> Self {
        let message = message.to_string();
        Self { status, retry_after: None, kind, code: None, param: None, message }
    }

    /// Creates the error for an unknown resource.
    pub fn not_found(message: &str) -> Self {
        Self { code: Some("not_found"), ..Self::new(404, "invalid_request_error", message) }
    }

    /// Creates the error for a path that exists, but not with this method.
    pub fn wrong_method(message: &str) -> Self {
        Self::new(405, "invalid_request_error", message)
    }

    /// Creates the error for a body that is longer than allowed.
    pub fn too_large(limit_bytes: usize) -> Self {
        let message = format!("the body is longer than {limit_bytes} bytes");
        Self::new(413, "invalid_request_error", message)
    }

    /// Creates the error for a body that could not be received.
    pub fn unreadable(cause: impl std::fmt::Display) -> Self {
        Self::new(400, "invalid_request_error", format!("cannot read the body: {cause}"))
    }

    /// Creates the error for an engine that ended before its answer.
    pub fn gone() -> Self {
        Refused::Gone.into()
    }

    /// Renders the body of the response.
    pub fn json(&self) -> Value {
        json!({ "error": {
            "message": self.message, "type": self.kind, "param": self.param, "code": self.code,
        } })
    }

    /// Renders the error as an event of a stream that has already started.
    pub fn event(&self) -> Bytes {
        event(&self.json())
    }
}

impl From<BadRequest> for Failure {
    fn from(bad: BadRequest) -> Self {
        Self { param: bad.param, ..Self::new(400, "invalid_request_error", bad.message) }
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        let after = |status, kind, code, wait| Self {
            retry_after: Some(wait),
            code: Some(code),
            ..Self::new(status, kind, &refused)
        };
        match refused {
            Refused::Full { retry_after, .. } => {
                after(429, "rate_limit_error", "rate_limit_exceeded", retry_after)
            }
            Refused::Gone => {
                after(503, "server_error", "model_not_running", Duration::from_secs(1))
            }
        }
    }
}

impl From<LlmError> for Failure {
    fn from(error: LlmError) -> Self {
        match error {
            LlmError::TooLong { .. } => Self {
                code: Some("context_length_exceeded"),
                param: Some("messages".into()),
                ..Self::new(400, "invalid_request_error", error)
            },
            LlmError::Load(_) | LlmError::Engine(_) => Self::new(500, "server_error", error),
        }
    }
}
