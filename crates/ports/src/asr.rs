//! Port of speech recognition: one utterance of audio in, one transcript out.

use async_trait::async_trait;
use futures_util::future::BoxFuture;

use super::{ProviderError, ServiceHealth};

/// Maximum length of a transcript, in characters: more than a quarter of an hour of speech. A
/// longer text means that the recogniser has failed, and must not fill the device, the model and
/// the memory.
pub const MAX_TRANSCRIPT_CHARS: usize = 4_000;

/// Returns the part of this text that fits into a transcript.
pub fn within_transcript(text: &str) -> &str {
    let end = text.char_indices().nth(MAX_TRANSCRIPT_CHARS).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// Speech recogniser.
#[async_trait]
pub trait Asr: Send + Sync {
    /// Opens a stream for one utterance. Dropping the stream cancels the recognition.
    async fn open(&self, spec: UtteranceSpec) -> Result<Box<dyn AsrStream>, ProviderError>;

    /// Returns the health of the services behind it, without contacting them.
    fn health(&self) -> ServiceHealth {
        ServiceHealth::default()
    }

    /// Checks without a user's request whether the services behind it can be reached, and records
    /// the result in their health.
    fn probe(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Stream of one utterance to the recogniser.
#[async_trait]
pub trait AsrStream: Send {
    /// Sends audio while the person is still speaking (16 kHz, mono).
    async fn push(&mut self, pcm: &[i16]) -> Result<(), ProviderError>;

    /// Returns all words of the utterance so far, if they have changed since the last call: a
    /// partial transcript, which later ones may correct. Recognisers without partial transcripts
    /// return `None`.
    fn partial(&mut self) -> Option<String> {
        None
    }

    /// Marks the utterance as complete and waits for its transcript, within the provider's
    /// deadline. An utterance without words gives an empty text, not an error.
    async fn finish(self: Box<Self>) -> Result<Transcript, ProviderError>;
}

/// Parameters of an utterance, known before its audio.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UtteranceSpec {
    /// BCP 47 tag of the language, if it is configured. `None` means automatic detection.
    pub language: Option<String>,
}

/// Transcript of an utterance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transcript {
    /// Trimmed words; empty if there were none.
    pub text: String,
}
