//! Answers to requests with tools, in several passes. The first pass, with the tools in the prompt,
//! chooses a tool, if any. The next one writes the call, or an answer from a prompt without tools,
//! because small models answer worse with tools in the prompt. Independent of any particular model.

use std::ops::ControlFlow;

use hearken_base::language::is_han;
use serde_json::{Value, json};

use super::answer::{AnswerParser, Part};
use super::generation::{
    Emit, Finish, FinishReason, Generation, Generator, LlmError, Message, Piece, Role, Sampling,
    Tool, ToolChoice,
};

/// Pseudo tool for answering in words, offered first: a small model that needs no tool mostly calls
/// the first one.
const TALK: &str = "talk";
const TALK_IS_FOR: &str = "Talk with the user: answer questions from general knowledge, tell \
    stories and jokes, greet, comfort, sing. 聊天、回答问题、讲故事。";
/// Maximum number of tokens for a tool's name.
const LONGEST_CHOICE: u32 = 64;

/// Model wrapper that runs the model as many times as a request with tools needs.
#[derive(Debug)]
pub struct TwoPass<G>(pub G);

impl<G: Generator> Generator for TwoPass<G> {
    fn generate(&mut self, request: &Generation, emit: Emit<'_>) -> Result<Finish, LlmError> {
        let returned = request.messages.last().is_some_and(|m| m.role == Role::Tool);
        match request.tool_choice {
            _ if request.tools.is_empty() => self.0.generate(request, emit),
            ToolChoice::Auto if !returned => self.choose(request, emit),
            ToolChoice::Auto | ToolChoice::None => self.0.generate(&in_words(request), emit),
            _ => self.0.generate(request, emit),
        }
    }
}

impl<G: Generator> TwoPass<G> {
    fn choose(&mut self, request: &Generation, emit: Emit<'_>) -> Result<Finish, LlmError> {
        let choosing = choosing(request);
        let mut choice = Choice::default();
        let first = self.silently(&choosing, emit, |bytes| choice.push(bytes))?;
        if first.reason == FinishReason::Cut && choice.is_open() {
            return Ok(first);
        }
        let is_offered = |name: &String| request.tools.iter().any(|tool| tool.name == *name);
        let chosen = choice.name().filter(|_| !choosing.messages.is_empty()).filter(is_offered);
        if let Some(name) = chosen {
            let tool_choice = ToolChoice::Named(name);
            let calling = Generation { tool_choice, max_tokens: request.max_tokens, ..choosing };
            let mut written = Vec::new();
            let called = self.silently(&calling, emit, |bytes| {
                written.extend_from_slice(bytes);
                ControlFlow::Continue(())
            })?;
            let called = Finish { cached_tokens: first.cached_tokens, ..called };
            if called.reason == FinishReason::Cut {
                return Ok(called);
            }
            let cut = emit(Piece::Bytes(&as_said(written, request))).is_break();
            return Ok(if cut { Finish { reason: FinishReason::Cut, ..called } } else { called });
        }
        // A second prompt without tools gives the words: with tools in it, a small model answers
        // worse. Decision 0032.
        self.0.generate(&in_words(request), emit)
    }

