//! Conditions for speculative answers, before it is certain that the person has finished. Not for
//! speculative transcripts, which are in `actors::asr`, nor for the answers, which are in
//! `actors::session`.

use std::time::Duration;

use hearken_base::ms;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[speculation]`: answers that are begun in a pause, before it is certain that the person has finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SpeculationSettings {
    /// Begin speculative answers, which makes replies sooner, at the cost of some discarded work.
    pub enabled: bool,
    /// Maximum number of speculative answers per utterance; `0` disables them. Discarded answers
    /// cost tokens and computing time.
    #[schemars(range(max = 20))]
    pub tries: u32,
    /// Silence after which a speculative answer begins. The voice detector reports a silence
    /// about 100 ms late.
    #[serde(rename = "after_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 100, max = 10_000))]
    pub after: Duration,
    /// Maximum length of an utterance for speculative answers; none begins after that.
    #[serde(rename = "max_speech_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 1_000, max = 60_000))]
    pub max_speech: Duration,
    /// Maximum price of a million tokens for speculative answers. None begins if the higher of
    /// the two prices in `[llm]` exceeds it.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub max_price_per_million: f64,
}

impl Default for SpeculationSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            tries: 3,
            after: Duration::from_millis(160),
            max_speech: Duration::from_secs(10),
            max_price_per_million: 5.0,
        }
    }
}

impl SpeculationSettings {
    /// Returns the length of silence after which a speculative answer starts, if it is enabled.
    pub(crate) fn speculate_after(&self) -> Option<Duration> {
        (self.enabled && self.tries > 0).then_some(self.after)
    }
}
