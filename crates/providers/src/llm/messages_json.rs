//! JSON of Anthropic's Messages API: the request, and the events of an answer. Not for HTTP.
//!
//! Sources: the API reference at platform.claude.com/docs/en/api/messages, and the pages on
//! streaming (build-with-claude/streaming), tools (agents-and-tools/tool-use) and errors
//! (api/errors). Rules that OpenAI's API does not have:
//!
//! - the system prompt is a separate field, `system`;
//! - roles alternate, starting with the user: messages of one role are merged into one;
//! - a tool's result is a block at the beginning of the user's next message;
//! - text is never blank, and ids consist of letters, digits, `_` and `-`;
//! - with `thinking`, the blocks of the model's thinking are returned before its calls.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hearken_outbound::http as web;
use hearken_ports::tool_limits::sent_description;
use hearken_ports::vendor_fields::{ReturnedFields, VendorFields};
use hearken_ports::{
    ChatMessage, LlmDelta, OfferedTool, Prompt, ProviderError, ProviderErrorKind, Role, ToolChoice,
    ToolRequest, Usage,
};
use hearken_proto::json::weighed;
use serde_json::{Map, Value, json};

use super::answering::{AnswerParser, Progress, is_whole};
use super::base::violated;
use super::call_assembler::{MAX_CALLS, arguments_of, plain_name};
use super::call_ids::CallIds;
use super::chat_json::{MAX_ARGUMENTS_BYTES, whole, words};
use super::event_json::EventJson;
use super::finish_reason::Ending;
use super::message_fields::MessageFields;
use super::offered::offered;
use super::tool_schema::normal_form;

/// Provider name in errors.
pub(super) const PROVIDER: &str = "anthropic-llm";

/// Text of the user in a conversation that does not start with the user.
const NOTHING_SAID: &str = "...";

/// Key of the blocks of thinking among the fields that are returned. Not a field of the API.
const THOUGHTS: &str = "thoughts";

/// Types of the blocks of thinking.
const THINKING: [&str; 2] = ["thinking", "redacted_thinking"];

/// Builds the JSON of the request. The API accepts temperatures up to 1.0. `identity` is that of the
/// model, and `model` its name.
pub(super) fn order(identity: &str, model: &str, max_tokens: u32, prompt: &Prompt) -> Value {
    let mut order = json!({
        "model": model,
        "max_tokens": max_tokens.max(1),
        "messages": messages(identity, &prompt.messages),
        "stream": true,
        "temperature": prompt.temperature.clamp(0.0, 1.0),
    });
    let system: Vec<&str> = prompt
        .messages
        .iter()
        .filter(|message| message.role == Role::System && !message.content.trim().is_empty())
        .map(|message| message.content.as_str())
        .collect();
    if !system.is_empty() {
        order["system"] = system.join("\n\n").into();
    }
    let (tools, choice) = offered(prompt);
    if !tools.is_empty() {
        order["tools"] = tools.iter().map(tool).collect();
        let choice = if choice == ToolChoice::None { "none" } else { "auto" };
        order["tool_choice"] = json!({ "type": choice });
    }
    order
}

fn tool(tool: &OfferedTool) -> Value {
    let OfferedTool { name, description, parameters } = tool;
    let description = sent_description(description);
    json!({ "name": name, "description": description, "input_schema": normal_form(parameters) })
}

