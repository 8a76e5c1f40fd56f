//! The phrasebook: everyday words and phrases in some languages. Not for sentences of people, which rules read.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::normalise::words_of;

/// Language of a phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tongue {
    Zh,
    En,
    Es,
    Fr,
    De,
    Ja,
    Ko,
    It,
}

const TONGUES: [(&str, Tongue, &str, &str); 8] = [
    ("zh", Tongue::Zh, "中文", "Chinese"),
    ("en", Tongue::En, "英语", "English"),
    ("es", Tongue::Es, "西班牙语", "Spanish"),
    ("fr", Tongue::Fr, "法语", "French"),
    ("de", Tongue::De, "德语", "German"),
    ("ja", Tongue::Ja, "日语", "Japanese"),
    ("ko", Tongue::Ko, "韩语", "Korean"),
    ("it", Tongue::It, "意大利语", "Italian"),
];

impl Tongue {
    /// Returns the language that templates call so.
    pub(crate) fn named(name: &str) -> Option<Self> {
        TONGUES.iter().find(|tongue| tongue.0 == name).map(|tongue| tongue.1)
    }

    /// Returns the name in Chinese and in English.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        TONGUES
            .iter()
            .find(|tongue| tongue.1 == self)
            .map_or(("", ""), |tongue| (tongue.2, tongue.3))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PhrasesFile {
    /// Each: Chinese, English, Spanish, French, German, Japanese, Korean, Italian. Other words of the same meaning follow `|` in
    /// the first two.
    phrases: Vec<[String; 8]>,
}

/// One meaning in all languages.
#[derive(Debug, Clone)]
pub(crate) struct Phrase {
    texts: [String; 8],
    /// Names in Chinese and in English, as they are compared.
    names: [Vec<Vec<String>>; 2],
}

impl Phrase {
    /// Returns the phrase in a language; `None` if it has none.
    pub(crate) fn text(&self, tongue: Tongue) -> Option<&str> {
        let at = TONGUES.iter().position(|entry| entry.1 == tongue)?;
        let text = self.texts.get(at)?.split('|').next()?.trim();
        (!text.is_empty()).then_some(text)
    }
}

/// All phrases.
#[derive(Debug, Clone, Default)]
pub(crate) struct Phrases(Vec<Phrase>);

/// The phrases of the crate's file, which a test reads.
pub(crate) static PHRASES: LazyLock<Phrases> =
    LazyLock::new(|| Phrases::builtin().unwrap_or_default());

impl Phrases {
    fn builtin() -> Result<Self, toml::de::Error> {
        let file: PhrasesFile = toml::from_str(include_str!("../templates/phrasebook.toml"))?;
        let names = |text: &str| text.split('|').map(|name| words_of(name).words).collect();
        let phrase = |texts: [String; 8]| {
            let [zh, en, ..] = &texts;
            Phrase { names: [names(zh), names(en)], texts }
        };
        Ok(Self(file.phrases.into_iter().map(phrase).collect()))
    }

    /// Returns the phrase that is called so in Chinese or English, or in the one of them that is given; `None` if it is not known.
    pub(crate) fn find(&self, said: &str, tongue: Option<Tongue>) -> Option<&Phrase> {
        let words = words_of(said).words;
        let has = |phrase: &&Phrase| {
            let [zh, en] = &phrase.names;
            tongue != Some(Tongue::En) && zh.contains(&words)
                || tongue != Some(Tongue::Zh) && en.contains(&words)
        };
        self.0.iter().find(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phrasebook_is_read_and_has_each_phrase_once() {
        let phrases = Phrases::builtin().unwrap();
        assert!(phrases.0.len() >= 150, "{}", phrases.0.len());
        for phrase in &phrases.0 {
            for name in phrase.names.iter().flatten() {
                let same = phrases
                    .0
                    .iter()
                    .filter(|other| other.names.iter().flatten().any(|of| of == name));
                assert_eq!(same.count(), 1, "{name:?}");
                assert!(!name.is_empty());
            }
        }
    }

    #[test]
    fn phrases_are_found_in_both_languages() {
        let text = |said: &str, tongue: Tongue| {
            PHRASES.find(said, None).and_then(|phrase| phrase.text(tongue)).map(str::to_owned)
        };
        assert_eq!(text("good morning", Tongue::De).as_deref(), Some("guten Morgen"));
        assert_eq!(text("猫", Tongue::En).as_deref(), Some("cat"));
        assert_eq!(text("photosynthesis", Tongue::Fr), None);
    }
}
