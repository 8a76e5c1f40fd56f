//! What a session remembers: the person's words, and of ours what was heard. Not for storing it.

use super::phrases::{Language, is_han};
use super::turn::{Said, TurnRecord};
use crate::audio::playout::Heard;
use crate::ports::{ChatMessage, Prompt, Role};

/// Characters a second spoken, for a sentence whose length is not known yet: Han, and others.
const HAN_PER_SECOND: f64 = 4.5;
const LATIN_PER_SECOND: f64 = 15.0;

/// Said to the model after its instructions when the person speaks Chinese: small models answer in
/// the language of their instructions otherwise.
const IN_CHINESE: &str = "\n请用中文回答。";

/// How a session talks.
#[derive(Debug, Clone, PartialEq)]
pub struct DialogueSettings {
    /// Tells the model how to behave.
    pub system_prompt: String,
    /// Asks the model for an emoji, which becomes the device's face and is never spoken; stands
    /// after the system prompt. Empty shows the neutral face.
    pub emotion_prompt: String,
    /// Messages of both sides that are remembered.
    pub max_messages: usize,
    /// Longest reply, in tokens.
    pub max_tokens: u32,
    /// 0.0 to 1.0.
    pub temperature: f32,
    /// Spoken before the first words of a person are known.
    pub language: Language,
}

/// One dialogue.
#[derive(Debug)]
pub struct Dialogue {
    settings: DialogueSettings,
    messages: Vec<ChatMessage>,
    language: Language,
}

impl Dialogue {
    /// A dialogue that has not begun.
    pub fn new(settings: DialogueSettings) -> Self {
        let language = settings.language;
        Self { settings, messages: Vec::new(), language }
    }

    /// The language last spoken to us.
    pub fn language(&self) -> Language {
        self.language
    }

    /// Notes the language of what a person said.
    pub fn heard_words(&mut self, text: &str) {
        self.language = Language::of(text).unwrap_or(self.language);
    }

    /// Keeps words that will be answered together with the next ones.
    pub fn keep_words(&mut self, words: &str) {
        self.heard_words(words);
        push_user(&mut self.messages, words);
    }

    /// Takes back the words at the end that nobody has answered.
    pub fn take_unanswered(&mut self) -> Option<String> {
        let last = self.messages.pop_if(|m| m.role == Role::User)?;
        Some(last.content)
    }

    /// What the model is asked when a person says this. Words that were never answered, because
    /// the person went on speaking, stand before them in the same message.
    pub fn prompt(&self, words: &str) -> Prompt {
        let mut system = self.settings.system_prompt.clone();
        if !self.settings.emotion_prompt.is_empty() {
            system.push(' ');
            system.push_str(&self.settings.emotion_prompt);
        }
        if self.language == Language::Chinese {
            system.push_str(IN_CHINESE);
        }
        let mut messages = vec![ChatMessage::new(Role::System, system)];
        messages.extend(self.messages.iter().cloned());
        push_user(&mut messages, words);
        Prompt {
            messages,
            max_tokens: self.settings.max_tokens,
            temperature: self.settings.temperature,
        }
    }

    /// Remembers a finished turn, as far as it was heard.
    pub fn commit(&mut self, record: &TurnRecord, heard: Heard) {
        if let Some(words) = &record.user {
            push_user(&mut self.messages, words);
        }
        let reply = heard_text(&record.said, heard);
        if !reply.is_empty() {
            self.messages.push(ChatMessage::new(Role::Assistant, reply));
        }
        let surplus = self.messages.len().saturating_sub(self.settings.max_messages);
        self.messages.drain(..surplus);
        if self.messages.first().is_some_and(|m| m.role == Role::Assistant) {
            self.messages.remove(0);
        }
    }

    /// What is remembered, oldest first.
    pub fn messages(&self) -> &[ChatMessage] {
        &self.messages
    }
}

fn push_user(messages: &mut Vec<ChatMessage>, words: &str) {
    match messages.last_mut() {
        Some(last) if last.role == Role::User => join(&mut last.content, words),
        _ => messages.push(ChatMessage::new(Role::User, words)),
    }
}

/// The remembered sentences that were heard, the last one cut at the heard fraction.
fn heard_text(said: &[Said], heard: Heard) -> String {
    let mut text = String::new();
    for (i, sentence) in said.iter().enumerate() {
        let part = match heard {
            _ if i < heard.whole => sentence.text.as_str(),
            _ if i == heard.whole => cut(&sentence.text, heard),
            _ => break,
        };
        if sentence.remembered {
            join(&mut text, part);
        }
    }
    text
}