    /// Runs the model and passes its output to `see` only, until `see` or the receiver of the
    /// answer stops it.
    fn silently(
        &mut self,
        request: &Generation,
        emit: Emit<'_>,
        mut see: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<Finish, LlmError> {
        self.0.generate(request, &mut |piece| {
            emit(Piece::Reading)?;
            if let Piece::Bytes(bytes) = piece { see(bytes) } else { ControlFlow::Continue(()) }
        })
    }
}

/// Returns the request for an answer in words. Removes earlier calls, to prevent their imitation;
/// their results are in the words that followed. Retains everything from the last question on.
fn in_words(request: &Generation) -> Generation {
    let asked = request.messages.iter().rposition(|m| m.role == Role::User).unwrap_or_default();
    let said = |(index, message): (usize, &Message)| {
        let mut message = message.clone();
        if index < asked {
            message.tool_calls.clear();
        }
        let silent = message.content.is_empty() && message.tool_calls.is_empty();
        let called = message.role == Role::Tool || (message.role == Role::Assistant && silent);
        (index >= asked || !called).then_some(message)
    };
    let messages = request.messages.iter().enumerate().filter_map(said).collect();
    Generation { messages, tools: Vec::new(), ..request.clone() }
}

/// Returns the request that chooses a tool. Nothing forces a valid call: an unknown name means that
/// no tool fits.
fn choosing(request: &Generation) -> Generation {
    let mut tools = request.tools.clone();
    if tools.iter().all(|tool| tool.name != TALK) {
        let parameters = json!({ "type": "object", "properties": {} });
        tools.insert(0, Tool { name: TALK.into(), description: TALK_IS_FOR.into(), parameters });
    }
    let messages = lately(&request.messages);
    Generation {
        // Without messages to choose by, this only prefetches the prompt.
        max_tokens: if messages.is_empty() { 1 } else { LONGEST_CHOICE },
        messages,
        tools,
        tool_choice: ToolChoice::Free,
        sampling: Sampling { temperature: 0.0, ..request.sampling },
        stop: Vec::new(),
        gives_way: request.gives_way,
    }
}

/// Returns the messages that matter for the choice: the user's last words, and the exchange before
/// them if it called a tool, because the user may continue with "a bit louder". Everything else
/// would have to be read twice. Empty if the last message is not the user's.
fn lately(messages: &[Message]) -> Vec<Message> {
    let spoken: Vec<&Message> = messages.iter().filter(|m| m.role != Role::System).collect();
    let Some((last, before)) = spoken.split_last().filter(|(last, _)| last.role == Role::User)
    else {
        return Vec::new();
    };
    let from = before.iter().rposition(|m| m.role == Role::User).unwrap_or_default();
    let exchange = &before[from..];
    let called = exchange.iter().any(|m| !m.tool_calls.is_empty());
    let kept = if called { exchange } else { &[] };
    kept.iter().chain([last]).map(|m| (*m).clone()).collect()
}

/// Beginning of the output of a model that may call a tool.
#[derive(Debug, Default)]
struct Choice(Vec<u8>);

impl Choice {
    /// Adds bytes. Breaks as soon as the choice is certain.
    fn push(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        self.0.extend_from_slice(bytes);
        if self.is_open() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Returns true while the output contains neither words nor the name of a tool.
    fn is_open(&self) -> bool {
        let text = String::from_utf8_lossy(&self.0);
        let text = text.trim_start();
        (text.is_empty() || text.starts_with(['<', '{', '`'])) && self.name().is_none()
    }

    /// Returns the complete name of a tool, if there is one.
    fn name(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.0);
        let (_, rest) = text.split_once("\"name\":")?;
        let (name, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
        Some(name.to_owned())
    }
}

/// Removes from a call the optional texts that the user did not say: asked for the time, a small
/// model invents a place. Returns an incomplete call unchanged.
fn as_said(written: Vec<u8>, request: &Generation) -> Vec<u8> {
    let mut answer = AnswerParser::new(&Generation { stop: Vec::new(), ..request.clone() });
    answer.push(&written);
    let parts = answer.finish(true);
    let [Part::Call(call)] = parts.as_slice() else { return written };
    let Some(tool) = request.tools.iter().find(|tool| tool.name == call.name) else {
        return written;
    };
    let Ok(Value::Object(mut arguments)) = serde_json::from_str(&call.arguments) else {
        return written;
    };
    let spoken = request.messages.iter().filter(|m| m.role != Role::System);
    let spoken: String = spoken.map(|m| m.content.to_lowercase() + "\n").collect();
    arguments.retain(|key, value| match value.as_str() {
        Some(text) if may_be_left_out(tool, key) => is_from(text, &spoken),
        _ => true,
    });
    json!({ "name": call.name, "arguments": arguments }).to_string().into_bytes()
}

/// Returns true for an argument that is neither required nor limited to a list of values.
fn may_be_left_out(tool: &Tool, key: &str) -> bool {
    let required = tool.parameters.get("required").and_then(Value::as_array);
    let listed = tool.parameters.pointer(&format!("/properties/{key}/enum")).is_some();
    !listed && !required.is_some_and(|names| names.iter().any(|name| name == key))
}

/// Returns true if a text contains a spoken word, or may be such a word in another script.
fn is_from(text: &str, spoken: &str) -> bool {
    let text = text.to_lowercase();
    let mut words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.any(|word| spoken.contains(word))
        || (spoken.chars().any(is_han) && !text.chars().any(is_han))
}

#[cfg(test)]
mod tests;
