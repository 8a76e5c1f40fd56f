//! Fixed phrases in both languages, and which of the two a text is in. Not for what the model
//! says.

/// A phrase in the two languages that we speak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// In Chinese.
    pub zh: String,
    /// In English.
    pub en: String,
}

impl Phrase {
    /// A phrase from its two forms.
    pub fn new(zh: impl Into<String>, en: impl Into<String>) -> Self {
        Self { zh: zh.into(), en: en.into() }
    }

    /// Both forms, without empty ones.
    pub fn all(&self) -> Vec<String> {
        [&self.zh, &self.en].into_iter().filter(|p| !p.is_empty()).cloned().collect()
    }

    /// The form for this language.
    pub fn in_language(&self, language: Language) -> &str {
        match language {
            Language::Chinese => &self.zh,
            Language::English => &self.en,
        }
    }
}

/// The languages that we have phrases for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// Chinese.
    #[default]
    Chinese,
    /// English, and every language without Han characters.
    English,
}

impl Language {
    /// The language of a text: Chinese where it holds any Han character; none where it has no
    /// letters at all.
    pub fn from_key(text: &str) -> Option<Self> {
        if text.chars().any(is_han) {
            return Some(Self::Chinese);
        }
        text.chars().any(char::is_alphabetic).then_some(Self::English)
    }
}

/// A Han character.
pub fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

/// All fixed phrases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrases {
    /// Answers a wake word.
    pub greeting: Phrase,
    /// Said when a provider failed.
    pub apology: Phrase,
    /// Said before the server closes a quiet connection; empty for a silent close.
    pub farewell: Phrase,
    /// Said while a tool takes its time; empty for silence.
    pub filler: Phrase,
    /// Said while it goes on taking its time; empty for silence.
    pub filler_again: Phrase,
    /// Said where tools did what was asked and the model says nothing more; empty for silence.
    pub done: Phrase,
    /// Said instead of an answer where there is more to do than can be done; empty for silence.
    pub busy: Phrase,
}

impl Default for Phrases {
    fn default() -> Self {
        Self {
            greeting: Phrase::new("我在。", "I'm here."),
            apology: Phrase::new(
                "抱歉，我这边出了点问题，请再说一遍。",
                "Sorry, something went wrong. Please try again.",
            ),
            farewell: Phrase::new("那我先休息了，再见。", "I'll rest now. Goodbye."),
            filler: Phrase::new("稍等，我看一下。", "One moment, please."),
            filler_again: Phrase::new("还在处理，请再等等。", "Still working on it."),
            done: Phrase::new("好了。", "Done."),
            busy: Phrase::new(
                "现在有点忙，请过一会儿再说。",
                "I'm busy right now. Please try again in a moment.",
            ),
        }
    }
}

impl Phrases {
    /// Every phrase in both languages, for making their audio beforehand; empty ones left out.
    pub fn all(&self) -> Vec<String> {
        let Self { greeting, apology, farewell, filler, filler_again, done, busy } = self;
        [greeting, apology, farewell, filler, filler_again, done, busy]
            .into_iter()
            .flat_map(Phrase::all)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_of_a_text_is_told_by_its_script() {
        assert_eq!(Language::from_key("播放 Jay 的歌"), Some(Language::Chinese));
        assert_eq!(Language::from_key("What time is it?"), Some(Language::English));
        assert_eq!(Language::from_key("…!? 12"), None);
    }
}
