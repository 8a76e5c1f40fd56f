//! Language of a text, and its words as they are compared. Not for phrases, nor for the language of an answer.

use serde::{Deserialize, Serialize};

/// Language of fixed phrases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Language {
    /// Chinese.
    #[default]
    #[serde(rename = "zh")]
    Chinese,
    /// English, and every language without Han characters.
    #[serde(rename = "en")]
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

/// Reports whether `c` is a Han character. Numbers in the blocks of Unicode that stand for none yet are not.
pub fn is_han(c: char) -> bool {
    matches!(c, '〇' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
        && c.is_alphabetic()
}

/// Returns the letters and digits of a text, in lower case: words are compared so, whatever stands between them.
pub fn bare(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Reports whether two texts have the same words: case, spaces and punctuation do not matter.
pub fn are_same_words(one: &str, other: &str) -> bool {
    bare(one) == bare(other)
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
