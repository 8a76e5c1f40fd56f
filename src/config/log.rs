//! Section `[log]`, and the syntax of `log.level`: a level, or rules with a level for each part.
//! Not for applying them.

use serde::{Deserialize, Serialize};

use super::reader::ConfigError;

/// Section `[log]`: level and format of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// Level (`error`, `warn`, `info`, `debug`, `trace`), or rules such as
    /// `info,hearken_actors=debug`.
    pub level: String,
    /// Format: `text` or `json`.
    pub format: LogFormat,
}

/// Format of the log's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text for people.
    #[default]
    #[serde(alias = "TEXT", alias = "Text")]
    Text,
    /// One JSON object per line.
    #[serde(alias = "JSON", alias = "Json")]
    Json,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::Text }
    }
}

/// Levels, with the names that other programs use for them.
const LEVELS: [(&str, &str); 9] = [
    ("error", "error"),
    ("warn", "warn"),
    ("info", "info"),
    ("debug", "debug"),
    ("trace", "trace"),
    ("off", "off"),
    ("warning", "warn"),
    ("critical", "error"),
    ("fatal", "error"),
];

/// Normalises the rules for the log's own parser, which takes a word that is not a level as the
/// name of a part, and would then log only that part.
///
/// # Errors
/// Fails if the level of a rule is unknown.
pub fn rules(named: &str) -> Result<String, ConfigError> {
    let rules: Option<Vec<String>> = named.split(',').map(|rule| read(rule.trim())).collect();
    rules.map(|rules| rules.join(",")).ok_or_else(|| {
        let remedy =
            "use error, warn, info, debug or trace, or rules such as info,hearken_actors=debug";
        ConfigError::Value { key: "log.level", value: named.to_owned(), remedy: remedy.to_owned() }
    })
}

/// Parses one rule: a level, or the level of a part.
fn read(rule: &str) -> Option<String> {
    let level = |named: &str| {
        LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(named)).map(|(_, level)| *level)
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_:-".contains(c);
    match rule.split_once('=') {
        None => level(rule).map(str::to_owned),
        Some((part, _)) if part.is_empty() || !part.chars().all(is_name) => None,
        Some((part, named)) => level(named).map(|level| format!("{part}={level}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_rules_are_read_and_typing_mistakes_are_refused() {
        for (named, read) in [
            ("info", "info"),
            ("WARNING", "warn"),
            ("critical", "error"),
            ("off", "off"),
            ("info, hearken_actors=debug", "info,hearken_actors=debug"),
            ("warn,hearken::http=Trace,rmcp=warning", "warn,hearken::http=trace,rmcp=warn"),
        ] {
            assert_eq!(rules(named).unwrap(), read, "{named}");
        }
        for wrong in [
            "wran",
            "",
            "hearken=debug,wran",
            "hearken=debg",
            "info,",
            "=info",
            "loud=x=y",
            "hearken",
        ] {
            let told = rules(wrong).unwrap_err().to_string();
            let start =
                format!("`log.level` is {wrong}: use error, warn, info, debug or trace, or ");
            assert!(told.starts_with(&start), "{told}");
        }
    }
}
