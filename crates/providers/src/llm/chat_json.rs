//! JSON of OpenAI's chat API: the request, and the pieces of an answer, read leniently since
//! compatible servers differ. Not for HTTP.

use std::collections::VecDeque;
use std::sync::Arc;

use async_openai::types::chat::{
    ChatCompletionMessageToolCall, ChatCompletionMessageToolCalls,
    ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage,
    ChatCompletionRequestSystemMessage, ChatCompletionRequestToolMessage,
    ChatCompletionRequestUserMessage, ChatCompletionTool, ChatCompletionToolChoiceOption,
    ChatCompletionTools, CreateChatCompletionRequest, FunctionCall, FunctionObject,
    ToolChoiceOptions,
};
use hearken_outbound::http as web;
use hearken_ports::tool_limits::sent_description;
use hearken_ports::{
    ChatMessage, LlmDelta, OfferedTool, Prompt, ProviderError, ProviderErrorKind, Role, ToolChoice,
    ToolRequest, Usage,
};
use hearken_proto::json::{is_nothing, weighed};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::answering::{AnswerParser, Progress};
use super::base::violated;
use super::call_assembler::{CallAssembler, Fragment};
use super::call_ids::CallIds;
use super::event_json::EventJson;
use super::fields::{REASONING, REASONING_DETAILS};
use super::finish_reason::Ending;
use super::message_fields::MessageFields;
use super::offered::offered;
use super::tool_schema::normal_form;

/// Provider name in errors.
pub(super) const PROVIDER: &str = "openai-llm";

/// Maximum size of the arguments of all calls of one answer, in bytes.
pub(super) const MAX_ARGUMENTS_BYTES: usize = 256 << 10;

/// Field of a call that the model requires in the next request: Gemini's signature is in it.
const CALL_FIELD: &str = "extra_content";

/// Words of the assistant between a result and the user's next words, if a turn was cut there.
/// Mistral refuses the user's words after a result, and some servers refuse empty words.
const ACKNOWLEDGED: &str = "OK.";

/// Builds the JSON of the request: async-openai's types, with corrections for compatible servers.
/// `identity` is that of the model, and `model` its name.
pub(super) fn order(identity: &str, model: &str, max_tokens: u32, prompt: &Prompt) -> Value {
    let (tools, choice) = offered(prompt);
    let mode = match choice {
        ToolChoice::None => ToolChoiceOptions::None,
        ToolChoice::Auto => ToolChoiceOptions::Auto,
    };
    let any = !tools.is_empty();
    // Only the types of async-openai are used: its client fails if compatible servers differ. Decision 0006.
    let mut order = json!(CreateChatCompletionRequest {
        model: model.to_owned(),
        stream: Some(true),
        tools: any.then(|| tools.iter().map(tool).collect()),
        tool_choice: any.then_some(ChatCompletionToolChoiceOption::Mode(mode)),
        ..CreateChatCompletionRequest::default()
    });
    // In these types the first is deprecated, and the second is a 32-bit float.
    order["max_tokens"] = max_tokens.into();
    order["temperature"] = json!(prompt.temperature);
    order["messages"] = messages(identity, &prompt.messages).into();
    order
}

fn messages(identity: &str, all: &[ChatMessage]) -> Vec<Value> {
    let mut ids = CallIds::default();
    let mut sent: Vec<Value> = Vec::with_capacity(all.len());
    for (place, message) in all.iter().enumerate() {
        let before = place.checked_sub(1).map(|before| all[before].role);
        if message.role == Role::User && before == Some(Role::Tool) {
            sent.push(json!({ "role": "assistant", "content": ACKNOWLEDGED }));
        }
        let mut written = json!(self::message(identity, message, &mut ids));
        // Some servers require the field in messages with calls, too.
        if written.get("content").is_none() {
            written["content"] = Value::Null;
        }
        add_returned(identity, message, &mut written);
        sent.push(written);
    }
    sent
}

