//! A conversation as the text that Qwen2.5 was trained on (ChatML, and Qwen's way to show tools),
//! and what to leave out when it is too long. No tokens and no model here.

use std::fmt::Write as _;
use std::io;

use hearken_actors::dialogue::phrases::Language;
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Value, json};

use super::generation::{LlmError, Message, Role, Tool};

/// Messages are left out in bites of this many, so that the beginning of the prompt, and with it
/// the model's cache, stays the same over several turns.
const BITE: usize = 8;

/// Follows the results of tools: without it the small models repeat them as they are, "true" and
/// all.
const TELL_EN: &str = "\nNow answer me in one short spoken sentence.";
const TELL_ZH: &str = "\n请用一句话告诉用户结果。";

/// A stretch of the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// A control token of the model.
    Mark(&'static str),
    /// Words; whatever they say is never read as a control token.
    Text(String),
}

/// What to read before answering, ending where the answer begins.
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
    let mut asked = "";
    let mut talk = messages.iter().filter(|m| m.role != Role::System).peekable();
    while let Some(message) = talk.next() {
        match message.role {
            Role::System => {}
            Role::User => {
                asked = &message.content;
                prompt.message("user", asked);
            }
            Role::Assistant => prompt.message("assistant", &assistant_text(message)),
            Role::Tool => {
                let mut body = tool_response(&message.content);
                while let Some(next) = talk.next_if(|m| m.role == Role::Tool) {
                    body.push('\n');
                    body.push_str(&tool_response(&next.content));
                }
                body.push_str(match Language::from_key(asked) {
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

/// The conversation without its oldest messages, so that `count` (tokens of a rendered prompt) is
/// at most `limit`. System messages always stay, and so does the last message.
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

/// A prompt that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitted {
    /// The prompt.
    pub segments: Vec<Segment>,
    /// How many messages had to be left out.
    pub dropped: usize,
}

/// Leaves out the `dropped` oldest messages that are not the system's, and then any tool results
/// whose call is gone.
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
            // Its call was left out.
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
        // Written as the model writes it, so that its cache still holds it.
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

/// The wording is the model's chat template: <https://huggingface.co/Qwen/Qwen2.5-0.5B-Instruct>;
/// there it follows the system's message. Here it comes first: it is the longest part and changes
/// least, so that the cache holds it whatever the system says.
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

/// JSON with a space after each colon and comma, as in the model's training.
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
#[path = "chatml_tests.rs"]
mod tests;
