//! Port of turn detection: a model that judges during a silence whether the person has finished.

use async_trait::async_trait;

/// Maximum length of speech for a detector, counted from the end of the utterance.
pub const LONGEST_SPEECH: std::time::Duration = std::time::Duration::from_secs(8);

/// Turn detector.
#[async_trait]
pub trait TurnDetector: Send + Sync {
    /// Returns the probability (0 to 1) that the person who said this (16 kHz, mono, at most
    /// [`LONGEST_SPEECH`], with the silence at its end) has finished. `None` if the detector is
    /// busy or failed, which it reports itself. Answers within 200 ms.
    async fn judge(&self, speech: Vec<i16>) -> Option<f32>;
}