/// Adds the fields that this model sent with the calls of a message.
fn add_returned(identity: &str, message: &ChatMessage, written: &mut Value) {
    let own = || message.calls.iter().map(|call| call.vendor.of_model(identity));
    let calls = written.get_mut("tool_calls").and_then(Value::as_array_mut);
    for (call, own) in calls.into_iter().flatten().zip(own()) {
        if let (Some(call), Some(own)) = (call.as_object_mut(), own) {
            call.extend(own.call.clone());
        }
    }
    let fields = own().flatten().map(|own| &own.message).find(|fields| !fields.is_empty());
    if let (Some(written), Some(fields)) = (written.as_object_mut(), fields) {
        written.extend((**fields).clone());
    }
}

fn tool(tool: &OfferedTool) -> ChatCompletionTools {
    let function = FunctionObject {
        name: tool.name.clone(),
        description: Some(sent_description(&tool.description)),
        parameters: Some(normal_form(&tool.parameters)),
        strict: None,
    };
    ChatCompletionTools::Function(ChatCompletionTool { function })
}

fn message(
    identity: &str,
    message: &ChatMessage,
    ids: &mut CallIds,
) -> ChatCompletionRequestMessage {
    let content = message.content.clone();
    match message.role {
        Role::System => ChatCompletionRequestSystemMessage::from(content).into(),
        Role::User => ChatCompletionRequestUserMessage::from(content).into(),
        Role::Assistant if message.calls.is_empty() => {
            ChatCompletionRequestAssistantMessage::from(content).into()
        }
        Role::Assistant => ChatCompletionRequestAssistantMessage {
            content: (!content.is_empty()).then(|| content.into()),
            tool_calls: Some(
                message
                    .calls
                    .iter()
                    .map(|call| past_call(ids.of_call(call, call.vendor.of_model(identity)), call))
                    .collect(),
            ),
            ..ChatCompletionRequestAssistantMessage::default()
        }
        .into(),
        Role::Tool => ChatCompletionRequestToolMessage {
            content: content.into(),
            tool_call_id: ids.of_result(&message.answers),
        }
        .into(),
    }
}

/// Requests the token usage at the end of the answer.
pub(super) fn with_usage(mut order: Value) -> Value {
    order["stream_options"] = json!({ "include_usage": true });
    order
}

/// Converts an earlier call of the model. Some servers refuse arguments that are not a JSON object,
/// even if the model itself wrote them.
fn past_call(id: String, call: &ToolRequest) -> ChatCompletionMessageToolCalls {
    let well_written = weighed::<Map<String, Value>>(&call.arguments).is_ok();
    let arguments = if well_written { call.arguments.clone() } else { "{}".to_owned() };
    let function = FunctionCall { name: call.name.clone(), arguments };
    ChatCompletionMessageToolCall { id, function }.into()
}

/// Pieces of an answer so far.
#[derive(Default)]
pub(super) struct AnswerAssembler {
    json: EventJson,
    calls: CallAssembler,
    /// Fields that the model requires in the next request, if it makes calls.
    returned: MessageFields,
    calling: bool,
    ready: VecDeque<LlmDelta>,
    /// True after the first piece of the answer.
    begun: bool,
    /// Text so far, if it came in messages and not in deltas.
    message: Option<String>,
    /// Present once the finish reason was sent, until more content arrives.
    finish: Option<Finish>,
    /// True after the end marker of the stream.
    done: bool,
    thinks_apart: bool,
    /// Token usage, as last sent. Some servers send it repeatedly.
    usage: Option<Usage>,
}

/// End of an answer, as the server reported it.
#[derive(Debug)]
struct Finish {
    ending: Ending,
    /// True if the same piece has content: some servers send a finish reason with each.
    with_content: bool,
}

impl AnswerParser for AnswerAssembler {
    fn of(identity: &Arc<str>, prompt: &Prompt) -> Self {
        Self { calls: CallAssembler::of(identity, &prompt.tools), ..Self::default() }
    }

    fn read(&mut self, event: &str) -> Result<(), ProviderError> {
        if is_end(event) {
            self.done = true;
            return self.unreadable().map_or(Ok(()), Err);
        }
        let Some(chunk) = self.json.read(event) else { return Ok(()) };
        match error_of(&chunk) {
            Some(error) => Err(provider_error(error)),
            None => {
                self.chunk(&chunk);
                if self.calls.arguments_bytes() > MAX_ARGUMENTS_BYTES {
                    return Err(violated(PROVIDER, "the arguments of the calls are too long"));
                }
                Ok(())
            }
        }
    }

