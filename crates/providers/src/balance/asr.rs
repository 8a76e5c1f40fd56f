//! Utterances among several recognisers: one whose recogniser fails before its words came is
//! recognised by another, from the audio that was kept.
//!
//! - Whoever speaks is never kept waiting: a recogniser that is lost meanwhile is replaced when
//!   the utterance is over, and the whole of it sent at once.
//! - Audio is kept only where there is another recogniser, and no more than the bound allows.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hearken_actors::ports::{Asr, AsrStream, ProviderError, Transcript, UtteranceSpec};
use tokio::time::Instant;

use super::{Backends, Lease, Search, Service};
use crate::asr::max_samples;
use crate::retry::{RetryPolicy, pause, whole};
use crate::settings::{AsrSettings, ms};

/// Recognisers of which each utterance is given to the least loaded.
pub(crate) struct BalancedAsr {
    backends: Arc<Backends<dyn Asr>>,
    limits: Limits,
}

#[derive(Clone, Copy)]
struct Limits {
    /// No recogniser is looked for longer than this while the person speaks.
    opening: Duration,
    /// From the end of an utterance to its transcript, by whichever recogniser.
    result: Duration,
    /// How all are asked again where all failed.
    policy: RetryPolicy,
    /// Samples of an utterance that are kept.
    samples: usize,
}

impl BalancedAsr {
    /// At least one service.
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
    /// Where there are several, this never fails: there may be one by the end of the utterance.
    async fn open(&self, spec: UtteranceSpec) -> Result<Box<dyn AsrStream>, ProviderError> {
        let (search, limits) = (Search::new(&self.backends), self.limits);
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
}

/// One utterance.
struct Utterance {
    search: Search<dyn Asr>,
    spec: UtteranceSpec,
    limits: Limits,
    /// All audio so far; none where there is no other recogniser, or it is too much.
    kept: Option<Vec<i16>>,
    /// None once the recogniser failed.
    live: Option<Live>,
}

/// The recogniser that listens.
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
        let Some(mut live) = self.live.take() else { return self.goes_on() };
        match live.stream.push(pcm).await {
            Ok(()) => {
                self.live = Some(live);
                Ok(())
            }
            Err(error) => self.lost(live.lease, error),
        }
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
    /// Goes on without a recogniser, where the audio is kept for another.
    fn lost(&mut self, lease: Lease<dyn Asr>, error: ProviderError) -> Result<(), ProviderError> {
        self.search.failed(lease, error);
        self.goes_on()
    }

    /// An utterance without a recogniser is of use only while its audio is kept.
    fn goes_on(&mut self) -> Result<(), ProviderError> {
        if self.kept.is_some() { Ok(()) } else { Err(self.search.error()) }
    }

    /// The words, from the recogniser that listened or else from the next.
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
