//! Role of a voice assistant: how it answers, sounds and behaves, where that differs from the configuration. Not for who has
//! which role.

use std::ops::Deref;
use std::sync::Arc;

use hearken_proto::gateway::MAX_SYSTEM_PROMPT_CHARS;
use serde::{Deserialize, Serialize};

use crate::dialogue::ReplyLanguage;
use crate::ports::ToolSource;
use crate::turn_trace::Keep;
use crate::usage::DailyLimits;

/// Most characters of the name of a model, a voice or a source.
pub const MAX_NAME_CHARS: usize = 200;
/// Longest answer that can be allowed, in tokens.
pub const MAX_TOKENS: u32 = 100_000;
/// Highest limit of the cost of a day, in units of the currency.
const MAX_DAILY_COST: f64 = 1e9;
/// Most sources that a role switches off.
pub const MAX_TOOLS_OFF: usize = 100;

/// Lookup of a role by its id, or also by its name; must not wait.
pub type RoleLookup = Arc<dyn Fn(&str) -> Option<Arc<AssignedRole>> + Send + Sync>;

/// Lookup of the role of a device as it is now; must not wait.
pub type CurrentRole = Arc<dyn Fn() -> Option<Arc<AssignedRole>> + Send + Sync>;

/// Role as somebody has it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AssignedRole {
    /// Id of the role; empty for one that is only tried.
    pub role_id: String,
    /// Its name.
    pub name: String,
    /// Its settings.
    pub settings: RoleSettings,
}

impl Deref for AssignedRole {
    type Target = RoleSettings;

    fn deref(&self) -> &RoleSettings {
        &self.settings
    }
}

/// What voice does while an answer is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InterruptionManner {
    /// It pauses the answer until it is known what was said.
    Pause,
    /// It ends the answer.
    Cut,
}

/// Settings of a role. Empty texts and `None` stand for the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RoleSettings {
    /// Instructions for the model.
    pub system_prompt: String,
    /// Name of the model, at the configured address.
    pub model: String,
    /// Sampling temperature, 0.0 to 1.0.
    pub temperature: Option<f64>,
    /// Longest answer, in tokens.
    pub max_tokens: Option<u32>,
    /// Name of the synthesiser's voice.
    pub voice: String,
    /// Language of all answers; `None` follows the person.
    pub language: Option<ReplyLanguage>,
    /// Names of the sources of tools that it does not have.
    pub tools_off: Vec<String>,
    /// What voice does while an answer is played.
    pub interruption: Option<InterruptionManner>,
    /// False if each question stands alone.
    pub memory: bool,
    /// How much is kept of its conversations.
    pub history: Option<Keep>,
    /// Tokens that all who have it may use in a day, together; 0 for nothing at all.
    pub daily_tokens: Option<u64>,
    /// Seconds of speech, heard and said, that they may use in a day.
    pub daily_seconds: Option<u64>,
    /// Cost that they may cause in a day.
    pub daily_cost: Option<f64>,
}

impl Default for RoleSettings {
    fn default() -> Self {
        Self {
            system_prompt: String::new(),
            model: String::new(),
            temperature: None,
            max_tokens: None,
            voice: String::new(),
            language: None,
            tools_off: Vec::new(),
            interruption: None,
            memory: true,
            history: None,
            daily_tokens: None,
            daily_seconds: None,
            daily_cost: None,
        }
    }
}

