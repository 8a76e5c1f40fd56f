//! Speculation: answering before it is certain that the person has finished. When it is allowed.
//! Not for doing it: `actors::asr` makes speculative transcripts, `actors::session` begins answers early.

use std::time::Duration;

use hearken_base::ms;
use serde::{Deserialize, Serialize};

/// Section `[speculation]`: answers that are begun in a pause, before it is certain that the person has finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpeculationSettings {
    /// Number of answers that are begun early during an utterance; 0 begins none.
    pub tries: u32,
    /// Length of silence after which one is begun.
    #[serde(rename = "after_ms", with = "ms")]
    pub after: Duration,
    /// Longest utterance for which one is begun.
    #[serde(rename = "max_speech_ms", with = "ms")]
    pub max_speech: Duration,
    /// Highest price of a million tokens of the language model at which one is begun.
    pub max_price_per_million: f64,
}

impl Default for SpeculationSettings {
    fn default() -> Self {
        Self {
            tries: 3,
            after: Duration::from_millis(160),
            max_speech: Duration::from_secs(10),
            max_price_per_million: 5.0,
        }
    }
}

impl SpeculationSettings {
    /// Returns the length of silence after which an answer is begun early, if any is.
    pub(crate) fn speculate_after(&self) -> Option<Duration> {
        (self.tries > 0).then_some(self.after)
    }
}
