//! Conversation style of a session: its language, character and instructions. Not for the tools
//! that change the style, nor for the messages.

use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use crate::role::AssignedRole;

/// Clock that returns the local date and time for a model, such as `2025-02-21 20:15 Friday
/// +08:00`.
pub type LocalTime = Arc<dyn Fn() -> String + Send + Sync>;

/// Lookup of a dialogue's current style, called before each turn.
pub type CurrentStyle = Arc<dyn Fn() -> ConversationStyle + Send + Sync>;

/// Placeholder for the date and time in instructions.
pub const CURRENT_TIME: &str = "{current_time}";

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
    /// Returns the instruction to answer in this language, to stand after others.
    pub(crate) fn rule(self) -> String {
        let (zh, en) = (self.name_zh(), self.name_en());
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

/// Character that the model can play.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Character {
    /// Name by which people ask for the character.
    pub name: String,
    /// Description of the character and its way of speaking, for the model.
    pub persona: String,
}

/// Conversation style of one session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ConversationStyle {
    /// Language of all answers. `None` follows the person.
    pub language: Option<ReplyLanguage>,
    /// Character that the model plays.
    pub character: Option<Character>,
    /// Instructions that replace the deployment's. Empty to use the deployment's.
    pub system_prompt: String,
    /// Role of the device or of the person.
    #[serde(skip)]
    pub role: Option<Arc<AssignedRole>>,
}

/// Style of a session, shared by its turns and its tools.
pub type SharedStyle = Arc<Mutex<ConversationStyle>>;

impl ConversationStyle {
    /// Returns the style for a person with a role of their own. Its instructions come before those of the device.
    #[must_use]
    pub fn with_role(self, role: Option<Arc<AssignedRole>>) -> Self {
        let Some(role) = role else { return self };
        let instructs = !role.system_prompt.trim().is_empty();
        let system_prompt = if instructs { String::new() } else { self.system_prompt };
        Self { system_prompt, role: Some(role), ..self }
    }

    /// Returns the instructions for the model, from the deployment's instructions and the time of
    /// day.
    pub fn instructions(&self, deployment: &str, now: &str) -> String {
        let role = self.role.as_ref().map_or("", |role| role.system_prompt.as_str());
        let own = [self.system_prompt.as_str(), role].into_iter();
        let base = own.into_iter().find(|own| !own.trim().is_empty()).unwrap_or(deployment);
        let mut text = base.replace(CURRENT_TIME, now);
        if let Some(Character { name, persona }) = &self.character {
            text += &format!(
                "\n\n现在请扮演“{name}”，始终以这个角色的身份和口吻说话，直到用户要求退出角色扮演。{persona}"
            );
        }
        let of_role = self.role.as_ref().and_then(|role| role.language);
        if let Some(language) = self.language.or(of_role) {
            text += &language.rule();
        }
        text
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

    #[test]
    fn instructions_hold_the_time_the_role_and_the_language() {
        let mut style = ConversationStyle::default();
        assert_eq!(style.instructions("now {current_time}", "noon"), "now noon");
        style.system_prompt = "mine, {current_time}".into();
        assert_eq!(style.instructions("theirs", "noon"), "mine, noon");
        style.system_prompt = " ".into();
        style.language = Some(ReplyLanguage::De);
        style.character =
            Some(Character { name: "孙悟空".into(), persona: "你是齐天大圣。".into() });
        let told = style.instructions("be kind", "noon");
        assert!(told.starts_with("be kind\n\n"), "{told}");
        for part in ["孙悟空", "你是齐天大圣。", "德语", "German"] {
            assert!(told.contains(part), "{told}");
        }
    }
}
