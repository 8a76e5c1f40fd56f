//! Languages of answers: those that a role or a text client fixes, with their names. Not for the
//! languages of words, see [`hearken_base::language`].

use hearken_base::language::Language;
use serde::{Deserialize, Serialize};

/// Language of the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "ISO 639-1 codes")]
pub enum ReplyLanguage {
    Zh,
    En,
    Ja,
    Ko,
    De,
    Fr,
    Ru,
    Pt,
    Es,
    It,
}

impl ReplyLanguage {
    /// Returns the instruction to answer in this language, to append to other instructions.
    pub fn rule(self) -> String {
        let zh = self.name_zh();
        let en = self.name_en();
        format!(
            "\n\n无论用户使用哪种语言，都请用{zh}回答。Always answer in {en}, whatever language the user speaks."
        )
    }

    /// All languages, in the order of the gateway's document.
    pub const ALL: [Self; 10] = [
        Self::Zh,
        Self::En,
        Self::Ja,
        Self::Ko,
        Self::De,
        Self::Fr,
        Self::Ru,
        Self::Pt,
        Self::Es,
        Self::It,
    ];

    /// Returns the ISO 639-1 code, the Chinese name and the English name.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Zh => ("zh", "中文", "Chinese"),
            Self::En => ("en", "英语", "English"),
            Self::Ja => ("ja", "日语", "Japanese"),
            Self::Ko => ("ko", "韩语", "Korean"),
            Self::De => ("de", "德语", "German"),
            Self::Fr => ("fr", "法语", "French"),
            Self::Ru => ("ru", "俄语", "Russian"),
            Self::Pt => ("pt", "葡萄牙语", "Portuguese"),
            Self::Es => ("es", "西班牙语", "Spanish"),
            Self::It => ("it", "意大利语", "Italian"),
        }
    }

    /// Returns the language of fixed phrases for conversations in this language, if there are
    /// phrases for it.
    pub fn of_phrases(self) -> Option<Language> {
        match self {
            Self::Zh => Some(Language::Chinese),
            Self::En => Some(Language::English),
            _ => None,
        }
    }

    /// Returns the ISO 639-1 code.
    pub fn code(self) -> &'static str {
        self.names().0
    }

    /// Returns the Chinese name.
    pub fn name_zh(self) -> &'static str {
        self.names().1
    }

    /// Returns the English name.
    pub fn name_en(self) -> &'static str {
        self.names().2
    }

    /// Finds a language by its code, also with a region (`en-US`), or by one of its names.
    pub fn named(text: &str) -> Option<Self> {
        let text = text.trim();
        let code = text.split(['-', '_']).next().unwrap_or_default();
        Self::ALL.into_iter().find(|language| {
            let (own, zh, en) = language.names();
            own.eq_ignore_ascii_case(code) || zh == text || en.eq_ignore_ascii_case(text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_found_by_code_and_by_name() {
        for (text, language) in [
            ("en", Some(ReplyLanguage::En)),
            (" zh-CN ", Some(ReplyLanguage::Zh)),
            ("PT_br", Some(ReplyLanguage::Pt)),
            ("日语", Some(ReplyLanguage::Ja)),
            ("french", Some(ReplyLanguage::Fr)),
            ("xx", None),
            ("", None),
        ] {
            assert_eq!(ReplyLanguage::named(text), language, "{text}");
        }
        for language in ReplyLanguage::ALL {
            assert_eq!(ReplyLanguage::named(language.code()), Some(language));
        }
    }
}
