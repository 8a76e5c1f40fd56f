//! Rule for facts that do not change: the answer of a template, with what the row of a fact says. Not for the facts, see
//! `crate::facts`.

use super::Setting;
use crate::act::Act;
use crate::facts::{FACTS, Fact};
use crate::template::Slots;
use crate::value::Value;

/// Returns a word with its indefinite article.
fn with_article(word: &str) -> String {
    let is_vowel = word.starts_with(['a', 'e', 'i', 'o', 'A', 'E', 'I', 'O']);
    format!("{} {word}", if is_vowel { "an" } else { "a" })
}

/// Fills `{0}`, which stands for a column, and `{a0}`, which is the column with its article; `None` if a column says nothing.
fn filled(answer: &str, fact: Option<&Fact>, setting: &Setting<'_>) -> Option<String> {
    let mut text = String::new();
    let mut rest = answer;
    while let Some((before, behind)) = rest.split_once('{') {
        let (place, after) = behind.split_once('}')?;
        let column = place.trim_start_matches('a');
        let said = FACTS.said(fact?, column.parse().ok()?, setting.language)?;
        text.push_str(before);
        text.push_str(&if column == place { said.to_owned() } else { with_article(said) });
        rest = after;
    }
    text.push_str(rest);
    let mut chars = text.chars();
    Some(chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect())
}

pub(super) fn fact(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let found = match slots.get("it") {
        Some(Value::Fact(found)) => Some(found),
        _ => None,
    };
    let text = filled(slots.text("answer"), found, setting)?;
    (!text.is_empty()).then(|| Setting::answer(text.replace("..", ".")))
}
