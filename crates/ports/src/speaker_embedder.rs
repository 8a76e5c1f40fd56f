//! Port of speaker recognition: a model that turns speech into what is typical of its voice. Not for whose voice it is.

use std::time::Duration;

use async_trait::async_trait;

/// Longest speech that an embedder is given.
pub const LONGEST_VOICE: Duration = Duration::from_secs(5);

/// Speaker embedder.
#[async_trait]
pub trait SpeakerEmbedder: Send + Sync {
    /// Returns what is typical of the voice in this speech (16 kHz, mono, at most [`LONGEST_VOICE`]; of longer
    /// speech, the last so much) as a vector of length 1, always with as many elements: the dot product of two
    /// vectors says how alike the voices are. `None` if it is not computed: the embedder is busy, the speech is
    /// too short, or it failed, which it reports itself. Answers within 2 s.
    async fn embed(&self, speech: Vec<i16>) -> Option<Vec<f32>>;

    /// As [`SpeakerEmbedder::embed`], for a recording by which a person is enrolled: an embedder that is busy is waited
    /// for. Answers within a minute. One that is never busy need not tell them apart.
    async fn embed_recording(&self, speech: Vec<i16>) -> Option<Vec<f32>> {
        self.embed(speech).await
    }
}
