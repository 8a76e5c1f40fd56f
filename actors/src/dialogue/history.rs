//! What a session remembers: the person's words, and of ours what was heard. Not for storing it.

use std::ops::Range;
use std::sync::Arc;

use super::phrases::{Language, is_han};
use super::turn::{Said, ToolRound, TurnRecord};
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
    /// Messages that are remembered: of both sides, and the tools' calls and results.
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
        let mut prompt = self.opening();
        push_user(&mut prompt.messages, words);
        prompt
    }

    /// What the next prompt begins with, whatever the person says.
    pub fn opening(&self) -> Prompt {
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
        Prompt {
            messages,
            tools: Arc::default(),
            max_tokens: self.settings.max_tokens,
            temperature: self.settings.temperature,
        }
    }

    /// Remembers a finished turn, as far as it was heard.
    pub fn commit(&mut self, record: &TurnRecord, heard: Heard) {
        if let Some(words) = &record.user {
            push_user(&mut self.messages, words);
        }
        let mut from = 0;
        for round in &record.rounds {
            let text = heard_text(&record.said, from..round.after, heard);
            from = round.after;
            self.messages.extend(called(text, round));
        }
        let reply = heard_text(&record.said, from..record.said.len(), heard);
        if !reply.is_empty() {
            self.messages.push(ChatMessage::new(Role::Assistant, reply));
        }
        self.forget();
    }

    /// Forgets whole turns, the oldest first; of a turn that is too long in itself its first
    /// rounds of calls, each with its results: a model's API refuses the one without the other.
    fn forget(&mut self) {
        let max = self.settings.max_messages;
        let is = |role: Role| move |m: &ChatMessage| m.role == role;
        while self.messages.len() > max
            && let Some(turn) = self.messages.iter().skip(1).position(is(Role::User))
        {
            self.messages.drain(..=turn);
        }
        while self.messages.len() > max
            && let Some(calls) = self.messages.iter().position(|m| !m.calls.is_empty())
        {
            let results = self.messages[calls].calls.len();
            self.messages.drain(calls..=calls + results);
        }
        let first = self.messages.iter().position(is(Role::User)).unwrap_or(self.messages.len());
        self.messages.drain(..first);
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

/// A round of calls and its results, with what was heard before it.
fn called(text: String, round: &ToolRound) -> Vec<ChatMessage> {
    let mut messages = vec![ChatMessage::calling(text, round.calls.clone())];
    let results = round.calls.iter().zip(&round.results);
    messages.extend(results.map(|(call, result)| ChatMessage::result(&call.id, result)));
    messages
}

/// Of these sentences the remembered ones that were heard, the last one cut at the heard fraction.
fn heard_text(said: &[Said], range: Range<usize>, heard: Heard) -> String {
    let mut text = String::new();
    for (i, sentence) in said.iter().enumerate().take(range.end).skip(range.start) {
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

/// How long a text takes to speak, roughly.
pub(super) fn estimated_seconds(text: &str) -> f64 {
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
    use crate::ports::ToolRequest;
    use proptest::prelude::*;

    const ALL: Heard = Heard { whole: 99, partial: Duration::ZERO, partial_of: None };

    fn dialogue() -> Dialogue {
        remembering(4)
    }

    fn remembering(max_messages: usize) -> Dialogue {
        Dialogue::new(DialogueSettings {
            system_prompt: "be kind".into(),
            emotion_prompt: String::new(),
            max_messages,
            max_tokens: 50,
            temperature: 0.5,
            language: Language::Chinese,
        })
    }

    fn record(user: &str, said: &[&str]) -> TurnRecord {
        let said = said.iter().map(|s| Said { text: (*s).into(), remembered: true }).collect();
        TurnRecord { user: Some(user.into()), said, rounds: Vec::new(), end: TurnEnd::Completed }
    }

    fn round(after: usize, ids: &[&str]) -> ToolRound {
        let call = |id: &&str| {
            let (id, name) = ((*id).into(), "f".into());
            ToolRequest { id, name, arguments: "{}".into() }
        };
        let results = ids.iter().map(|id| format!("result {id}")).collect();
        ToolRound { after, calls: ids.iter().map(call).collect(), results }
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
    fn calls_are_remembered_with_their_results_between_what_was_heard() {
        let mut d = remembering(10);
        let mut turn = record("hi", &["One.", "Two.", "Three."]);
        turn.rounds = vec![round(1, &["a", "b"])];
        d.commit(&turn, Heard { whole: 2, ..Heard::default() });
        assert_eq!(contents(&d), ["hi", "One.", "result a", "result b", "Two."]);
        assert_eq!(d.messages()[1].calls, turn.rounds[0].calls);
        assert_eq!(d.messages()[3].answers, "b");
    }

    #[test]
    fn of_a_very_long_turn_the_first_rounds_are_forgotten() {
        let mut d = dialogue();
        let mut turn = record("hi", &["Done."]);
        turn.rounds = vec![round(0, &["a"]), round(0, &["b", "c"]), round(0, &["d"])];
        d.commit(&turn, ALL);
        assert_eq!(contents(&d), ["hi", "", "result d", "Done."]);
        d.commit(&record("2", &["ok."]), ALL);
        assert_eq!(contents(&d), ["2", "ok."]);
    }

    proptest! {
        #[test]
        fn calls_and_results_are_never_parted(
            turns in proptest::collection::vec(
                (proptest::collection::vec(1_usize..4, 0..6), 0_usize..3, 0_usize..4), 1..8),
            max in 2_usize..12,
        ) {
            let mut d = remembering(max);
            for (sizes, sentences, whole) in turns {
                let mut turn = record("hi", &["One.", "Two."][..sentences.min(2)]);
                turn.rounds = sizes.iter().map(|n| round(sentences.min(1), &["a", "b", "c"][..*n])).collect();
                d.commit(&turn, Heard { whole, ..Heard::default() });
                let mut messages = d.messages().iter().peekable();
                prop_assert!(messages.peek().is_none_or(|m| m.role == Role::User));
                while let Some(message) = messages.next() {
                    prop_assert_ne!(message.role, Role::Tool, "a result without its call");
                    for call in &message.calls {
                        prop_assert_eq!(&messages.next().expect("a call without its result").answers, &call.id);
                    }
                }
                prop_assert!(d.messages().len() <= max);
            }
        }
    }

    #[test]
    fn a_heard_part_without_known_length_is_estimated() {
        let heard = Heard { whole: 0, partial: Duration::from_secs(1), partial_of: None };
        assert_eq!(cut("一二三四五六七八九", heard), "一二三四");
        assert_eq!(cut("unbreakable", heard), "unbreakable");
    }
}
