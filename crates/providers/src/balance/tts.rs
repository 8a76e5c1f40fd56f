//! Load balancing of sentences between several synthesisers. If one fails before its first audio,
//! another one speaks the sentence. A later failure ends the sentence: no other could continue in
//! the middle.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt, try_unfold};
use hearken_audio::pcm;
use hearken_ports::{Line, Pcm, ProviderError, ProviderErrorKind, ServiceHealth, Tts};
use tokio::time::Instant;

use super::{Backends, Lease, Search, Service};

/// Maximum length of the sound of one sentence.
const LONGEST_SENTENCE: Duration = Duration::from_mins(5);

/// Synthesiser that gives each sentence to the least loaded of several synthesisers.
pub(crate) struct BalancedTts {
    backends: Arc<Backends<dyn Tts>>,
    first_audio: Duration,
}

impl BalancedTts {
    /// Creates it with at least one service. The first audio of a sentence must come within
    /// `first_audio`, over all services.
    pub(crate) fn new(services: Vec<Service<dyn Tts>>, first_audio: Duration) -> Self {
        Self { backends: Backends::new("tts", services), first_audio }
    }
}

impl Tts for BalancedTts {
    fn speak(&self, line: Line) -> BoxStream<'static, Result<Pcm, ProviderError>> {
        let waiting = Stage::Waiting(Search::new(&self.backends), line, self.first_audio);
        try_unfold(waiting, |stage| async move {
            let (pcm, begun) = match stage {
                Stage::Waiting(search, line, within) => first(search, line, within).await?,
                Stage::Begun(mut begun) => (begun.next().await?, begun),
            };
            Ok(pcm.map(|pcm| (pcm, Stage::Begun(begun))))
        })
        .boxed()
    }

    fn health(&self) -> ServiceHealth {
        self.backends.health()
    }

    fn probe(&self) -> BoxFuture<'_, ()> {
        self.backends.probe_all().boxed()
    }
}

enum Stage {
    Waiting(Search<dyn Tts>, Line, Duration),
    Begun(StartedSentence),
}

/// Sentence whose first audio has arrived.
struct StartedSentence {
    sound: BoxStream<'static, Result<Pcm, ProviderError>>,
    lease: Lease<dyn Tts>,
    /// Length of its sound so far.
    length: Duration,
}

impl StartedSentence {
    async fn next(&mut self) -> Result<Option<Pcm>, ProviderError> {
        let mut pcm = self.sound.next().await.transpose();
        if let Ok(Some(piece)) = &pcm {
            self.length += pcm::duration(piece.samples.len(), piece.sample_rate_hz);
            // The player stores the audio until it was heard.
            if self.length > LONGEST_SENTENCE {
                let why = "a sentence has more than 5 minutes of sound";
                pcm = Err(ProviderError::because("tts", ProviderErrorKind::Protocol, why));
            }
        }
        match &pcm {
            Ok(Some(_)) => {}
            Ok(None) => self.lease.worked(),
            Err(error) => self.lease.failed(error),
        }
        pcm
    }
}

/// Returns the first audio of the first service that delivers some.
async fn first(
    mut search: Search<dyn Tts>,
    line: Line,
    within: Duration,
) -> Result<(Option<Pcm>, StartedSentence), ProviderError> {
    let by = Instant::now() + within;
    while let Some(mut lease) = search.next() {
        let mut sound = lease.port().speak(line.clone());
        let piece = async { sound.next().await.transpose() };
        match search.bounded(by, piece).await {
            Ok(pcm) => {
                search.found(&mut lease);
                if pcm.is_none() {
                    lease.worked();
                }
                return Ok((pcm, StartedSentence { sound, lease, length: Duration::ZERO }));
            }
            Err(error) => search.failed(lease, error),
        }
        if Instant::now() >= by {
            break;
        }
    }
    Err(search.error())
}
