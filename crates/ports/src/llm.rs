//! Port of the language model: a conversation in, a streamed answer out.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use hearken_base::language::Language;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::reply_language::ReplyLanguage;
use super::vendor_fields::VendorFields;
use super::{ProviderError, ServiceHealth};

pub use hearken_proto::chat::Role;

/// Language model.
pub trait Llm: Send + Sync {
    /// Streams an answer to a conversation. Nothing is sent before the stream is polled. Dropping
    /// it cancels the request. The stream ends after [`LlmDelta::Finished`] or an error.
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>>;

    /// Reports whether [`Llm::reply`] answers the last words of this prompt with a fixed text, because
    /// a person may be in danger: without tools and without tokens. No limit and no call comes before
    /// such an answer. Never by default.
    fn is_urgent(&self, _prompt: &Prompt) -> bool {
        false
    }

    /// Prefetches the common start of a conversation's prompts, if that makes the first answer
    /// faster. Does nothing by default. Dropping it cancels the request.
    fn prefetch(&self, _opening: Prompt) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Returns the highest configured price per million tokens; 0 if none is configured.
    fn price_per_million(&self) -> f64 {
        0.0
    }

    /// Returns the health of the services behind it, without contacting them.
    fn health(&self) -> ServiceHealth {
        ServiceHealth::default()
    }

    /// Checks without a user's request whether the services behind it can be reached, and records
    /// the result in their health.
    fn probe(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Conversation to continue.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prompt {
    /// Messages in order; the first is the system message.
    pub messages: Vec<ChatMessage>,
    /// Tools that the model may call. An empty list offers none.
    pub tools: Arc<[OfferedTool]>,
    /// Permission to call tools in this answer.
    pub tool_choice: ToolChoice,
    /// Maximum length of the answer, in tokens.
    pub max_tokens: u32,
    /// Maximum length of the answer, in seconds of speech; 0 for no limit, and `None` for the limit
    /// of the model, if it has one.
    pub answer_seconds: Option<u32>,
    /// Sampling temperature, 0.0 to 1.0.
    pub temperature: f64,
    /// Name of the model; empty for the configured one.
    pub model: String,
    /// Language of the conversation and of its answers, for rules and fixed phrases. Models read it
    /// in the messages.
    pub language: TurnLanguage,
    /// Rules that may answer in place of the model.
    pub instant: InstantScope,
    /// Time since the last remembered answer ended; `None` if it is not known.
    pub since_last: Option<Duration>,
    /// What the person has said before, for rules that must know it although the messages may lack
    /// it: without memory, or if nothing of an answer was heard. Empty if it is in the messages. Not
    /// sent to models.
    pub earlier: EarlierWords,
}

/// Language of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TurnLanguage {
    /// Language of all answers, if one is set; `None` follows the person.
    pub fixed: Option<ReplyLanguage>,
    /// Language of the conversation, for words that do not determine one; `None` if it is not known.
    pub spoken: Option<Language>,
}

impl TurnLanguage {
    /// Returns the language of a turn after these words of the person, oldest first.
    pub fn after<'a>(
        fixed: Option<ReplyLanguage>,
        earlier: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known = |spoken, words| Language::of_words(words, spoken);
        Self { fixed, spoken: earlier.into_iter().fold(None, known) }
    }

    /// Returns the language of fixed phrases in answer to these words. A fixed language without
    /// phrases does not change it.
    pub fn of_phrases(self, words: &str) -> Language {
        let fixed = self.fixed.and_then(ReplyLanguage::of_phrases);
        fixed.or_else(|| Language::of_words(words, self.spoken)).unwrap_or_default()
    }
}

/// Words that a person has said before the last ones of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EarlierWords {
    /// Words of each turn, oldest first.
    pub words: Vec<String>,
    /// Time since the last of these turns ended; `None` if it is not known.
    pub passed: Option<Duration>,
}

impl EarlierWords {
    /// Longest pause after which words go on with a danger: about as long as an ambulance takes.
    pub const DANGER_LASTS: Duration = Duration::from_mins(15);
}

/// Rules that may answer in place of the model, from none to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InstantScope {
    /// No rule answers.
    #[default]
    Off,
    /// Time, date, arithmetic, stop, and commands with one binding.
    Commands,
    /// All rules.
    #[serde(rename = "all")]
    Whole,
}

/// Use of the offered tools by the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// The model decides whether to call them.
    #[default]
    Auto,
    /// The model only answers. The tools are still sent, because model APIs refuse a conversation
    /// with calls of tools that are not offered.
    None,
}

/// Tool as presented to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedTool {
    /// Name of 1 to 64 letters, digits, `_` and `-`; unique in a prompt.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
}

