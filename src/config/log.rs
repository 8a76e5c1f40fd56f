//! Section `[log]`. Not for the syntax of `log.level`, nor for applying it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[log]`: level and format of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// Log level (`error`, `warn`, `info`, `debug` or `trace`), or rules such as
    /// `info,hearken=debug`.
    pub level: String,
    /// Format of log lines: `text` for people, `json` for one JSON object per line.
    pub format: LogFormat,
}

/// Format of the log's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
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
