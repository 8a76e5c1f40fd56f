//! The recogniser's port: one utterance of audio in, one transcript out.

use async_trait::async_trait;

use super::ProviderError;

/// A recogniser.
#[async_trait]
pub trait Asr: Send + Sync {
    /// Opens one utterance. Dropping the stream abandons it.
    async fn open(&self, spec: UtteranceSpec) -> Result<Box<dyn AsrStream>, ProviderError>;
}

/// One utterance on its way to the recogniser.
#[async_trait]
pub trait AsrStream: Send {
    /// Sends audio while the person still speaks; 16 kHz mono.
    async fn push(&mut self, pcm: &[i16]) -> Result<(), ProviderError>;

    /// Says that the utterance is complete, and waits for its transcript, within the provider's
    /// deadline. An utterance without words gives an empty text, not an error.
    async fn finish(self: Box<Self>) -> Result<Transcript, ProviderError>;
}

/// What is known of an utterance before its audio.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UtteranceSpec {
    /// BCP 47 tag of the language, where the deployment fixes one; absent means detect.
    pub language: Option<String>,
}

/// What the person said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transcript {
    /// The words, trimmed; empty where there were none.
    pub text: String,
}
