//! Checks of a small model's sentences before they are spoken: an echo of the question is no
//! answer, a deed needs a call, the assistant has one name, and an answer ends in time. Not for
//! large models, nor for the questions that a rule answers.

use hearken_base::language::{Language, has_chinese, has_japanese_or_korean, is_han};
use hearken_instant::DEFAULT_NAME;
use hearken_ports::TurnLanguage;
use hearken_ports::reply_language::ReplyLanguage;

use crate::claims::{Claim, claim, is_command};
use crate::identity::{is_of_others, names_others};
use crate::text::{contains_any, is_long_text};

/// Similarity from which a sentence is an echo.
const ECHO: f64 = 0.8;
/// Fewest characters of a question that can be echoed.
const MIN_ECHO_CHARS: usize = 4;
/// Fewest letters of a sentence whose language is checked.
const MIN_LANGUAGE_LETTERS: usize = 12;

/// Words of a request for another language.
const TRANSLATION: [&str; 30] = [
    "translate",
    "translation",
    " say ",
    " in chinese",
    " in english",
    " in french",
    " in german",
    " in spanish",
    " in japanese",
    " in korean",
    " in italian",
    " in russian",
    " in latin",
    "spell",
    "word for",
    "翻译",
    "英文",
    "英语",
    "日语",
    "法语",
    "德语",
    "韩语",
    "西班牙语",
    "意大利语",
    "俄语",
    "拉丁",
    "外语",
    "怎么拼",
    "单词",
    "拼写",
];

/// What happens with a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It is spoken.
    Keep,
    /// It is left out.
    Drop,
    /// It claims or promises a deed: it is judged again once a call or the end of the answer follows.
    Wait,
    /// This text is spoken in its place, and the answer ends.
    Replace(String),
}

/// Checks of one answer.
#[derive(Debug)]
pub(crate) struct Checks {
    bare_question: Vec<char>,
    /// Language of the phrases that replace an answer.
    language: Language,
    /// Language that the answer must have; `None` if it is not known.
    expected: Option<ReplyLanguage>,
    name: String,
    /// True if a call of the turn succeeded, or the request is for a text in which deeds are told.
    may_claim: bool,
    has_succeeded: bool,
    /// True once the model has made a call in this answer.
    has_called: bool,
    /// True if the question is a command: only then a sentence on a state is a claim.
    is_command: bool,
    /// False if another's name in the answer may be that of a character.
    has_identity: bool,
    any_language: bool,
    spoken: Vec<Vec<char>>,
}