/// The beginning of a sentence that was heard: by its length where that is known, else by the
/// usual pace of speech. Never ends inside a word.
fn cut(text: &str, heard: Heard) -> &str {
    let total = heard.partial_of.map_or_else(|| estimated_seconds(text), |d| d.as_secs_f64());
    let fraction = (heard.partial.as_secs_f64() / total.max(0.001)).min(1.0);
    let count = text.chars().count();
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a sentence has a few hundred characters, and the fraction is 0 to 1"
    )]
    let keep = (count as f64 * fraction) as usize;
    let end = text.char_indices().nth(keep).map_or(text.len(), |(i, _)| i);
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && !is_han(c));
    if inside(text[..end].chars().next_back()) && inside(text[end..].chars().next()) {
        let word = text[..end].rfind(|c: char| !inside(Some(c)));
        return word.map_or("", |i| text[..i].trim_end());
    }
    text[..end].trim_end()
}

fn estimated_seconds(text: &str) -> f64 {
    text.chars().map(|c| 1.0 / if is_han(c) { HAN_PER_SECOND } else { LATIN_PER_SECOND }).sum()
}

/// Appends a sentence, with a space between where the script uses spaces.
fn join(text: &mut String, next: &str) {
    let tight =
        |c: Option<char>| c.is_none_or(|c| is_han(c) || "。，！？；：、…”」』）".contains(c));
    if !next.is_empty() && !tight(text.chars().next_back()) {
        text.push(' ');
    }
    text.push_str(next);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::dialogue::turn::TurnEnd;

    const ALL: Heard = Heard { whole: 99, partial: Duration::ZERO, partial_of: None };

    fn dialogue() -> Dialogue {
        Dialogue::new(DialogueSettings {
            system_prompt: "be kind".into(),
            emotion_prompt: String::new(),
            max_messages: 4,
            max_tokens: 50,
            temperature: 0.5,
            language: Language::Chinese,
        })
    }

    fn record(user: &str, said: &[&str]) -> TurnRecord {
        let said = said.iter().map(|s| Said { text: (*s).into(), remembered: true }).collect();
        TurnRecord { user: Some(user.into()), said, end: TurnEnd::Completed }
    }

    fn contents(dialogue: &Dialogue) -> Vec<&str> {
        dialogue.messages().iter().map(|m| m.content.as_str()).collect()
    }

    #[test]
    fn what_was_not_heard_is_not_remembered() {
        let mut d = dialogue();
        let heard = Heard {
            whole: 1,
            partial: Duration::from_millis(500),
            partial_of: Some(Duration::from_secs(1)),
        };
        d.commit(&record("hi", &["One.", "Two three four five.", "Six."]), heard);
        assert_eq!(contents(&d), ["hi", "One. Two three"]);
        let mut d = dialogue();
        d.commit(&record("你好", &["你好呀！", "今天很好。"]), ALL);
        assert_eq!(contents(&d), ["你好", "你好呀！今天很好。"]);
    }

    #[test]
    fn a_turn_cut_before_it_was_heard_joins_the_next() {
        let mut d = dialogue();
        d.commit(&record("Tell me", &["Sure."]), Heard::default());
        assert_eq!(d.prompt("about cats.").messages[1].content, "Tell me about cats.");
    }

    #[test]
    fn the_model_is_told_to_answer_in_the_persons_language() {
        let mut d = dialogue();
        assert_eq!(d.prompt("").messages[0].content, "be kind\n请用中文回答。");
        d.heard_words("What is this?");
        assert_eq!(d.prompt("").messages[0].content, "be kind");
    }

    #[test]
    fn fixed_phrases_are_not_remembered() {
        let mut d = dialogue();
        let mut apology = record("hi", &["Sorry."]);
        apology.said[0].remembered = false;
        d.commit(&apology, ALL);
        assert_eq!(contents(&d), ["hi"]);
    }

    #[test]
    fn old_messages_are_forgotten_from_a_question_on() {
        let mut d = dialogue();
        for n in ["1", "2", "3"] {
            d.commit(&record(n, &["ok."]), ALL);
        }
        assert_eq!(contents(&d), ["2", "ok.", "3", "ok."]);
    }

    #[test]
    fn a_heard_part_without_known_length_is_estimated() {
        let heard = Heard { whole: 0, partial: Duration::from_secs(1), partial_of: None };
        assert_eq!(cut("一二三四五六七八九", heard), "一二三四");
        assert_eq!(cut("unbreakable", heard), "unbreakable");
    }
}