    fn unreadable(&self) -> Option<ProviderError> {
        self.json.unreadable(PROVIDER)
    }

    fn progress(&self) -> Progress {
        match (&self.finish, self.usage) {
            _ if self.done => Progress::Over,
            (Some(Finish { with_content: true, .. }), _) => Progress::MayGoOn,
            (Some(_), Some(_)) => Progress::Over,
            (Some(_), None) => Progress::Complete,
            (None, _) => Progress::Going,
        }
    }

    fn close(&mut self) {
        if !self.calls.is_empty() {
            let message = self.returned.take();
            self.ready.extend(self.calls.take(&message).into_iter().map(LlmDelta::Call));
        }
    }

    fn ready(&mut self) -> &mut VecDeque<LlmDelta> {
        &mut self.ready
    }

    fn thinks_apart(&self) -> bool {
        self.thinks_apart
    }

    fn ending(&self) -> (Ending, Option<Usage>) {
        let finish = self.finish.as_ref();
        (finish.map_or(Ending::Complete, |finish| finish.ending.clone()), self.usage)
    }

    fn lacks_reason(&self) -> bool {
        self.finish.is_none()
    }
}

impl AnswerAssembler {
    /// Reads one chunk. Servers omit and add fields, and change their types: unknown content is
    /// ignored.
    fn chunk(&mut self, chunk: &Value) {
        self.usage = usage(&chunk["usage"]).or(self.usage);
        for choice in several(&chunk["choices"]) {
            // Some servers send the usage within the choice.
            self.usage = self.usage.or(usage(&choice["usage"]));
            // Only one choice was requested.
            if whole(&choice["index"]).is_none_or(|index| index == 0) {
                self.choice(choice);
            }
        }
    }

    fn choice(&mut self, choice: &Value) {
        let delta = &choice["delta"];
        let has_delta = delta.as_object().map_or(!delta.is_null(), |delta| !delta.is_empty());
        // Some servers repeat the whole message at the end, others send nothing else.
        let in_message =
            !has_delta && !choice["message"].is_null() && (!self.begun || self.message.is_some());
        let delta = match delta {
            _ if in_message => &choice["message"],
            Value::Null => &choice["text"],
            delta => delta,
        };
        let text = if delta.is_string() { words(delta) } else { words(&delta["content"]) };
        let mut text = text + &words(&delta["refusal"]);
        if in_message {
            text = self.new_words(&text);
        }
        let mut has_content = !text.is_empty();
        if has_content {
            self.begun = true;
            self.ready.push_back(LlmDelta::Text(text));
        }
        let thought = |key: &str| !words(&delta[key]).is_empty();
        self.thinks_apart |= thought(REASONING) || thought("reasoning");
        let reasoning = words(&delta[REASONING]);
        // A message may repeat all of it so far.
        let known = self.returned.text(REASONING).filter(|_| in_message).unwrap_or_default();
        let more = reasoning.strip_prefix(known).unwrap_or(&reasoning).to_owned();
        self.returned.add_text(REASONING, &more);
        self.returned.add_details(REASONING_DETAILS, several(&delta[REASONING_DETAILS]));
        for fragment in several(&delta["tool_calls"]).iter().filter(|call| call.is_object()) {
            self.begun = true;
            has_content = true;
            self.call(fragment, &fragment["function"]);
        }
        if delta["function_call"].is_object() {
            has_content = true;
            self.call(&Value::Null, &delta["function_call"]);
        }
        if has_content {
            self.finish = None;
        }
        if let Some(ending) = Ending::of(&choice["finish_reason"]) {
            if !has_content {
                self.close();
            }
            self.finish = Some(Finish { ending, with_content: has_content });
        }
    }

    /// Returns the new part of a message's text. Some servers send the message piece by piece,
    /// others repeat all of it so far.
    fn new_words(&mut self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        let so_far = self.message.get_or_insert_default();
        let new = text.strip_prefix(so_far.as_str()).unwrap_or(text).to_owned();
        so_far.push_str(&new);
        new
    }

