//! Short jokes and riddles in both languages, and the choice among them. Not for the sentences that ask for one.

use std::sync::LazyLock;

use hearken_base::language::Language;
use serde::Deserialize;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Texts {
    jokes: Vec<String>,
    riddles: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct JokesFile {
    zh: Texts,
    en: Texts,
}

/// The jokes of the crate's file, which a test reads.
static JOKES: LazyLock<JokesFile> =
    LazyLock::new(|| toml::from_str(include_str!("../templates/jokes.toml")).unwrap_or_default());

/// Reports whether a text is one of the jokes or riddles; `None` if it is neither, else whether it is a riddle.
pub(crate) fn kind(text: &str) -> Option<bool> {
    let has = |texts: &[String]| texts.iter().any(|one| one == text);
    let all = [&JOKES.zh, &JOKES.en];
    if all.iter().any(|texts| has(&texts.jokes)) {
        return Some(false);
    }
    all.iter().any(|texts| has(&texts.riddles)).then_some(true)
}

/// Returns the joke or riddle of a minute, another one than `last`.
pub(crate) fn of_minute(
    minute: i64,
    language: Language,
    is_riddle: bool,
    last: Option<&str>,
) -> Option<&'static str> {
    let texts = if language == Language::Chinese { &JOKES.zh } else { &JOKES.en };
    let texts = if is_riddle { &texts.riddles } else { &texts.jokes };
    let count = texts.len().max(1);
    // Consecutive minutes are spread over the list.
    let hash = minute.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let at = usize::try_from(hash).ok()? % count;
    let one = texts.get(at)?;
    let next = texts.get((at + 1) % count)?;
    Some(if last == Some(one.as_str()) { next } else { one })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns about how long a text takes to speak, in tenths of a second.
    fn length(text: &str) -> usize {
        let han = text.chars().filter(|c| hearken_base::language::is_han(*c)).count();
        let words = text.split(' ').filter(|word| word.is_ascii()).count();
        if han > 0 { han * 10 * 2 / 9 } else { words * 100 / 26 }
    }

    #[test]
    fn jokes_are_short_and_there_are_some() {
        let file: JokesFile = toml::from_str(include_str!("../templates/jokes.toml")).unwrap();
        for texts in [&file.zh, &file.en] {
            assert!(texts.jokes.len() >= 15 && texts.riddles.len() >= 5);
            for text in texts.jokes.iter().chain(&texts.riddles) {
                assert!((41..200).contains(&length(text)), "{} {text}", length(text));
                assert!(!text.ends_with(['?', '？']), "{text}");
            }
        }
    }

    #[test]
    fn a_minute_has_one_joke_and_the_next_one_is_another() {
        for minute in 0..60 {
            let first = of_minute(minute, Language::English, false, None).unwrap();
            assert_eq!(of_minute(minute, Language::English, false, None), Some(first));
            assert_ne!(of_minute(minute, Language::English, false, Some(first)), Some(first));
            assert_eq!(kind(first), Some(false));
        }
    }
}
