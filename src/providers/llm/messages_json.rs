//! The JSON of Anthropic's Messages API: what is asked, and the events of an answer. Not for HTTP.
//!
//! Sources: the API reference at platform.claude.com/docs/en/api/messages, and the pages on
//! streaming (build-with-claude/streaming), tools (agents-and-tools/tool-use) and errors
//! (api/errors). What they ask for and OpenAI's API does not:
//!
//! - how to behave stands apart, in `system`;
//! - roles alternate, beginning with the user: messages of one role are merged into one;
//! - a tool's result is a block of the user's next message, before anything else there;
//! - no text is blank, and ids are of letters, digits, `_` and `-`.

use std::collections::{BTreeMap, VecDeque};

use hearken_actors::ports::{
    ChatMessage, LlmDelta, OfferedTool, Prompt, ProviderErrorKind, Role, ToolChoice, ToolRequest,
    Usage,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::offered::offered;

/// Calls of one answer that are read; what is beyond is ignored.
const MAX_CALLS: usize = 64;

/// What the user says where the conversation does not begin with them.
const NOTHING_SAID: &str = "...";

/// The request's JSON, without a temperature.
pub(super) fn order(model: &str, max_tokens: u32, prompt: &Prompt) -> Value {
    let mut order = json!({
        "model": model,
        "max_tokens": max_tokens.max(1),
        "messages": messages(&prompt.messages),
        "stream": true,
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

/// The same with a temperature, which goes to 1.0 there.
pub(super) fn with_temperature(mut order: Value, temperature: f64) -> Value {
    order["temperature"] = temperature.clamp(0.0, 1.0).into();
    order
}

fn tool(tool: &OfferedTool) -> Value {
    let OfferedTool { name, description, parameters } = tool;
    json!({ "name": name, "description": description, "input_schema": parameters })
}

fn messages(all: &[ChatMessage]) -> Vec<Value> {
    let mut merged: Vec<(&'static str, Vec<Value>)> = Vec::new();
    for message in all.iter().filter(|message| message.role != Role::System) {
        let role = if message.role == Role::Assistant { "assistant" } else { "user" };
        let blocks = blocks(message);
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

fn blocks(message: &ChatMessage) -> Vec<Value> {
    if message.role == Role::Tool {
        let content = &message.content;
        let id = plain_id(&message.answers);
        return vec![json!({ "type": "tool_result", "tool_use_id": id, "content": content })];
    }
    let said = (!message.content.trim().is_empty()).then(|| text(&message.content));
    said.into_iter().chain(message.calls.iter().map(past_call)).collect()
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Arguments that are no JSON object, which the model itself wrote, are left out.
fn past_call(call: &ToolRequest) -> Value {
    let input: Map<String, Value> = serde_json::from_str(&call.arguments).unwrap_or_default();
    json!({ "type": "tool_use", "id": plain_id(&call.id), "name": call.name, "input": input })
}

/// An id that another provider made, in the letters that are taken here.
fn plain_id(id: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    if id.is_empty() { "_".into() } else { id.chars().map(plain).collect() }
}

/// The events of an answer so far.
#[derive(Default)]
pub(super) struct Pieces {
    /// Calls that are being written, by the place of their block.
    calls: BTreeMap<u64, ToolRequest>,
    called: usize,
    spoken: bool,
    usage: Usage,
    /// What can be handed on.
    pub(super) ready: VecDeque<LlmDelta>,
}

/// What an event ends the answer with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// It is no event of a message.
    Protocol,
    /// The API tells an error, by its type.
    Told(ProviderErrorKind, String),
    /// The model would not answer, and said nothing.
    Declined,
}

impl Pieces {
    /// Reads the data of one event.
    ///
    /// # Errors
    /// See [`Broken`].
    pub(super) fn read(&mut self, event: &str) -> Result<(), Broken> {
        let event: Event = serde_json::from_str(event).map_err(|_| Broken::Protocol)?;
        match event {
            Event::MessageStart { message } => self.cost(message.usage),
            Event::ContentBlockStart { index, content_block } => self.block(index, content_block),
            Event::ContentBlockDelta { index, delta } => self.delta(index, delta),
            Event::ContentBlockStop { index } => self.stop(index),
            Event::MessageDelta { delta, usage } => {
                self.cost(usage);
                if let Some(reason) = delta.stop_reason {
                    self.finish(&reason)?;
                }
            }
            Event::Error { error } => return Err(told(&error.kind)),
            Event::Other => {}
        }
        Ok(())
    }

    /// Counts are told anew, not added; what was read from a cache was read as well.
    fn cost(&mut self, told: Option<Cost>) {
        let Some(told) = told else { return };
        if let Some(input) = told.input_tokens {
            let cached = [told.cache_creation_input_tokens, told.cache_read_input_tokens];
            self.usage.prompt_tokens =
                cached.into_iter().flatten().fold(input, u64::saturating_add);
        }
        if let Some(output) = told.output_tokens {
            self.usage.completion_tokens = output;
        }
    }

    fn block(&mut self, index: u64, block: Block) {
        match block {
            Block::Text { text } => self.say(text),
            Block::ToolUse { id, name, input } => {
                if self.called >= MAX_CALLS {
                    return;
                }
                if self.called == 0 {
                    self.ready.push_back(LlmDelta::Calling);
                }
                self.called += 1;
                // Empty where the arguments follow in pieces.
                let arguments = match input {
                    Value::Object(input) if !input.is_empty() => Value::Object(input).to_string(),
                    _ => String::new(),
                };
                self.calls.insert(index, ToolRequest { id, name, arguments });
            }
            Block::Other => {}
        }
    }

    fn delta(&mut self, index: u64, delta: Delta) {
        match delta {
            Delta::Text { text } => self.say(text),
            Delta::InputJson { partial_json } => {
                if let Some(call) = self.calls.get_mut(&index) {
                    call.arguments.push_str(&partial_json);
                }
            }
            Delta::Other => {}
        }
    }

    fn say(&mut self, text: String) {
        if !text.is_empty() {
            self.spoken = true;
            self.ready.push_back(LlmDelta::Text(text));
        }
    }

    fn stop(&mut self, index: u64) {
        if let Some(mut call) = self.calls.remove(&index) {
            // A tool without arguments may be given none.
            if call.arguments.trim().is_empty() {
                call.arguments = "{}".into();
            }
            self.ready.push_back(LlmDelta::Call(call));
        }
    }

    fn finish(&mut self, reason: &str) -> Result<(), Broken> {
        if reason == "refusal" && !self.spoken && self.called == 0 {
            return Err(Broken::Declined);
        }
        // A call that was cut in the middle is none.
        self.calls.clear();
        let truncated = matches!(reason, "max_tokens" | "model_context_window_exceeded");
        self.ready.push_back(LlmDelta::Finished { truncated, usage: Some(self.usage) });
        Ok(())
    }
}

/// What an error of this type means.
fn told(kind: &str) -> Broken {
    let means = match kind {
        "overloaded_error" => ProviderErrorKind::Unavailable,
        "rate_limit_error" => ProviderErrorKind::RateLimited,
        "timeout_error" => ProviderErrorKind::Timeout,
        "authentication_error" | "permission_error" | "billing_error" => {
            ProviderErrorKind::Unauthorized
        }
        "invalid_request_error" | "not_found_error" | "request_too_large" => {
            ProviderErrorKind::BadRequest
        }
        _ => ProviderErrorKind::Fault,
    };
    let word = |b: u8| b.is_ascii_lowercase() || b == b'_';
    let plain = !kind.is_empty() && kind.len() <= 64 && kind.bytes().all(word);
    Broken::Told(means, if plain { kind.to_owned() } else { "unknown".to_owned() })
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Begun,
    },
    ContentBlockStart {
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: Ending,
        #[serde(default)]
        usage: Option<Cost>,
    },
    Error {
        error: Told,
    },
    /// `ping`, `message_stop`, and what will be added.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Begun {
    #[serde(default)]
    usage: Option<Cost>,
}

#[derive(Deserialize)]
struct Cost {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        #[serde(default)]
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    /// Thinking, and tools of the API's own.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Ending {
    #[serde(default)]
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct Told {
    #[serde(rename = "type", default)]
    kind: String,
}

#[cfg(test)]
#[path = "messages_json_tests.rs"]
mod tests;
