//! Section `[history]`. Not for keeping anything.

use hearken_ports::role::Keep;
use serde::{Deserialize, Serialize};

/// Section `[history]`: what is kept of conversations in the store, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryConfig {
    /// How much of each turn is kept.
    pub keep: Keep,
    /// Days after which a turn is deleted; 0 for never.
    pub retention_days: u32,
    /// Most turns; the oldest beyond are deleted.
    pub max_turns: u64,
    /// Largest size of all sound, in MiB; the oldest beyond is deleted.
    pub max_audio_mib: u64,
}

impl Default for HistoryConfig {
    fn default() -> Self {
        Self { keep: Keep::Off, retention_days: 30, max_turns: 100_000, max_audio_mib: 1_024 }
    }
}