fn messages(identity: &str, all: &[ChatMessage]) -> Vec<Value> {
    let mut ids = CallIds::default();
    let mut merged: Vec<(&'static str, Vec<Value>)> = Vec::new();
    for message in all.iter().filter(|message| message.role != Role::System) {
        let role = if message.role == Role::Assistant { "assistant" } else { "user" };
        let blocks = blocks(identity, message, &mut ids);
        match merged.last_mut() {
            Some((last, known)) if *last == role => known.extend(blocks),
            _ if blocks.is_empty() => {}
            _ => merged.push((role, blocks)),
        }
    }
    if merged.first().is_none_or(|(role, _)| *role != "user") {
        merged.insert(0, ("user", vec![text(NOTHING_SAID)]));
    }
    merged.into_iter().map(|(role, blocks)| json!({ "role": role, "content": blocks })).collect()
}

fn blocks(identity: &str, message: &ChatMessage, ids: &mut CallIds) -> Vec<Value> {
    if message.role == Role::Tool {
        let content = &message.content;
        let id = ids.of_result(&message.answers);
        return vec![json!({ "type": "tool_result", "tool_use_id": id, "content": content })];
    }
    let mut said = (!message.content.trim().is_empty()).then(|| text(&message.content));
    let mut blocks = Vec::new();
    let mut last: Option<&Arc<Map<String, Value>>> = None;
    for call in &message.calls {
        let own = call.vendor.of_model(identity);
        if let Some(own) = own
            && last.is_none_or(|last| !Arc::ptr_eq(last, &own.message))
        {
            blocks.extend(
                own.message.get(THOUGHTS).and_then(Value::as_array).into_iter().flatten().cloned(),
            );
            last = Some(&own.message);
        }
        blocks.extend(said.take());
        blocks.push(past_call(ids.of_call(call, own.filter(|own| is_plain(&own.id))), call));
    }
    blocks.extend(said);
    blocks
}

/// Returns true if the API accepts this id.
fn is_plain(id: &str) -> bool {
    id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// Removes `thinking` from a request if a call since the user's last words has no thinking before
/// it: a rule or another model made it. The API accepts thinking only from the start of a turn.
pub(super) fn think_only_from_the_start(order: &mut Value) {
    let blocks = |message: &Value| message["content"].as_array().cloned().unwrap_or_default();
    let is = |block: &Value, kinds: &[&str]| kinds.iter().any(|kind| block["type"] == *kind);
    let messages = order["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let since = messages.iter().rposition(|message| {
        message["role"] == "user"
            && blocks(message).iter().any(|block| !is(block, &["tool_result"]))
    });
    let starts_without = messages.iter().skip(since.unwrap_or_default()).any(|message| {
        let blocks = blocks(message);
        message["role"] == "assistant" && blocks.first().is_some_and(|first| !is(first, &THINKING))
    });
    if starts_without
        && order["thinking"]["type"] == "enabled"
        && let Some(order) = order.as_object_mut()
    {
        order.remove("thinking");
    }
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Converts an earlier call of the model. Arguments that are not a JSON object are omitted.
fn past_call(id: String, call: &ToolRequest) -> Value {
    let input: Map<String, Value> = weighed(&call.arguments).unwrap_or_default();
    json!({ "type": "tool_use", "id": id, "name": call.name, "input": input })
}

/// Call that is still being written.
struct PartialCall {
    id: String,
    name: String,
    /// Arguments from the start of the block, and those that follow. Some servers send the whole in
    /// both.
    arguments: Vec<String>,
}

impl PartialCall {
    fn whole(self) -> ToolRequest {
        let Self { id, name, arguments } = self;
        ToolRequest { id, name, arguments: arguments_of(&arguments), ..ToolRequest::default() }
    }
}

/// Events of an answer so far.
#[derive(Default)]
pub(super) struct AnswerAssembler {
    json: EventJson,
    /// Model that answers.
    identity: Arc<str>,
    /// Thinking since the last call that was passed on.
    thoughts: MessageFields,
    /// Fields of the last call that was passed on.
    returned: Arc<Map<String, Value>>,
    /// Calls that are being written, by the index of their block.
    calls: BTreeMap<u64, PartialCall>,
    /// Call of the block that ended last.
    held: Option<ToolRequest>,
    called: usize,
    /// Size of the arguments of all calls so far.
    arguments_bytes: usize,
    thinks_apart: bool,
    usage: Usage,
    /// Present when the answer is over.
    finish: Option<Ending>,
    /// True if the end mark came without a finish reason.
    lacks_reason: bool,
    ready: VecDeque<LlmDelta>,
}

impl AnswerParser for AnswerAssembler {
    fn of(identity: &Arc<str>, _prompt: &Prompt) -> Self {
        Self { identity: Arc::clone(identity), ..Self::default() }
    }

    fn read(&mut self, event: &str) -> Result<(), ProviderError> {
        let Some(event) = self.json.read(event) else { return Ok(()) };
        let index = whole(&event["index"]).unwrap_or_default();
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => self.cost(&event["message"]["usage"]),
            "content_block_start" => self.block(index, &event["content_block"]),
            "content_block_delta" => self.delta(index, &event["delta"]),
            "content_block_stop" => self.stop(index),
            "message_delta" => {
                self.cost(&event["usage"]);
                if let Some(ending) = Ending::of(&event["delta"]["stop_reason"]) {
                    self.finish(ending);
                }
            }
            // Compatible servers may send no reason.
            "message_stop" => {
                self.lacks_reason |= self.finish.is_none();
                self.finish.get_or_insert(Ending::Complete);
            }
            "error" => {
                return Err(provider_error(event["error"]["type"].as_str().unwrap_or_default()));
            }
            // `ping`, and future events.
            _ => {}
        }
        if self.arguments_bytes > MAX_ARGUMENTS_BYTES {
            return Err(violated(PROVIDER, "the arguments of the calls are too long"));
        }
        Ok(())
    }

    fn unreadable(&self) -> Option<ProviderError> {
        self.json.unreadable(PROVIDER)
    }

    fn progress(&self) -> Progress {
        if self.finish.is_some() { Progress::Over } else { Progress::Going }
    }

    /// Drops calls that were truncated. Without a finish reason, an unfinished call is passed on with
    /// its arguments so far: the answer may have broken off there.
    fn close(&mut self) {
        self.release();
        for (_, call) in std::mem::take(&mut self.calls) {
            let call = call.whole();
            let is_empty = call.arguments.trim().is_empty();
            if self.lacks_reason && !is_whole(&call) {
                self.ready.push_back(LlmDelta::Call(call));
            } else if self.finish == Some(Ending::Complete) && (is_empty || is_whole(&call)) {
                self.hand_on(call);
            }
        }
    }

    fn ready(&mut self) -> &mut VecDeque<LlmDelta> {
        &mut self.ready
    }

    fn thinks_apart(&self) -> bool {
        self.thinks_apart
    }

    fn ending(&self) -> (Ending, Option<Usage>) {
        (self.finish.clone().unwrap_or(Ending::Complete), Some(self.usage))
    }

    fn lacks_reason(&self) -> bool {
        self.lacks_reason
    }
}

impl AnswerAssembler {
    /// Reads token counts. Each event replaces the counts, and cached prompt tokens are included.
    fn cost(&mut self, told: &Value) {
        if let Some(input) = whole(&told["input_tokens"]) {
            let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
            let cached = cached.iter().filter_map(|key| whole(&told[*key]));
            self.usage.prompt_tokens = cached.fold(input, u64::saturating_add);
        }
        if let Some(output) = whole(&told["output_tokens"]) {
            self.usage.completion_tokens = output;
        }
    }

    fn block(&mut self, index: u64, block: &Value) {
        self.release();
        match block["type"].as_str().unwrap_or_default() {
            "text" => self.say(words(block)),
            "tool_use" => {
                // Some servers give all blocks the same index, and no end.
                self.stop(index);
                if self.called >= MAX_CALLS {
                    return;
                }
                if self.called == 0 {
                    self.ready.push_back(LlmDelta::Calling);
                }
                self.called += 1;
                let field = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
                let name = plain_name(&field("name")).to_owned();
                let call = PartialCall { id: field("id"), name, arguments: Vec::new() };
                self.calls.insert(index, call);
                // Empty if the arguments follow in fragments.
                self.arguments(index, &block["input"]);
            }
            kind if THINKING.contains(&kind) => {
                self.thinks_apart = true;
                if let Some(block) = block.as_object() {
                    self.thoughts.add_entry(THOUGHTS, block);
                }
            }
            // Built-in tools of the API.
            _ => {}
        }
    }

    fn delta(&mut self, index: u64, delta: &Value) {
        match delta["type"].as_str().unwrap_or_default() {
            "text_delta" | "text" => self.say(words(delta)),
            "input_json_delta" => self.arguments(index, &delta["partial_json"]),
            "thinking_delta" => self.think("thinking", &delta["thinking"]),
            "signature_delta" => self.think("signature", &delta["signature"]),
            _ => {}
        }
    }

    /// Adds a piece to the last block of thinking.
    fn think(&mut self, field: &str, piece: &Value) {
        self.thoughts.add_to_entry(THOUGHTS, field, piece.as_str().unwrap_or_default());
    }

    /// Adds arguments to the call of a block.
    fn arguments(&mut self, index: u64, told: &Value) {
        let more = match told {
            Value::String(text) if !text.is_empty() => text.clone(),
            Value::Object(input) if !input.is_empty() => told.to_string(),
            _ => return,
        };
        if let Some(call) = self.calls.get_mut(&index) {
            self.arguments_bytes += more.len();
            call.arguments.push(more);
        }
    }

    fn say(&mut self, text: String) {
        if !text.is_empty() {
            self.release();
            self.ready.push_back(LlmDelta::Text(text));
        }
    }

    /// Ends a block. Its call is held until the finish reason shows whether it was truncated.
    fn stop(&mut self, index: u64) {
        if let Some(call) = self.calls.remove(&index) {
            self.release();
            self.held = Some(call.whole());
        }
    }

    /// Passes on the call of the last block.
    fn release(&mut self) {
        if let Some(call) = self.held.take() {
            self.hand_on(call);
        }
    }

    fn hand_on(&mut self, mut call: ToolRequest) {
        // A call without arguments may have an empty text.
        if call.arguments.trim().is_empty() {
            call.arguments = "{}".into();
        }
        let thoughts = self.thoughts.take();
        if !thoughts.is_empty() {
            self.returned = thoughts;
        }
        call.vendor = VendorFields::new(ReturnedFields {
            model: Arc::clone(&self.identity),
            id: call.id.clone(),
            message: Arc::clone(&self.returned),
            ..ReturnedFields::default()
        });
        self.ready.push_back(LlmDelta::Call(call));
    }

    fn finish(&mut self, ending: Ending) {
        match ending {
            Ending::Complete => {}
            Ending::Truncated => self.held = self.held.take().filter(is_whole),
            Ending::Filtered | Ending::BrokenOff(_) => self.held = None,
        }
        self.release();
        self.finish = Some(ending);
    }
}

/// Converts the type of an error.
fn provider_error(kind: &str) -> ProviderError {
    let means = match kind {
        "overloaded_error" => ProviderErrorKind::Unavailable,
        "rate_limit_error" => ProviderErrorKind::RateLimited,
        "timeout_error" => ProviderErrorKind::Timeout,
        "authentication_error" | "permission_error" => ProviderErrorKind::Unauthorized,
        "invalid_request_error" => ProviderErrorKind::BadRequest,
        other => web::kind_of_code(other).unwrap_or(ProviderErrorKind::Fault),
    };
    let word = |b: u8| b.is_ascii_lowercase() || b == b'_';
    let plain = !kind.is_empty() && kind.len() <= 64 && kind.bytes().all(word);
    let word = if plain { kind } else { "unknown" };
    let why = format!("the answer ended with an error, code {word}");
    ProviderError::because(PROVIDER, means, why)
}

#[cfg(test)]
mod tests;
