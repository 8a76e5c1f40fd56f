//! Fixed phrases in Chinese and English, and detection of a text's language. Not for the model's
//! words.

/// Phrase in the two supported languages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// Chinese text.
    pub zh: String,
    /// English text.
    pub en: String,
}

impl Phrase {
    /// Creates a phrase from its Chinese and English texts.
    pub fn new(zh: impl Into<String>, en: impl Into<String>) -> Self {
        Self { zh: zh.into(), en: en.into() }
    }

    /// Returns both texts, without empty ones.
    pub fn all(&self) -> Vec<String> {
        [&self.zh, &self.en].into_iter().filter(|p| !p.is_empty()).cloned().collect()
    }

    /// Returns the text in this language.
    pub fn in_language(&self, language: Language) -> &str {
        match language {
            Language::Chinese => &self.zh,
            Language::English => &self.en,
        }
    }
}

/// Languages that have fixed phrases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// Chinese.
    #[default]
    Chinese,
    /// English, and every other language without Han characters.
    English,
}

impl Language {
    /// Returns the language of a text: Chinese if it contains a Han character, `None` if it has no
    /// letters.
    pub fn from_key(text: &str) -> Option<Self> {
        if text.chars().any(is_han) {
            return Some(Self::Chinese);
        }
        text.chars().any(char::is_alphabetic).then_some(Self::English)
    }
}

/// Reports whether `c` is a Han character.
pub fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

/// All fixed phrases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrases {
    /// Answer to a wake word.
    pub greeting: Phrase,
    /// Spoken when a provider failed.
    pub apology: Phrase,
    /// Spoken before the server closes an idle connection. Empty for a silent close.
    pub farewell: Phrase,
    /// Spoken while a tool call takes long. Empty for silence.
    pub filler: Phrase,
    /// Spoken while the tool call still takes long. Empty for silence.
    pub filler_again: Phrase,
    /// Spoken when the tools succeeded and the model says nothing more. Empty for silence.
    pub done: Phrase,
    /// Spoken instead of an answer when the server has no capacity. Empty for silence.
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
    /// Returns every phrase in both languages, to synthesise their audio in advance. Leaves out
    /// empty ones.
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