impl RoleSettings {
    /// Checks the limits of all settings.
    ///
    /// # Errors
    /// What is wrong, with the name of the field.
    pub fn check(&self) -> Result<(), String> {
        let long = |text: &str, most: usize| text.chars().count() > most;
        if long(&self.system_prompt, MAX_SYSTEM_PROMPT_CHARS) {
            return Err(format!(
                "`system_prompt` has at most {MAX_SYSTEM_PROMPT_CHARS} characters"
            ));
        }
        let names = [("model", &self.model), ("voice", &self.voice)];
        let names = names.into_iter().chain(self.tools_off.iter().map(|name| ("tools_off", name)));
        for (field, name) in names {
            if long(name, MAX_NAME_CHARS) || name.chars().any(char::is_control) {
                let most = MAX_NAME_CHARS;
                return Err(format!("`{field}` is a name of at most {most} visible characters"));
            }
        }
        if self.tools_off.len() > MAX_TOOLS_OFF {
            return Err(format!("`tools_off` has at most {MAX_TOOLS_OFF} names"));
        }
        if self.temperature.is_some_and(|t| !(0.0..=1.0).contains(&t)) {
            return Err("`temperature` is a number from 0 to 1".into());
        }
        if self.max_tokens.is_some_and(|most| !(1..=MAX_TOKENS).contains(&most)) {
            return Err(format!("`max_tokens` is a whole number from 1 to {MAX_TOKENS}"));
        }
        if self.daily_cost.is_some_and(|most| !(0.0..=MAX_DAILY_COST).contains(&most)) {
            return Err(format!("`daily_cost` is a number from 0 to {MAX_DAILY_COST}"));
        }
        Ok(())
    }

    /// Returns what all who have it may use in a day.
    pub fn limits(&self) -> DailyLimits {
        let Self { daily_tokens: tokens, daily_seconds: seconds, daily_cost: cost, .. } = *self;
        DailyLimits { tokens, seconds, cost }
    }

    /// Reports whether it does not have this source of tools.
    pub fn is_off(&self, source: &str) -> bool {
        self.tools_off.iter().any(|off| off == source)
    }
}

/// Returns the role that is configured for all clients of a kind, if there is one.
pub(crate) fn configured(roles: &RoleLookup, called: &str) -> Option<Arc<AssignedRole>> {
    (!called.is_empty()).then(|| roles(called)).flatten()
}

/// Returns the sources that clients in a configured role have; none while there is no such role: it may be there to keep
/// tools from them.
pub(crate) fn usable(
    mut sources: Vec<Arc<dyn ToolSource>>,
    configured: &str,
    role: Option<Arc<AssignedRole>>,
) -> Vec<Arc<dyn ToolSource>> {
    match role {
        Some(role) => sources.retain(|source| !role.is_off(source.name())),
        None if !configured.is_empty() => sources.clear(),
        None => {}
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut RoleSettings);

    #[test]
    fn each_limit_is_checked_with_the_name_of_its_field() {
        let with = |change: Change| {
            let mut role = RoleSettings::default();
            change(&mut role);
            role.check()
        };
        assert_eq!(with(|_| ()), Ok(()));
        assert_eq!(with(|role| role.system_prompt = "说".repeat(8_000)), Ok(()));
        let wrong: [(&str, Change); 9] = [
            ("system_prompt", |role| role.system_prompt = "x".repeat(8_001)),
            ("model", |role| role.model = "x".repeat(201)),
            ("voice", |role| role.voice = "a\nb".into()),
            ("tools_off", |role| role.tools_off = vec!["\u{0}".into()]),
            ("tools_off", |role| role.tools_off = vec![String::new(); 101]),
            ("temperature", |role| role.temperature = Some(1.01)),
            ("temperature", |role| role.temperature = Some(f64::NAN)),
            ("max_tokens", |role| role.max_tokens = Some(0)),
            ("daily_cost", |role| role.daily_cost = Some(-0.1)),
        ];
        for (field, change) in wrong {
            let told = with(change).unwrap_err();
            assert!(told.starts_with(&format!("`{field}`")), "{told}");
        }
    }

    #[test]
    fn unknown_fields_are_refused_and_missing_ones_are_those_of_the_configuration() {
        let read = |json: &str| serde_json::from_str::<RoleSettings>(json);
        assert_eq!(read("{}").unwrap(), RoleSettings::default());
        let role =
            read(r#"{"interruption":"cut","history":"audio","language":"de","memory":false}"#);
        let role = role.unwrap();
        assert_eq!(
            (role.interruption, role.history),
            (Some(InterruptionManner::Cut), Some(Keep::Audio))
        );
        assert_eq!((role.language, role.memory), (Some(ReplyLanguage::De), false));
        assert!(read(r#"{"prompt":"x"}"#).is_err());
    }
}
