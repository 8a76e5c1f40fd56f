//! Log format that the server and our other programs share: the syntax of `log.level` (a level, or
//! rules with a level per module), and time stamps; and the start of the log in the other programs.
//! Not for the server's log, which can be changed at run time.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::BoxError;
use crate::programs::variable;

/// Time stamp format: local time of this zone, in microseconds.
pub struct ZoneTime(pub TimeZone);

impl FormatTime for ZoneTime {
    fn format_time(&self, to: &mut Writer<'_>) -> std::fmt::Result {
        let now = Timestamp::now().to_zoned(self.0.clone());
        write!(to, "{}", now.strftime("%Y-%m-%dT%H:%M:%S%.6f%:z"))
    }
}

/// Invalid level or rules.
#[derive(Debug, thiserror::Error)]
#[error("`log.level` is {0}: {remedy}", remedy = Self::REMEDY)]
pub struct LevelError(String);

impl LevelError {
    /// Description of the accepted values.
    pub const REMEDY: &str =
        "use error, warn, info, debug or trace, or rules such as info,hearken=debug";
}

/// Reason for which the log cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The level is invalid.
    #[error(transparent)]
    Level(#[from] LevelError),
    /// The log was already started.
    #[error("cannot start the log")]
    Started(#[source] BoxError),
}

/// Builds the filter of a level, or of filter rules.
///
/// # Errors
/// Fails if the level of a rule is unknown.
pub fn filter(level: &str) -> Result<EnvFilter, LevelError> {
    // rmcp logs the output of tools, which may contain users' words; no log may contain these.
    let rules = format!("{},rmcp=off", rules(level)?);
    EnvFilter::try_new(&rules).map_err(|_| LevelError(level.to_owned()))
}

/// Starts the log with the level and the format of the server, which passes them as environment
/// variables.
///
/// # Errors
/// The level is invalid, or the log was already started.
pub fn start_from_environment() -> Result<(), StartError> {
    let level = variable("HEARKEN__LOG__LEVEL").unwrap_or_else(|| "info".into());
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter(&level)?)
        .with_timer(ZoneTime(TimeZone::system()))
        .with_writer(std::io::stderr);
    let started = match variable("HEARKEN__LOG__FORMAT").as_deref() {
        Some(format) if format.eq_ignore_ascii_case("json") => logs.json().try_init(),
        _ => logs.with_target(false).try_init(),
    };
    started.map_err(StartError::Started)
}

/// Accepted names of levels, including those of other programs.
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

/// Normalises the rules for the log's own parser, which would treat an unknown level as the name of
/// a module, and then log only that module.
fn rules(named: &str) -> Result<String, LevelError> {
    let rules: Option<Vec<String>> = named.split(',').map(|rule| read(rule.trim())).collect();
    rules.map(|rules| rules.join(",")).ok_or_else(|| LevelError(named.to_owned()))
}

/// Parses one rule: a level, or the level of a module.
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
            ("info, hearken=debug", "info,hearken=debug"),
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
            let message = rules(wrong).unwrap_err().to_string();
            let start =
                format!("`log.level` is {wrong}: use error, warn, info, debug or trace, or ");
            assert!(message.starts_with(&start), "{message}");
        }
    }
}