/// Returns the letters and digits of a text, with persons exchanged alike: an echo may say "you".
fn bare(text: &str) -> Vec<char> {
    let lower = text.to_lowercase().replace(['您', '我'], "你");
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
        .map(|word| match word {
            "my" | "your" => "your",
            "i" | "me" | "you" => "you",
            "am" | "are" => "are",
            word => word,
        })
        .collect();
    words.concat().chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Returns the similarity of two texts: twice the shared pairs of characters by all pairs.
fn similarity(a: &[char], b: &[char]) -> f64 {
    let mut pairs: Vec<&[char]> = b.windows(2).collect();
    let all = a.len().saturating_sub(1) + pairs.len();
    if all == 0 {
        return f64::from(u8::from(a == b));
    }
    let mut shared = 0_u32;
    for pair in a.windows(2) {
        if let Some(at) = pairs.iter().position(|other| *other == pair) {
            pairs.swap_remove(at);
            shared += 1;
        }
    }
    f64::from(2 * shared) / f64::from(u32::try_from(all).unwrap_or(u32::MAX))
}

/// Returns the language that an answer must have; `None` if it is not known: a question with
/// Japanese or Korean in it may be in either, or in Chinese.
fn expected(question: &str, language: TurnLanguage) -> Option<ReplyLanguage> {
    if language.fixed.is_some() || has_japanese_or_korean(question) {
        return language.fixed;
    }
    Language::of_words(question, language.spoken).map(|spoken| match spoken {
        Language::Chinese => ReplyLanguage::Zh,
        Language::English => ReplyLanguage::En,
    })
}

impl Checks {
    /// Creates the checks of an answer to a question in a turn with this language. `has_succeeded`
    /// says whether a call of the turn has succeeded.
    pub(crate) fn new(
        question: &str,
        language: TurnLanguage,
        name: &str,
        has_succeeded: bool,
    ) -> Self {
        let asked = Language::of_words(question, language.spoken).unwrap_or_default();
        let lower = format!(" {} ", question.to_lowercase());
        let any_language = contains_any(&lower, &TRANSLATION);
        Self {
            bare_question: bare(question),
            language: language.of_phrases(question),
            expected: expected(question, language),
            name: name.trim().into(),
            may_claim: has_succeeded || is_long_text(question) || any_language,
            has_succeeded,
            has_called: false,
            is_command: is_command(question, asked),
            has_identity: !(is_long_text(question) && names_others(&lower)),
            any_language,
            spoken: Vec::new(),
        }
    }

    fn say(&self, zh: &str, en: &str) -> String {
        if self.language == Language::Chinese { zh.to_owned() } else { en.to_owned() }
    }

    /// Returns what the second try of an answer adds to the question.
    pub(crate) fn reminder(&self) -> String {
        match self.language {
            Language::Chinese => {
                let named = self.expected.map_or("话", ReplyLanguage::name_zh);
                format!("\n（请用一句{named}直接回答，不要重复问题。不知道就说不知道。）")
            }
            Language::English => {
                let named = self.expected.map_or("short", ReplyLanguage::name_en);
                format!(
                    "\n(Answer in one {named} sentence. Do not repeat the question. If you do not know, say so.)"
                )
            }
        }
    }

    /// Returns what is spoken if no sentence remains.
    pub(crate) fn without_sentence(&self) -> String {
        if self.has_succeeded {
            return self.say("好的。", "Okay, done.");
        }
        self.say("抱歉，这个我不知道。", "Sorry, I don't know that.")
    }

    /// Returns what is spoken in place of a claim that no call follows.
    pub(crate) fn declined(&self) -> String {
        self.say("抱歉，这个我做不到。", "Sorry, I can't do that.")
    }

    /// Records that the model makes a call in this answer.
    pub(crate) fn note_call(&mut self) {
        self.has_called = true;
    }

    /// Judges the next sentence.
    pub(crate) fn judge(&mut self, sentence: &str) -> Decision {
        let said = bare(sentence);
        if said.is_empty() {
            return Decision::Keep;
        }
        if self.is_echo(&said) || self.spoken.contains(&said) || self.is_other_language(sentence) {
            return Decision::Drop;
        }
        let lower = sentence.to_lowercase().replace('’', "'");
        if self.has_identity && is_of_others(&lower) {
            let in_english = if self.name.is_empty() { DEFAULT_NAME } else { &self.name };
            let zh = format!("我是语音助手{}。", self.name);
            let en = format!("I'm {in_english}, a voice assistant.");
            return Decision::Replace(self.say(&zh, &en));
        }
        if !self.may_claim
            && let Some(claim) = claim(&lower, self.is_command)
        {
            match claim {
                _ if !self.has_called => return Decision::Wait,
                // Nothing is done yet: its result is told in the next round.
                Claim::Done => return Decision::Drop,
                Claim::Promised => {}
            }
        }
        self.spoken.push(said);
        Decision::Keep
    }

    fn is_echo(&self, said: &[char]) -> bool {
        self.bare_question.len() >= MIN_ECHO_CHARS
            && !self.any_language
            && similarity(said, &self.bare_question) >= ECHO
    }

    /// Reports whether a sentence is Chinese in place of English or the reverse, though no other
    /// language was asked for.
    fn is_other_language(&self, sentence: &str) -> bool {
        let han = sentence.chars().filter(|c| is_han(*c)).count();
        let latin = sentence.chars().filter(char::is_ascii_alphabetic).count();
        !self.any_language
            && match self.expected.and_then(ReplyLanguage::of_phrases) {
                Some(Language::Chinese) => han == 0 && latin >= MIN_LANGUAGE_LETTERS,
                Some(Language::English) => {
                    has_chinese(sentence)
                        && (latin == 0 || han >= MIN_LANGUAGE_LETTERS / 2 && han > latin)
                }
                None => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(question: &str, sentence: &str) -> Decision {
        judged_in(TurnLanguage::default(), question, sentence)
    }

    fn judged_in(language: TurnLanguage, question: &str, sentence: &str) -> Decision {
        Checks::new(question, language, "Mira", false).judge(sentence)
    }

    #[test]
    fn right_answers_are_unchanged() {
        let mut count = 0;
        for line in include_str!("right_answers.txt").lines().filter(|l| !l.starts_with('#')) {
            let (question, answer) = line.split_once(" | ").unwrap();
            assert_eq!(judged(question, answer), Decision::Keep, "{question}: {answer}");
            count += 1;
        }
        assert!(count > 120, "{count}");
    }

    #[test]
    fn an_echo_is_no_answer() {
        for (question, sentence) in [
            ("我家的猫在哪里", "您家的猫在哪里？"),
            ("what is the name of my dog", "What is the name of your dog?"),
        ] {
            assert_eq!(judged(question, sentence), Decision::Drop, "{sentence}");
        }
        for (question, sentence) in [
            ("what is the capital of Spain", "The capital of Spain is Madrid."),
            ("一公斤有多少克", "一公斤有一千克。"),
            ("hi", "Hi!"),
        ] {
            assert_eq!(judged(question, sentence), Decision::Keep, "{sentence}");
        }
    }

    #[test]
    fn the_assistant_is_no_product_of_others() {
        for (question, sentence) in [
            ("who are you", "I am a language model by OpenAI."),
            ("你是谁", "我是阿里云开发的通义千问。"),
            ("what is your name", "My name is Qwen."),
        ] {
            let decision = judged(question, sentence);
            assert!(
                matches!(&decision, Decision::Replace(text) if text.contains("Mira")),
                "{decision:?}"
            );
        }
        for (question, sentence) in [
            ("who founded Google", "Google was founded by Larry Page and Sergey Brin."),
            ("阿里巴巴是谁创办的", "阿里巴巴是马云创办的。"),
            ("are you Siri", "No, I am not made by OpenAI."),
        ] {
            assert_eq!(judged(question, sentence), Decision::Keep, "{sentence}");
        }
    }

    #[test]
    fn a_deed_needs_a_call() {
        let mut count = 0;
        for line in include_str!("false_claims.txt").lines().filter(|l| !l.starts_with('#')) {
            let (question, sentence) = line.split_once(" | ").unwrap();
            assert_eq!(judged(question, sentence), Decision::Wait, "{question}: {sentence}");
            let mut done = Checks::new(question, TurnLanguage::default(), "Mira", true);
            assert_eq!(done.judge(sentence), Decision::Keep, "after a call: {sentence}");
            let mut calling = Checks::new(question, TurnLanguage::default(), "Mira", false);
            calling.note_call();
            assert_ne!(calling.judge(sentence), Decision::Wait, "beside a call: {sentence}");
            count += 1;
        }
        assert!(count > 40, "{count}");
        for (question, sentence) in [
            ("can you sing", "I will do my best."),
            ("who invented the radio", "The prize has been awarded to Marconi."),
            ("怎么煮饭", "先打开锅盖，再加水。"),
            ("你会提醒我吗", "抱歉，我不会提醒您。"),
            ("tell me a story", "\"I have opened the gate,\" said the fox."),
        ] {
            assert_eq!(judged(question, sentence), Decision::Keep, "{sentence}");
        }
    }

    #[test]
    fn an_answer_has_one_language_and_no_sentence_twice() {
        assert_eq!(judged("为什么天是蓝的", "The sky is blue because of the air."), Decision::Drop);
        assert_eq!(judged("why is the sky blue", "因为空气散射了阳光里的蓝光。"), Decision::Drop);
        assert_eq!(judged("用英语说晚安吧", "Good night, sleep well."), Decision::Keep);
        let language = TurnLanguage::default();
        let mut checks = Checks::new("why is the sky blue", language, "Mira", false);
        for decision in [Decision::Keep, Decision::Drop] {
            assert_eq!(checks.judge("The air scatters blue light."), decision);
        }
    }

    #[test]
    fn an_answer_has_the_language_of_the_turn() {
        let turn = |fixed, spoken| TurnLanguage { fixed, spoken };
        let zh = Some(Language::Chinese);
        let en = Some(Language::English);
        let blue = "The sky is blue because of the air.";
        for (language, question, sentence, expected) in [
            (turn(Some(ReplyLanguage::En), zh), "为什么天是蓝的", blue, Decision::Keep),
            (turn(Some(ReplyLanguage::En), zh), "为什么天是蓝的", "因为空气。", Decision::Drop),
            (turn(Some(ReplyLanguage::Zh), en), "why is the sky blue", blue, Decision::Drop),
            (
                turn(Some(ReplyLanguage::Zh), en),
                "why is the sky blue",
                "因为空气。",
                Decision::Keep,
            ),
            (turn(Some(ReplyLanguage::De), zh), "为什么", "Das liegt an der Luft.", Decision::Keep),
            (turn(Some(ReplyLanguage::Ja), en), "why", "空気分子。", Decision::Keep),
            (turn(None, en), "7 * 8 / 3", "That is almost nineteen.", Decision::Keep),
            (turn(None, en), "7 * 8 / 3", "大约是十九。", Decision::Drop),
            (turn(None, zh), "7 * 8 / 3", "That is almost nineteen.", Decision::Drop),
            (turn(None, None), "7 * 8 / 3", "That is almost nineteen.", Decision::Keep),
            (turn(None, zh), "日本の首都はどこですか", "東京です。", Decision::Keep),
            (turn(None, en), "日本の首都はどこですか", "東京。", Decision::Keep),
            (turn(None, en), "今日何曜日", "火曜日。", Decision::Keep),
            (turn(None, en), "what is on the menu", "寿司とラーメンです。", Decision::Keep),
        ] {
            let decision = judged_in(language, question, sentence);
            assert_eq!(decision, expected, "{language:?} {question}: {sentence}");
        }
    }

    #[test]
    fn the_second_try_names_the_language_of_the_turn() {
        let reminder = |fixed, question: &str| {
            Checks::new(question, TurnLanguage { fixed, spoken: None }, "Mira", false).reminder()
        };
        for (fixed, question, named) in [
            (None, "为什么", "一句中文"),
            (None, "why", "one English sentence"),
            (None, "なぜですか", "one short sentence"),
            (Some(ReplyLanguage::Ja), "为什么", "一句日语"),
            (Some(ReplyLanguage::Fr), "why", "one French sentence"),
            (Some(ReplyLanguage::En), "为什么", "one English sentence"),
        ] {
            let text = reminder(fixed, question);
            assert!(text.contains(named), "{fixed:?} {question}: {text}");
        }
    }
}