/// Tool call as written by the model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolRequest {
    /// Id of the call, unique in a conversation.
    pub id: String,
    /// Offered name of the tool, if the model wrote it correctly.
    pub name: String,
    /// Arguments: a JSON object, if the model wrote it correctly.
    pub arguments: String,
    /// Number of the connection of the tool, as [`ToolSource::connection_of`] returns it: another
    /// peer may have the name of the tool later. The host sets it, never the model.
    ///
    /// [`ToolSource::connection_of`]: super::ToolSource::connection_of
    #[serde(default, skip_serializing_if = "is_zero")]
    pub connection: u64,
    /// Fields that the model requires in the next request.
    #[serde(skip)]
    pub vendor: VendorFields,
}

/// Returns true for the connection of a source that stands for the same peer on each one.
fn is_zero(connection: &u64) -> bool {
    *connection == 0
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// Role of the author.
    pub role: Role,
    /// Words, or the result of a tool.
    pub content: String,
    /// Calls that the model made in addition to its words. Each is followed by its result.
    pub calls: Vec<ToolRequest>,
    /// Id of the call that a tool message answers; empty for other roles.
    pub answers: String,
    /// Names of tools whose results the model had read when it answered this user message: those
    /// of messages before it, and those of this turn that are no longer in the conversation. The
    /// answer may contain their content. `@` and the connection, in hexadecimal, follow the name of
    /// a tool that was called over a numbered one. Not sent to models.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_from: Vec<String>,
}

impl ChatMessage {
    /// Creates a message with this role.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        let content = content.into();
        Self { role, content, calls: Vec::new(), answers: String::new(), read_from: Vec::new() }
    }

    /// Creates a message of the model with words and calls.
    pub fn calling(content: impl Into<String>, calls: Vec<ToolRequest>) -> Self {
        Self { calls, ..Self::new(Role::Assistant, content) }
    }

    /// Returns the estimated size in memory, in bytes.
    pub fn size_bytes(&self) -> usize {
        let call = |call: &ToolRequest| {
            size_of::<ToolRequest>() + call.id.len() + call.name.len() + call.arguments.len()
        };
        let calls: usize = self.calls.iter().map(call).sum();
        let read_from: usize =
            self.read_from.iter().map(|name| size_of::<String>() + name.len()).sum();
        size_of::<Self>() + self.content.len() + self.answers.len() + calls + read_from
    }

    /// Adds tools whose results the model reads to `read_from`.
    pub fn note_read(&mut self, tools: impl IntoIterator<Item = String>) {
        for tool in tools {
            if !self.read_from.contains(&tool) {
                self.read_from.push(tool);
            }
        }
    }

    /// Creates the result message of a call.
    pub fn result(id: impl Into<String>, content: impl Into<String>) -> Self {
        Self { answers: id.into(), ..Self::new(Role::Tool, content) }
    }
}

/// Piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum LlmDelta {
    /// More text, split anywhere.
    Text(String),
    /// The model starts to write tool calls: the text before is complete.
    Calling,
    /// Complete tool call.
    Call(ToolRequest),
    /// A rule of this name answers, and no model: the first piece of its answer.
    Rule(String),
    /// The answer is over.
    Finished {
        /// True if the answer was cut: at its maximum length, or after its first words by a filter or
        /// a failure.
        truncated: bool,
        /// Token usage, if the provider reports it.
        usage: Option<Usage>,
    },
}

/// Token usage of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Cost of these tokens, in billionths of the currency of the prices; 0 if no price is known.
    #[serde(default)]
    pub cost_nano: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_in_the_fixed_language_or_that_of_the_words_or_of_the_conversation() {
        use Language::{Chinese, English};
        for (fixed, earlier, words, expected) in [
            (None, vec![], "12 + 30", Chinese),
            (None, vec!["What is this?"], "12 + 30", English),
            (None, vec!["Hello."], "12 + 30", English),
            (None, vec!["你好", "OK"], "12 + 30", Chinese),
            (None, vec!["你好"], "Yes.", Chinese),
            (None, vec![], "Yes.", English),
            (None, vec!["What is this?", "你好"], "12 + 30", Chinese),
            (None, vec!["你好"], "What is this?", English),
            (Some(ReplyLanguage::En), vec!["你好"], "打开灯", English),
            (Some(ReplyLanguage::De), vec!["你好"], "12", Chinese),
        ] {
            let language = TurnLanguage::after(fixed, earlier.iter().copied());
            assert_eq!(language.of_phrases(words), expected, "{fixed:?} {earlier:?} {words}");
        }
    }
}
