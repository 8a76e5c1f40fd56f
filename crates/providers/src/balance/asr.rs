//! Load balancing of utterances between several recognisers. If a recogniser fails before the
//! transcript, another one recognises the utterance from the stored audio.
//!
//! - The user never waits for this: a failed recogniser is replaced at the end of the utterance,
//!   and the whole audio is sent at once.
//! - Audio is stored only if there is another recogniser, and only up to the limit.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hearken_ports::{Asr, AsrStream, ProviderError, ServiceHealth, Transcript, UtteranceSpec};
use tokio::time::Instant;

use super::{Backends, Lease, Search, Service};
use crate::asr::max_samples;
use crate::retry::{RetryPolicy, pause, whole};
use crate::settings::{AsrSettings, ms};

/// Recogniser that gives each utterance to the least loaded of several recognisers.
pub(crate) struct BalancedAsr {
    backends: Arc<Backends<dyn Asr>>,
    limits: Limits,
}

#[derive(Clone, Copy)]
struct Limits {
    /// Time limit for finding a recogniser while the user is speaking.
    opening: Duration,
    /// Time limit from the end of an utterance to its transcript, over all recognisers.
    result: Duration,
    /// Retry policy after all recognisers have failed.
    policy: RetryPolicy,
    /// Maximum length of a stored utterance, in samples.
    samples: usize,
}

impl BalancedAsr {
    /// Creates it with at least one service.
    pub(crate) fn new(services: Vec<Service<dyn Asr>>, settings: &AsrSettings) -> Self {
        let result = ms(settings.result_timeout_ms);
        let limits = Limits {
            opening: ms(settings.connect_timeout_ms),
            result,
            policy: RetryPolicy::spoken(result.min(ms(settings.retry_within_ms))),
            samples: max_samples(settings.max_utterance_ms),
        };
        Self { backends: Backends::new("asr", services), limits }
    }
}

#[async_trait]
impl Asr for BalancedAsr {
    /// Never fails if there are several services: one may become available by the end of the
    /// utterance.
    async fn open(&self, spec: UtteranceSpec) -> Result<Box<dyn AsrStream>, ProviderError> {
        let search = Search::new(&self.backends);
        let limits = self.limits;
        let kept = self.backends.several().then(Vec::new);
        let mut utterance = Utterance { search, spec, limits, kept, live: None };
        let begun = Instant::now();
        while let Some(lease) = utterance.search.next() {
            match lease.port().open(utterance.spec.clone()).await {
                Ok(stream) => {
                    utterance.live = Some(Live { stream, lease });
                    break;
                }
                Err(error) => utterance.lost(lease, error)?,
            }
            if begun.elapsed() >= limits.opening {
                break;
            }
        }
        Ok(Box::new(utterance))
    }

    fn health(&self) -> ServiceHealth {
        self.backends.health()
    }

    fn probe(&self) -> BoxFuture<'_, ()> {
        self.backends.probe_all().boxed()
    }
}

/// Utterance in progress.
struct Utterance {
    search: Search<dyn Asr>,
    spec: UtteranceSpec,
    limits: Limits,
    /// All audio so far; none if there is no other recogniser, or if it is too long.
    kept: Option<Vec<i16>>,
    /// Current recogniser; none after it failed.
    live: Option<Live>,
}

/// Recogniser that receives the audio.
struct Live {
    stream: Box<dyn AsrStream>,
    lease: Lease<dyn Asr>,
}

#[async_trait]
impl AsrStream for Utterance {
    async fn push(&mut self, pcm: &[i16]) -> Result<(), ProviderError> {
        match &mut self.kept {
            Some(kept) if kept.len() + pcm.len() <= self.limits.samples => {
                kept.extend_from_slice(pcm);
            }
            kept => *kept = None,
        }
        // A lost recogniser is replaced at the end of the utterance: no user waits for it while
        // speaking, and the audio is stored anyway. Decision 0034.
        let Some(mut live) = self.live.take() else { return self.goes_on() };
        match live.stream.push(pcm).await {
            Ok(()) => {
                self.live = Some(live);
                Ok(())
            }
            Err(error) => self.lost(live.lease, error),
        }
    }

    fn partial(&mut self) -> Option<String> {
        self.live.as_mut()?.stream.partial()
    }

    async fn finish(mut self: Box<Self>) -> Result<Transcript, ProviderError> {
        if self.live.is_none() {
            self.goes_on()?;
            self.search.again();
        }
        let begun = Instant::now();
        let by = begun + self.limits.result;
        let mut rounds = 0;
        loop {
            if let Some(transcript) = self.attempt(by).await {
                return Ok(transcript);
            }
            if self.kept.is_none() || Instant::now() >= by {
                return Err(self.search.error());
            }
            if self.search.is_over() {
                rounds += 1;
                pause(self.limits.policy, rounds, begun, self.search.error()).await?;
                self.search.again();
            }
        }
    }
}

impl Utterance {
    /// Continues without a recogniser if the audio is stored for another one.
    fn lost(&mut self, lease: Lease<dyn Asr>, error: ProviderError) -> Result<(), ProviderError> {
        self.search.failed(lease, error);
        self.goes_on()
    }

    /// Returns an error if the audio is not stored: without a recogniser the utterance is lost.
    fn goes_on(&mut self) -> Result<(), ProviderError> {
        if self.kept.is_some() { Ok(()) } else { Err(self.search.error()) }
    }

    /// Returns the transcript of the current recogniser, or else of the next one.
    async fn attempt(&mut self, by: Instant) -> Option<Transcript> {
        let (mut lease, heard) = match self.live.take() {
            Some(Live { stream, mut lease }) => {
                lease.request_metrics.begin_to_wait();
                (lease, self.search.bounded(by, stream.finish()).await)
            }
            None => {
                let lease = self.search.next()?;
                let samples = self.kept.as_deref().unwrap_or_default();
                let whole = whole(lease.port(), self.spec.clone(), samples);
                let heard = self.search.bounded(by, whole).await;
                (lease, heard)
            }
        };
        match heard {
            Ok(transcript) => {
                self.search.found(&mut lease);
                lease.worked();
                Some(transcript)
            }
            Err(error) => {
                self.search.failed(lease, error);
                None
            }
        }
    }
}
