//! Section `[instant]`: answers by rule in place of the model. Not for the rules.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[instant]`: answers by rule in place of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InstantConfig {
    /// Common commands that are answered by rule, without the model. `auto` answers all of them with
    /// the embedded model; with a configured model only time, date, arithmetic, "stop" and
    /// unambiguous commands, on devices only. `always` answers all of them on devices and for text
    /// clients, `off` none.
    pub mode: InstantMode,
    /// Files with additional sentences; see `docs/instant-answers.md`.
    pub templates: Vec<PathBuf>,
    /// Name of the assistant, for questions about who it is. Empty stands for "Hearken" in English
    /// and "语音助手" in Chinese.
    pub name: String,
    /// Country of the household as an ISO 3166 code such as `CN` or `DE`, which determines the
    /// emergency numbers in replies to people in danger. Empty names no number of a country.
    pub country: String,
}

/// Commands that are answered by rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InstantMode {
    /// All with the embedded model, few with a configured one.
    #[default]
    Auto,
    /// All.
    Always,
    /// None.
    Off,
}

impl Default for InstantConfig {
    fn default() -> Self {
        Self {
            mode: InstantMode::Auto,
            templates: Vec::new(),
            name: String::new(),
            country: String::new(),
        }
    }
}