    /// Adds a fragment of a call with this part of its function.
    fn call(&mut self, fragment: &Value, function: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let arguments = match &function["arguments"] {
            Value::String(arguments) => arguments.clone(),
            arguments @ Value::Object(_) => arguments.to_string(),
            _ => String::new(),
        };
        let vendor = fragment.get(CALL_FIELD).filter(|field| !is_nothing(field));
        self.calls.add(Fragment {
            index: whole(&fragment["index"]),
            id: text(&fragment["id"]),
            name: text(&function["name"]),
            arguments,
            vendor: vendor
                .map(|field| (CALL_FIELD.to_owned(), field.clone()))
                .into_iter()
                .collect(),
        });
        if !self.calling {
            self.calling = true;
            self.ready.push_back(LlmDelta::Calling);
        }
    }
}

/// Returns true for the end mark of a stream. Some servers write it in lower case or in quotes.
fn is_end(event: &str) -> bool {
    let around = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'');
    event.trim_matches(around).eq_ignore_ascii_case("[DONE]")
}

/// Returns the error that a chunk reports. Some servers send an empty one beside content.
fn error_of(chunk: &Value) -> Option<&Value> {
    let error = chunk.get("error")?;
    if matches!(error, Value::Null | Value::Bool(false)) {
        return None;
    }
    (!is_nothing(error) || chunk["choices"].is_null()).then_some(error)
}

/// Returns the elements of an array. Another value counts as its only element.
fn several(value: &Value) -> &[Value] {
    match value {
        Value::Null => &[],
        Value::Array(all) => all,
        one => std::slice::from_ref(one),
    }
}

/// Reads a whole number from a number or a string.
pub(super) fn whole(value: &Value) -> Option<u64> {
    let written = || value.as_str()?.trim().parse().ok();
    let fraction = || value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..1e15).contains(n));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and bounded")]
    value.as_u64().or_else(|| fraction().map(|n| n as u64)).or_else(written)
}

/// Returns the text of a message's content. Of a list of parts, only text parts count.
pub(crate) fn words(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Array(parts) => parts.iter().map(words).collect(),
        Value::Object(part) => {
            let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
            let known = ["text", "output_text", "text_delta", "refusal"].contains(&kind);
            let text = part.get("text").or(part.get("refusal")).unwrap_or(&Value::Null);
            // Some servers put the text into a nested object.
            let text = text.get("value").unwrap_or(text);
            text.as_str().filter(|_| known).unwrap_or_default().to_owned()
        }
        Value::Null | Value::Bool(_) => String::new(),
    }
}

/// Reads the token usage. Missing counts are zero.
pub(crate) fn usage(told: &Value) -> Option<Usage> {
    let count = |key: &str| whole(&told[key]).unwrap_or_default();
    let prompt_tokens = count("prompt_tokens");
    let completion_tokens = count("completion_tokens");
    told.is_object().then_some(Usage { prompt_tokens, completion_tokens, ..Usage::default() })
}

/// Converts an error in the middle of the stream, by its code or by the status of an upstream
/// provider.
fn provider_error(error: &Value) -> ProviderError {
    let body = json!({ "error": error }).to_string();
    let code = web::error_code(body.as_bytes());
    let status = whole(&error["code"]).and_then(|code| u16::try_from(code).ok());
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    let status = status.filter(|status| status.is_client_error() || status.is_server_error());
    let kind = match code.as_deref() {
        Some("rate_limit_exceeded" | "rate_limit_error") => Some(ProviderErrorKind::RateLimited),
        Some("invalid_request_error" | "invalid_prompt") => Some(ProviderErrorKind::BadRequest),
        Some("server_error" | "internal_error") => Some(ProviderErrorKind::Fault),
        Some(code) => web::kind_of_code(code),
        None => None,
    };
    let kind = kind.or(status.map(web::kind_of)).unwrap_or(ProviderErrorKind::Unavailable);
    let why = match code {
        Some(code) => format!("the answer ended with an error, code {code}"),
        None => "the answer ended with an error".into(),
    };
    ProviderError::because(PROVIDER, kind, why)
}

#[cfg(test)]
mod tests;
