//! Port of speech synthesis: one sentence in, streamed audio out.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use super::{ProviderError, ServiceHealth};

/// Speech synthesiser.
pub trait Tts: Send + Sync {
    /// Speaks one sentence. Nothing is sent before the stream is polled. Dropping it cancels the
    /// request. The stream ends when the sentence is complete. A sentence without any audio is an
    /// error of kind `Protocol`, never silence.
    fn speak(&self, line: Line) -> BoxStream<'static, Result<Pcm, ProviderError>>;

    /// Returns the highest sample rate used until now. `None` if it is unknown.
    fn sample_rate_hz(&self) -> Option<u32> {
        None
    }

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

/// Sentence to speak: plain words, without Markdown or emoji.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Line {
    /// Words of the sentence.
    pub text: Arc<str>,
    /// Name of the voice; empty for the configured one.
    pub voice: Arc<str>,
}

impl Line {
    /// Creates a sentence in the configured voice.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), voice: "".into() }
    }
}

/// Audio block: mono, 16 bit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pcm {
    /// The samples.
    pub samples: Arc<[i16]>,
    /// Samples per second.
    pub sample_rate_hz: u32,
}
