//! The settings of the built-in tools, and whether they make sense. Not where they are read.

use serde::{Deserialize, Serialize};
use url::Url;

use super::NAMES;

/// The built-in tools, and whom they ask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BuiltinSettings {
    /// The names of the tools that are offered.
    pub enabled: Vec<String>,
    /// Open-Meteo's forecast, or a service of the same shape.
    pub weather_url: String,
    /// Open-Meteo's geocoding, or a service of the same shape.
    pub geocoding_url: String,
    /// ip-api.com's locator, or a service of the same shape.
    pub location_url: String,
    /// Longest time for a tool, all its questions to the outside together.
    pub timeout_ms: u64,
}

impl Default for BuiltinSettings {
    fn default() -> Self {
        Self {
            enabled: NAMES.map(str::to_owned).to_vec(),
            weather_url: "https://api.open-meteo.com/v1/forecast".into(),
            geocoding_url: "https://geocoding-api.open-meteo.com/v1/search".into(),
            location_url: "http://ip-api.com/json/".into(),
            timeout_ms: 8_000,
        }
    }
}

/// Why the settings of the built-in tools cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`tools.builtin.{key}` {reason}")]
pub struct BuiltinError {
    /// The key.
    pub key: &'static str,
    /// What is wrong, and what may stand there.
    pub reason: String,
}

impl BuiltinSettings {
    /// The settings can be used.
    ///
    /// # Errors
    /// A tool that there is not, or an address that is none.
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
        Ok(())
    }
}

/// The address of a service.
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
        for (wrong, says) in [
            (
                BuiltinSettings { enabled: vec!["dance".into()], ..right.clone() },
                "`tools.builtin.enabled` names `dance`: use get_weather, get_current_time, get_location",
            ),
            (
                BuiltinSettings { weather_url: "ftp://a/".into(), ..right },
                "`tools.builtin.weather_url` is ftp://a/: use http:// or https:// and a host",
            ),
        ] {
            assert_eq!(wrong.check().unwrap_err().to_string(), says);
        }
    }
}
