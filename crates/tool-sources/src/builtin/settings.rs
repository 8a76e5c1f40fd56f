//! Settings of the built-in tools, and their check. Not for reading them.

use hearken_dialogue::Character;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{NAMES, roleplay};

/// Longest name of a character, in characters.
const MAX_NAME_CHARS: usize = 100;
/// Longest description of a character, in characters.
const MAX_PERSONA_CHARS: usize = 2_000;

/// Section `[tools.builtin]`: the built-in tools and the services that they use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BuiltinSettings {
    /// Built-in tools to offer: `get_weather`, `get_current_time`, `get_location`,
    /// `set_response_language`, `get_response_language`, `list_supported_languages`,
    /// `enter_roleplay_mode`, `exit_roleplay_mode`, `get_roleplay_status`,
    /// `list_available_characters`. Devices get only the first three; the others change the
    /// language and the character of a text client's conversation. An empty list offers
    /// none.
    pub enabled: Vec<String>,
    /// Weather forecast service: Open-Meteo, or a service with the same API. The free
    /// service of Open-Meteo is not licensed for commercial use.
    pub weather_url: String,
    /// Place search service: Open-Meteo, or a service with the same API.
    pub geocoding_url: String,
    /// Service that locates this server by its public IP address: ip-api.com, or a service
    /// with the same API. The free service has no HTTPS and is not licensed for commercial
    /// use.
    pub location_url: String,
    /// Maximum time for a built-in tool, including all of its requests.
    #[schemars(range(min = 500, max = 60_000))]
    pub timeout_ms: u64,
    /// Characters that the model can play on request, each with a `name` and a `persona`.
    /// Names must differ.
    pub characters: Vec<Character>,
}

/// Returns the default characters.
fn characters() -> Vec<Character> {
    let known = [
        (
            "孙悟空",
            "你是齐天大圣孙悟空，机灵好胜、嫉恶如仇，自称“俺老孙”，说话爽快，爱开玩笑，常提起花果山和取经路上的事。",
        ),
        (
            "诸葛亮",
            "你是蜀汉丞相诸葛亮，字孔明，沉稳儒雅、深谋远虑，说话半文半白，喜欢先分析形势，再从容献上一计。",
        ),
        (
            "Sherlock Holmes",
            "You are Sherlock Holmes of Baker Street: keen, dry and a little vain. You draw bold \
             conclusions from small details, and explain them briskly, as if to Dr Watson.",
        ),
    ];
    known.map(|(name, persona)| Character { name: name.into(), persona: persona.into() }).to_vec()
}

impl Default for BuiltinSettings {
    fn default() -> Self {
        Self {
            enabled: NAMES.map(str::to_owned).to_vec(),
            weather_url: "https://api.open-meteo.com/v1/forecast".into(),
            geocoding_url: "https://geocoding-api.open-meteo.com/v1/search".into(),
            location_url: "http://ip-api.com/json/".into(),
            timeout_ms: 8_000,
            characters: characters(),
        }
    }
}

/// Reason why the settings of the built-in tools cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`tools.builtin.{key}` {reason}")]
pub struct BuiltinError {
    /// Name of the key.
    pub key: &'static str,
    /// Description of the mistake and of the allowed values.
    pub reason: String,
}

impl BuiltinSettings {
    /// Checks the settings.
    ///
    /// # Errors
    /// Fails for an unknown tool, an invalid address, or a character that cannot be selected by its
    /// name.
    pub fn check(&self) -> Result<(), BuiltinError> {
        if let Some(name) = self.enabled.iter().find(|n| !NAMES.contains(&n.as_str())) {
            let reason = format!("names `{name}`: use {}", NAMES.join(", "));
            return Err(BuiltinError { key: "enabled", reason });
        }
        for (key, url) in [
            ("weather_url", &self.weather_url),
            ("geocoding_url", &self.geocoding_url),
            ("location_url", &self.location_url),
        ] {
            address(key, url)?;
        }
        self.check_characters()
    }

    fn check_characters(&self) -> Result<(), BuiltinError> {
        let wrong = |reason| Err(BuiltinError { key: "characters", reason });
        let mut names = std::collections::HashSet::new();
        for Character { name, persona } in &self.characters {
            let normalised = roleplay::normalised(name);
            if normalised.is_empty() || name.chars().count() > MAX_NAME_CHARS {
                return wrong(format!("needs names of 1 to {MAX_NAME_CHARS} characters"));
            }
            if persona.chars().count() > MAX_PERSONA_CHARS {
                return wrong(format!(
                    "tells too much of `{name}`: use at most {MAX_PERSONA_CHARS} characters"
                ));
            }
            if !names.insert(normalised) {
                return wrong(format!("has `{name}` twice: use names that differ"));
            }
        }
        Ok(())
    }
}

/// Parses the address of a service.
pub(super) fn address(key: &'static str, url: &str) -> Result<Url, BuiltinError> {
    let read = Url::parse(url).ok();
    let read = read.filter(|u| matches!(u.scheme(), "http" | "https") && u.host().is_some());
    read.ok_or_else(|| {
        let reason = format!("is {url}: use http:// or https:// and a host");
        BuiltinError { key, reason }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_settings_are_named_with_their_remedy() {
        let right = BuiltinSettings::default();
        assert_eq!(right.check(), Ok(()));
        let with = |characters: &[(&str, &str)]| {
            let one = |(name, persona): &(&str, &str)| Character {
                name: (*name).into(),
                persona: (*persona).into(),
            };
            let characters = characters.iter().map(one).collect();
            BuiltinSettings { characters, ..right.clone() }
        };
        assert_eq!(with(&[("x".repeat(100).as_str(), &"好".repeat(2_000))]).check(), Ok(()));
        for (wrong, says) in [
            (
                BuiltinSettings { enabled: vec!["dance".into()], ..right.clone() },
                "`tools.builtin.enabled` names `dance`: use get_weather, get_current_time, get_location, \
                 set_response_language, get_response_language, list_supported_languages, \
                 enter_roleplay_mode, exit_roleplay_mode, get_roleplay_status, \
                 list_available_characters",
            ),
            (
                BuiltinSettings { weather_url: "ftp://a/".into(), ..right.clone() },
                "`tools.builtin.weather_url` is ftp://a/: use http:// or https:// and a host",
            ),
            (with(&[(" ", "")]), "`tools.builtin.characters` needs names of 1 to 100 characters"),
            (
                with(&[(&"x".repeat(101), "")]),
                "`tools.builtin.characters` needs names of 1 to 100 characters",
            ),
            (
                with(&[("A", ""), ("‘a’", "")]),
                "`tools.builtin.characters` has `‘a’` twice: use names that differ",
            ),
            (
                with(&[("A", &"好".repeat(2_001))]),
                "`tools.builtin.characters` tells too much of `A`: use at most 2000 characters",
            ),
        ] {
            assert_eq!(wrong.check().unwrap_err().to_string(), says);
        }
    }
}
