//! Rules about words: how one is spelled, and what it is in another language. Not for grammar, nor for whole sentences.

use hearken_base::language::{Language, is_han};

use super::Setting;
use crate::act::Act;
use crate::phrasebook::{PHRASES, Tongue};
use crate::template::Slots;

/// Longest word that is spelled.
const LONGEST_WORD: usize = 20;
/// Words that sound like others, pronouns, and words for which our words have one spelling of two.
const UNSURE: [&str; 88] = [
    "it",
    "that",
    "this",
    "them",
    "him",
    "her",
    "me",
    "you",
    "check",
    "word",
    "words",
    "out",
    "name",
    "something",
    "to",
    "too",
    "two",
    "there",
    "their",
    "your",
    "its",
    "here",
    "hear",
    "right",
    "write",
    "rite",
    "see",
    "sea",
    "no",
    "know",
    "new",
    "knew",
    "by",
    "buy",
    "bye",
    "for",
    "four",
    "be",
    "bee",
    "one",
    "won",
    "son",
    "sun",
    "eight",
    "ate",
    "meet",
    "meat",
    "week",
    "weak",
    "flour",
    "flower",
    "hole",
    "whole",
    "pair",
    "pear",
    "peace",
    "piece",
    "plain",
    "plane",
    "red",
    "read",
    "steal",
    "steel",
    "tail",
    "tale",
    "wait",
    "weight",
    "weather",
    "whether",
    "which",
    "witch",
    "color",
    "colors",
    "center",
    "gray",
    "theater",
    "program",
    "favor",
    "meter",
    "meters",
    "kilometer",
    "kilometers",
    "liter",
    "liters",
    "tv",
    "ton",
    "tons",
    "celsius",
];

/// Returns the letters of a word as they are read aloud.
fn letters(word: &str) -> String {
    let letters: Vec<String> =
        word.chars().filter(|c| c.is_alphabetic()).map(|c| c.to_uppercase().collect()).collect();
    letters.join(", ")
}

pub(super) fn spell(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let said = slots.text("word");
    let is_han_word = said.chars().any(is_han);
    // Characters are spelled only if English is asked for.
    if is_han_word && slots.text("han").is_empty() {
        return None;
    }
    let word = if is_han_word {
        PHRASES.find(said, Some(Tongue::Zh))?.text(Tongue::En)?.to_lowercase()
    } else {
        said.to_owned()
    };
    let length = word.chars().count();
    let is_word =
        word.chars().all(|c| c.is_ascii_alphabetic()) && (2..=LONGEST_WORD).contains(&length);
    if !is_word || !is_han_word && UNSURE.contains(&word.as_str()) {
        return None;
    }
    let letters = letters(&word);
    let text = match (setting.language, is_han_word) {
        (Language::Chinese, true) => format!("{said}的英文是{word}，拼写是：{letters}。"),
        (Language::Chinese, false) => format!("{word}这个单词的拼写是：{letters}。"),
        (Language::English, _) => format!("{word}: {letters}."),
    };
    Some(Setting::answer(text))
}

/// Removes what stands around a phrase.
fn bare_phrase(said: &str) -> &str {
    let mut text = said.trim();
    loop {
        let before = text;
        for part in [
            "the word for ",
            "the word ",
            "the phrase ",
            "the ",
            "a ",
            "an ",
            "to ",
            "单词",
            "这个词",
            "一个",
        ] {
            text = text.strip_prefix(part).filter(|rest| !rest.is_empty()).unwrap_or(text);
        }
        for part in ["这个词", "这个单词", "这句话", "这两个字", "这几个字", "一词"]
        {
            text = text.strip_suffix(part).filter(|rest| !rest.is_empty()).unwrap_or(text);
        }
        if text == before {
            return text;
        }
    }
}

pub(super) fn translate(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let to = Tongue::named(slots.text("to"))?;
    let said = slots.text("phrase");
    let phrase = PHRASES.find(said, None).or_else(|| PHRASES.find(bare_phrase(said), None))?;
    let text = phrase.text(to)?;
    let is_own = match setting.language {
        Language::Chinese => to == Tongue::Zh && said.chars().any(is_han),
        Language::English => to == Tongue::En,
    };
    if is_own {
        return None;
    }
    let (zh, en) = to.names();
    let end = if text.ends_with(['?', '？', '!', '.']) { "" } else { "." };
    Some(Setting::answer(setting.say(format!("{zh}是：{text}。"), format!("In {en}: {text}{end}"))))
}
