//! Role of a voice assistant: its answers, its voice and its behaviour, if they differ from the
//! configuration. Not for the assignment of roles.

use hearken_proto::text_gateway::MAX_SYSTEM_PROMPT_CHARS;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::llm::InstantScope;
use crate::reply_language::ReplyLanguage;
use crate::usage::DailyLimits;

/// Maximum number of characters of the name of a model, a voice or a source.
pub const MAX_NAME_CHARS: usize = 200;
/// Maximum configurable length of an answer, in tokens.
pub const MAX_TOKENS: u32 = 100_000;
/// Maximum configurable length of an answer, in seconds of speech.
pub const MAX_ANSWER_SECONDS: u32 = 3_600;
/// Maximum daily cost limit, in units of the currency.
const MAX_DAILY_COST: f64 = 1e9;
/// Maximum number of sources that a role switches off.
pub const MAX_TOOLS_OFF: usize = 100;

/// Stored part of finished turns.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// Nothing is stored.
    #[default]
    Off,
    /// The words, as text.
    Text,
    /// The words and the sound.
    Audio,
}

/// Effect of voice during an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InterruptionManner {
    /// Pauses the answer until the words are known.
    Pause,
    /// Ends the answer.
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
    /// Maximum length of an answer, in tokens.
    pub max_tokens: Option<u32>,
    /// Maximum length of an answer, in seconds of speech; 0 for no limit.
    pub answer_seconds: Option<u32>,
    /// Name of the synthesiser's voice.
    pub voice: String,
    /// Language of all answers; `None` follows the person.
    pub language: Option<ReplyLanguage>,
    /// Names of the tool sources that are switched off. `endpoint` stands for all tool clients, and
    /// `token:SERIAL` for those with this token, whatever they call themselves.
    pub tools_off: Vec<String>,
    /// Effect of voice during an answer.
    pub interruption: Option<InterruptionManner>,
    /// Rules that may answer in place of the model.
    pub instant: Option<InstantScope>,
    /// False if each question is answered without earlier ones.
    pub memory: bool,
    /// Stored part of its conversations.
    pub history: Option<Keep>,
    /// Tokens per day for all conversations with this role together; 0 allows none.
    pub daily_tokens: Option<u64>,
    /// Seconds of speech per day, heard and spoken, for all of them together.
    pub daily_seconds: Option<u64>,
    /// Cost per day for all of them together.
    pub daily_cost: Option<f64>,
}

impl Default for RoleSettings {
    fn default() -> Self {
        Self {
            system_prompt: String::new(),
            model: String::new(),
            temperature: None,
            max_tokens: None,
            answer_seconds: None,
            voice: String::new(),
            language: None,
            tools_off: Vec::new(),
            interruption: None,
            instant: None,
            memory: true,
            history: None,
            daily_tokens: None,
            daily_seconds: None,
            daily_cost: None,
        }
    }
}

impl RoleSettings {
    /// Returns these settings, with missing ones taken from `other`. Memory is on only if it is on
    /// in both, and a tool source is off if it is off in either.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        let text = |own: &String, other: &String| {
            if own.trim().is_empty() { other.clone() } else { own.clone() }
        };
        let mut tools_off = other.tools_off.clone();
        tools_off
            .extend(self.tools_off.iter().filter(|name| !other.tools_off.contains(name)).cloned());
        Self {
            system_prompt: text(&self.system_prompt, &other.system_prompt),
            model: text(&self.model, &other.model),
            temperature: self.temperature.or(other.temperature),
            max_tokens: self.max_tokens.or(other.max_tokens),
            answer_seconds: self.answer_seconds.or(other.answer_seconds),
            voice: text(&self.voice, &other.voice),
            language: self.language.or(other.language),
            tools_off,
            interruption: self.interruption.or(other.interruption),
            instant: self.instant.or(other.instant),
            // What either forbids stays forbidden; all other fields are the person's first. Decision 0083.
            memory: self.memory && other.memory,
            history: self.history.or(other.history),
            daily_tokens: self.daily_tokens.or(other.daily_tokens),
            daily_seconds: self.daily_seconds.or(other.daily_seconds),
            daily_cost: self.daily_cost.or(other.daily_cost),
        }
    }

    /// Checks the limits of all settings.
    ///
    /// # Errors
    /// The violated limit, with the name of the field.
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
        if self.answer_seconds.is_some_and(|most| most > MAX_ANSWER_SECONDS) {
            return Err(format!(
                "`answer_seconds` is a whole number from 0 to {MAX_ANSWER_SECONDS}"
            ));
        }
        if self.daily_cost.is_some_and(|most| !(0.0..=MAX_DAILY_COST).contains(&most)) {
            return Err(format!("`daily_cost` is a number from 0 to {MAX_DAILY_COST}"));
        }
        Ok(())
    }

    /// Returns the daily limits of all conversations with this role together.
    pub fn limits(&self) -> DailyLimits {
        let Self { daily_tokens: tokens, daily_seconds: seconds, daily_cost: cost, .. } = *self;
        DailyLimits { tokens, seconds, cost }
    }

    /// Returns true if this source of tools is switched off.
    pub fn is_off(&self, source: &str) -> bool {
        self.tools_off.iter().any(|off| off == source)
    }
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
        let wrong: [(&str, Change); 10] = [
            ("system_prompt", |role| role.system_prompt = "x".repeat(8_001)),
            ("model", |role| role.model = "x".repeat(201)),
            ("voice", |role| role.voice = "a\nb".into()),
            ("tools_off", |role| role.tools_off = vec!["\u{0}".into()]),
            ("tools_off", |role| role.tools_off = vec![String::new(); 101]),
            ("temperature", |role| role.temperature = Some(1.01)),
            ("temperature", |role| role.temperature = Some(f64::NAN)),
            ("max_tokens", |role| role.max_tokens = Some(0)),
            ("answer_seconds", |role| role.answer_seconds = Some(3_601)),
            ("daily_cost", |role| role.daily_cost = Some(-0.1)),
        ];
        for (field, change) in wrong {
            let message = with(change).unwrap_err();
            assert!(message.starts_with(&format!("`{field}`")), "{message}");
        }
    }

    #[test]
    fn unknown_fields_are_refused_and_missing_ones_come_from_the_configuration() {
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
