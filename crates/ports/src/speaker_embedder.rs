//! Port of speaker recognition: a model that turns speech into a vector of its voice. Not for
//! matching voices to people.

use std::time::Duration;

use async_trait::async_trait;

/// Maximum length of speech that an embedder uses.
pub const LONGEST_VOICE: Duration = Duration::from_secs(5);

/// Speaker embedder.
#[async_trait]
pub trait SpeakerEmbedder: Send + Sync {
    /// Returns the voice in this speech (16 kHz, mono; only the last [`LONGEST_VOICE`] count) as a
    /// vector of length 1 with a fixed number of elements: the dot product of two vectors is the
    /// similarity of the voices. `None` if the embedder is busy, the speech is too short, or it
    /// failed, which it reports itself. Answers within 2 s.
    async fn embed(&self, speech: Vec<i16>) -> Option<Vec<f32>>;

    /// Like [`SpeakerEmbedder::embed`], for a recording that enrols a person: waits for a busy
    /// embedder. Answers within a minute. The default suits an embedder that is never busy.
    async fn embed_recording(&self, speech: Vec<i16>) -> Option<Vec<f32>> {
        self.embed(speech).await
    }
}
