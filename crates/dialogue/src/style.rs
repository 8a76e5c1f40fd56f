//! Conversation style of a session: its language, character and instructions. Not for the tools
//! that change the style, nor for the messages.

use std::sync::{Arc, Mutex};

use hearken_ports::InstantScope;
use hearken_ports::reply_language::ReplyLanguage;
use hearken_proto::ids::DeviceId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::role::AssignedRole;

/// Clock that returns the local date and time for a model, such as `2025-02-21 20:15 Friday
/// +08:00`.
pub type LocalTime = Arc<dyn Fn() -> String + Send + Sync>;

/// Lookup of a dialogue's current style, called before each turn.
pub type CurrentStyle = Arc<dyn Fn() -> ConversationStyle + Send + Sync>;

/// Lookup of a device's current conversation style; must not wait.
pub type StyleLookup = Arc<dyn Fn(&DeviceId) -> ConversationStyle + Send + Sync>;

/// Placeholder for the date and time in instructions.
pub const CURRENT_TIME: &str = "{current_time}";

/// Character that the model can play.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Character {
    /// Name of the character, as people ask for it.
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
    /// Returns the style for a person with a role of their own, which takes precedence over the
    /// device's role. Its instructions come before those of the device.
    #[must_use]
    pub fn with_role(self, role: Option<Arc<AssignedRole>>) -> Self {
        let Some(role) = role else { return self };
        if role.is_missing {
            // The limits and the name of the device's role still apply.
            let mut device = self.role.map_or(AssignedRole::missing(), Arc::unwrap_or_clone);
            device.is_missing = true;
            return Self { role: Some(Arc::new(device)), ..self };
        }
        let instructs = !role.system_prompt.trim().is_empty();
        let system_prompt = if instructs { String::new() } else { self.system_prompt };
        let role = match &self.role {
            None => role,
            Some(device) => Arc::new(AssignedRole {
                role_id: role.role_id.clone(),
                name: role.name.clone(),
                settings: role.settings.over(&device.settings),
                is_missing: device.is_missing,
            }),
        };
        Self { system_prompt, role: Some(role), ..self }
    }

    /// Makes the changes between two styles of a session in this one. The role is not the session's.
    pub fn repeat_changes(&mut self, before: &Self, after: &Self) {
        if after.language != before.language {
            self.language = after.language;
        }
        if after.character != before.character {
            self.character.clone_from(&after.character);
        }
        if after.system_prompt != before.system_prompt {
            self.system_prompt.clone_from(&after.system_prompt);
        }
    }

    /// Returns the rules that may answer in place of the model: none for a character, those that the
    /// role chooses, and with instructions of its own only those whose answer does not depend on
    /// instructions.
    pub fn instant(&self) -> InstantScope {
        let chosen = self.role.as_ref().and_then(|role| role.instant);
        match &self.character {
            Some(_) => InstantScope::Off,
            None if let Some(scope) = chosen => scope,
            None if self.has_instructions() => InstantScope::Commands,
            None => InstantScope::Whole,
        }
    }

    /// Returns the maximum length of an answer in seconds of speech, 0 for no limit: that of the
    /// role, or `deployment` for the deployment's instructions. Instructions of its own, or a
    /// character, may ask for long answers.
    pub fn answer_seconds(&self, deployment: u32) -> u32 {
        let of_role = self.role.as_ref().and_then(|role| role.answer_seconds);
        let is_instructed = self.character.is_some() || self.has_instructions();
        of_role.unwrap_or(if is_instructed { 0 } else { deployment })
    }

    /// Reports whether the instructions are not those of the deployment.
    fn has_instructions(&self) -> bool {
        let instructed = |text: &str| !text.trim().is_empty();
        instructed(&self.system_prompt)
            || self.role.as_ref().is_some_and(|role| instructed(&role.system_prompt))
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
        if let Some(seconds) = self.role.as_ref().and_then(|role| role.answer_seconds)
            && seconds > 0
        {
            text += &format!("\n\nAn answer is spoken aloud and takes at most {seconds} seconds.");
        }
        if let Some(language) = self.answer_language() {
            text += &language.rule();
        }
        text
    }

    /// Returns the language of all answers, if one is set: in the conversation, or else by the role.
    pub fn answer_language(&self) -> Option<ReplyLanguage> {
        let of_role = self.role.as_ref().and_then(|role| role.language);
        self.language.or(of_role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_answer_as_the_role_or_else_the_instructions_allow() {
        let style = |prompt: &str, instant| {
            let mut role = AssignedRole::default();
            role.settings.system_prompt = prompt.into();
            role.settings.instant = instant;
            ConversationStyle { role: Some(Arc::new(role)), ..ConversationStyle::default() }
        };
        assert_eq!(ConversationStyle::default().instant(), InstantScope::Whole);
        assert_eq!(style("", None).instant(), InstantScope::Whole);
        assert_eq!(style("Be kind.", None).instant(), InstantScope::Commands);
        for scope in [InstantScope::Off, InstantScope::Whole] {
            let mut style = style("Be kind.", Some(scope));
            assert_eq!(style.instant(), scope);
            style.character = Some(Character { name: "孙悟空".into(), persona: String::new() });
            assert_eq!(style.instant(), InstantScope::Off, "a character is the model's");
        }
    }

    #[test]
    fn an_answer_is_as_long_as_the_role_or_else_the_instructions_allow() {
        let style = |prompt: &str, seconds| {
            let mut role = AssignedRole::default();
            role.settings.system_prompt = prompt.into();
            role.settings.answer_seconds = seconds;
            ConversationStyle { role: Some(Arc::new(role)), ..ConversationStyle::default() }
        };
        for (prompt, seconds, limit) in [
            ("", None, 30),
            ("", Some(0), 0),
            ("", Some(9), 9),
            ("Tell stories.", None, 0),
            ("Tell stories.", Some(120), 120),
        ] {
            let style = style(prompt, seconds);
            assert_eq!(style.answer_seconds(30), limit, "{prompt} {seconds:?}");
            let told = style.instructions("be kind", "noon");
            assert_eq!(told.contains("seconds"), seconds.is_some_and(|s| s > 0), "{told}");
        }
        assert_eq!(ConversationStyle::default().answer_seconds(30), 30);
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
