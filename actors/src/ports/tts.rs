//! The synthesiser's port: one sentence in, audio out as it is made.

use std::sync::Arc;

use futures_util::stream::BoxStream;

use super::ProviderError;

/// A synthesiser.
pub trait Tts: Send + Sync {
    /// Speaks one sentence. Nothing is sent before the stream is polled; dropping it cancels the
    /// request. The stream ends when the sentence is complete; one without any audio is an error
    /// of kind `Protocol`, never silence.
    fn speak(&self, line: Line) -> BoxStream<'static, Result<Pcm, ProviderError>>;

    /// The highest rate that it has spoken at; none while that is not known.
    fn sample_rate_hz(&self) -> Option<u32> {
        None
    }
}

/// A sentence to speak: plain words, no Markdown, no emoji.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Line {
    /// The words.
    pub text: Arc<str>,
}

/// Some audio: mono, 16 bit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pcm {
    /// The samples.
    pub samples: Arc<[i16]>,
    /// Samples per second.
    pub sample_rate_hz: u32,
}
