//! Prompt text of a conversation in the format that Qwen2.5 was trained on (ChatML, and Qwen's
//! format for tools), and truncation of conversations that are too long. No tokens and no model
//! here.

use std::fmt::Write as _;
use std::io;

use hearken_base::language::Language;
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Value, json};

use super::generation::{LlmError, Message, Role, Tool};

/// Number of messages that are removed at a time, so that the beginning of the prompt, and with it
/// the model's cache, remains unchanged over several turns.
const BITE: usize = 8;

/// Instruction after the results of tools. Without it, small models repeat the results literally,
/// "true" for example.
const TELL_EN: &str = "\nNow answer me in one short spoken sentence.";
const TELL_ZH: &str = "\n请用一句话告诉用户结果。";

/// Part of the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Control token of the model.
    Mark(&'static str),
    /// Plain text. It is never read as a control token.
    Text(String),
}

/// Renders the prompt that the model reads before it answers. It ends where the answer begins.
pub fn render(messages: &[Message], tools: &[Tool]) -> Vec<Segment> {
    let mut prompt = Prompt::default();
    let mut opening: Vec<String> = Vec::new();
    if !tools.is_empty() {
        opening.push(tools_section(tools));
    }
    opening.extend(messages.iter().filter(|m| m.role == Role::System).map(|m| m.content.clone()));
    if !opening.is_empty() {
        prompt.message("system", &opening.join("\n\n"));
    }
    let mut language = None;
    let mut talk = messages.iter().filter(|m| m.role != Role::System).peekable();
    while let Some(message) = talk.next() {
        match message.role {
            Role::System => {}
            Role::User => {
                language = Language::of_words(&message.content, language);
                prompt.message("user", &message.content);
            }
            Role::Assistant => prompt.message("assistant", &assistant_text(message)),
            Role::Tool => {
                let mut body = tool_response(&message.content);
                while let Some(next) = talk.next_if(|m| m.role == Role::Tool) {
                    body.push('\n');
                    body.push_str(&tool_response(&next.content));
                }
                body.push_str(match language {
                    Some(Language::Chinese) => TELL_ZH,
                    _ => TELL_EN,
                });
                prompt.message("user", &body);
            }
        }
    }
    prompt.open("assistant");
    prompt.segments
}

/// Removes the oldest messages until `count` (the number of tokens of a rendered prompt) is at most
/// `limit`. System messages and the last message are never removed.
pub fn fit(
    messages: &[Message],
    tools: &[Tool],
    limit: usize,
    count: impl Fn(&[Segment]) -> usize,
) -> Result<Fitted, LlmError> {
    let talk = messages.iter().filter(|m| m.role != Role::System).count();
    let longest_cut = talk.saturating_sub(1);
    let bites = (0..longest_cut).step_by(BITE).chain(std::iter::once(longest_cut));
    let mut tokens = 0;
    for dropped in bites {
        let kept = without_oldest(messages, dropped);
        let segments = render(&kept, tools);
        tokens = count(&segments);
        if tokens <= limit {
            return Ok(Fitted { segments, dropped: messages.len() - kept.len() });
        }
    }
    Err(LlmError::TooLong { tokens, limit })
}

/// Prompt that fits into the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitted {
    /// Segments of the prompt.
    pub segments: Vec<Segment>,
    /// Number of removed messages.
    pub dropped: usize,
}

/// Removes the `dropped` oldest messages that are not system messages. Then removes the tool
/// results whose call was removed.
fn without_oldest(messages: &[Message], dropped: usize) -> Vec<Message> {
    let mut to_drop = dropped;
    let mut at_start = dropped > 0;
    let last = messages.iter().rposition(|message| message.role != Role::System);
    let mut kept = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        if message.role == Role::System {
            kept.push(message.clone());
        } else if to_drop > 0 {
            to_drop -= 1;
        } else if at_start && message.role == Role::Tool && Some(index) != last {
            // The call of this result was removed.
        } else {
            at_start = false;
            kept.push(message.clone());
        }
    }
    kept
}

fn assistant_text(message: &Message) -> String {
    let mut text = message.content.clone();
    for call in &message.tool_calls {
        if !text.is_empty() {
            text.push('\n');
        }
        // Written as the model writes it, so that the model's cache still matches.
        let name = json!(call.name);
        let arguments = serde_json::from_str(&call.arguments);
        let arguments = arguments.map_or_else(|_| call.arguments.clone(), |value| spaced(&value));
        write!(text, "<tool_call>\n{{\"name\": {name}, \"arguments\": {arguments}}}\n</tool_call>")
            .expect("writing to a string cannot fail");
    }
    text
}

fn tool_response(content: &str) -> String {
    format!("<tool_response>\n{content}\n</tool_response>")
}

/// Renders the section that describes the tools. The wording is the model's chat template:
/// <https://huggingface.co/Qwen/Qwen2.5-0.5B-Instruct>. The template puts it after the system
/// message. Here it is first: it is the longest part and changes least, so it remains in the cache
/// with any system message.
fn tools_section(tools: &[Tool]) -> String {
    let mut text = String::from(
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou \
         are provided with function signatures within <tools></tools> XML tags:\n<tools>",
    );
    for tool in tools {
        let name = spaced(&json!(tool.name));
        write!(text, "\n{{\"type\": \"function\", \"function\": {{\"name\": {name}")
            .expect("writing to a string cannot fail");
        if !tool.description.is_empty() {
            let description = spaced(&json!(tool.description));
            write!(text, ", \"description\": {description}")
                .expect("writing to a string cannot fail");
        }
        let parameters = spaced(&tool.parameters);
        write!(text, ", \"parameters\": {parameters}}}}}")
            .expect("writing to a string cannot fail");
    }
    text.push_str(
        "\n</tools>\n\nFor each function call, return a json object with function name and \
         arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": \
         <function-name>, \"arguments\": <args-json-object>}\n</tool_call>",
    );
    text
}

/// Renders JSON with a space after each colon and comma, as in the model's training data.
fn spaced(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Spaced);
    value.serialize(&mut serializer).expect("a JSON value can always be written to memory");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W>(&mut self, writer: &mut W, first: bool) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W>(&mut self, writer: &mut W, first: bool) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W>(&mut self, writer: &mut W) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        writer.write_all(b": ")
    }
}

#[derive(Default)]
struct Prompt {
    segments: Vec<Segment>,
}

impl Prompt {
    fn open(&mut self, role: &str) {
        self.segments.push(Segment::Mark("<|im_start|>"));
        self.segments.push(Segment::Text(format!("{role}\n")));
    }

    fn message(&mut self, role: &str, content: &str) {
        self.segments.push(Segment::Mark("<|im_start|>"));
        self.segments.push(Segment::Text(format!("{role}\n{content}")));
        self.segments.push(Segment::Mark("<|im_end|>"));
        self.segments.push(Segment::Text("\n".into()));
    }
}

#[cfg(test)]
mod tests;
