//! Sentences among several synthesisers: one that fails before its first audio is spoken by
//! another. After that, a failure ends the sentence: no other could go on in its midst.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{BoxStream, StreamExt, try_unfold};
use hearken_actors::ports::{Line, Pcm, ProviderError, Tts};
use tokio::time::Instant;

use super::{Backends, Lease, Search, Service};

/// Synthesisers of which each sentence is given to the least loaded.
pub(crate) struct BalancedTts {
    backends: Arc<Backends<dyn Tts>>,
    first_audio: Duration,
}

impl BalancedTts {
    /// At least one service; a sentence's first audio comes within `first_audio`, from whichever.
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
}

enum Stage {
    Waiting(Search<dyn Tts>, Line, Duration),
    Begun(StartedSentence),
}

/// A sentence whose first audio has come.
struct StartedSentence {
    sound: BoxStream<'static, Result<Pcm, ProviderError>>,
    lease: Lease<dyn Tts>,
}

impl StartedSentence {
    async fn next(&mut self) -> Result<Option<Pcm>, ProviderError> {
        let pcm = self.sound.next().await.transpose();
        match &pcm {
            Ok(Some(_)) => {}
            Ok(None) => self.lease.worked(),
            Err(error) => self.lease.failed(error),
        }
        pcm
    }
}

/// The first audio of the first service that has some.
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
                return Ok((pcm, StartedSentence { sound, lease }));
            }
            Err(error) => search.failed(lease, error),
        }
        if Instant::now() >= by {
            break;
        }
    }
    Err(search.error())
}
