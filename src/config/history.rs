//! Section `[history]`. Not for keeping anything.

use hearken_ports::role::Keep;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[history]`: what is kept of conversations in the store, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryConfig {
    /// What to store of each turn of devices, text clients and chat sessions: `off` stores
    /// nothing, `text` the words, `audio` also the audio of devices. Inform the people
    /// whose conversations are stored.
    pub keep: Keep,
    /// Age at which stored turns are deleted. `0` never deletes them by age.
    #[schemars(range(max = 36_500))]
    pub retention_days: u32,
    /// Maximum number of stored turns; the oldest ones beyond it are deleted.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_turns: u64,
    /// Maximum total size of stored audio, in MiB; the oldest audio beyond it is deleted. A
    /// minute of conversation takes about 0.3 MiB.
    #[schemars(range(max = 1_000_000))]
    pub max_audio_mib: u64,
}

impl Default for HistoryConfig {
    fn default() -> Self {
        Self { keep: Keep::Off, retention_days: 30, max_turns: 100_000, max_audio_mib: 1_024 }
    }
}
