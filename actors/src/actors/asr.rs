//! AsrActor: streams each utterance to the recogniser while it is spoken, and reports the
//! transcript. Not for voice activity detection.

use std::sync::Arc;
use std::time::Duration;

use actix::fut::{ActorFutureExt as _, WrapFuture as _};
use actix::{Actor, AsyncContext as _, Context, Handler, Recipient};
use tokio_util::sync::CancellationToken;

use crate::actors::messages::{OpenUtterance, RecognitionFailure, UtteranceRecognised};
use crate::admission::Admission;
use crate::audio::pcm;
use crate::audio::voice_detector::SAMPLE_RATE_HZ;
use crate::ports::{Asr, AsrStream, ProviderError, Transcript, UtteranceSpec};
use crate::utterance_channel::AudioReceiver;

/// Shortest utterance that is recognised. A shorter one holds no word: a press of the button, an
/// empty recording.
const MIN_UTTERANCE: Duration = Duration::from_millis(150);

/// Speech recognition of one device's utterances.
pub struct AsrActor {
    connection: CancellationToken,
    asr: Arc<dyn Asr>,
    admission: Admission,
    recognised: Recipient<UtteranceRecognised>,
    /// Cancelled once the outcome of the last utterance was reported, or is not wanted any more.
    reported: CancellationToken,
}

impl AsrActor {
    /// Creates an actor that reports outcomes to `heard`, as `Busy` where `admission` does not
    /// admit the turn.
    pub fn new(
        connection: CancellationToken,
        asr: Arc<dyn Asr>,
        admission: Admission,
        recognised: Recipient<UtteranceRecognised>,
    ) -> Self {
        let reported = CancellationToken::new();
        reported.cancel();
        Self { connection, asr, admission, recognised, reported }
    }
}

impl Actor for AsrActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        crate::lifetime::stop_with(&self.connection, ctx);
    }

    /// Cancels the connection, also after a panic: a connection without one of its actors must end.
    fn stopped(&mut self, _: &mut Self::Context) {
        self.connection.cancel();
    }
}

impl Handler<OpenUtterance> for AsrActor {
    type Result = ();

    fn handle(&mut self, message: OpenUtterance, ctx: &mut Self::Context) {
        let OpenUtterance { turn, audio } = message;
        let (asr, admission) = (Arc::clone(&self.asr), self.admission.clone());
        let reported = CancellationToken::new();
        let before = std::mem::replace(&mut self.reported, reported.clone());
        let work = async move {
            // A busy recogniser may finish a short utterance before a long one: outcomes are
            // reported in the order of the utterances.
            let in_order = async {
                let outcome =
                    recognise(asr, audio, || !turn.is_live() || turn.acquire_permit(&admission))
                        .await;
                before.cancelled().await;
                outcome
            };
            let outcome = tokio::select! {
                biased;
                () = turn.discarded() => return None,
                outcome = in_order => outcome,
            };
            Some(UtteranceRecognised { turn, outcome })
        };
        ctx.spawn(work.into_actor(self).map(move |recognised, act, _| {
            if let Some(recognised) = recognised {
                act.recognised.do_send(recognised);
            }
            reported.cancel();
        }));
    }
}

/// Streams the utterance to the recogniser while it is spoken, and returns the transcript. An early
/// failure of the recogniser is returned only when the person has finished, so that no apology
/// interrupts them. A refusal by admission control is returned then too, without waiting for the
/// transcript.
async fn recognise(
    asr: Arc<dyn Asr>,
    mut audio: AudioReceiver,
    may_enter: impl FnOnce() -> bool,
) -> Result<Transcript, RecognitionFailure> {
    let mut samples = 0;
    let mut stream: Option<Result<Box<dyn AsrStream>, ProviderError>> = None;
    let mut held = Vec::new();
    while let Some(pcm) = audio.recv().await {
        samples += pcm.len();
        if stream.is_none() {
            held.extend_from_slice(pcm);
            if pcm::duration(samples, SAMPLE_RATE_HZ) < MIN_UTTERANCE {
                continue;
            }
            let mut opened = asr.open(UtteranceSpec::default()).await;
            if let Ok(open) = &mut opened
                && let Err(error) = open.push(&held).await
            {
                opened = Err(error);
            }
            held = Vec::new();
            stream = Some(opened);
        } else if let Some(Ok(open)) = &mut stream
            && let Err(error) = open.push(pcm).await
        {
            stream = Some(Err(error));
        }
    }
    let Some(opened) = stream else { return Ok(Transcript::default()) };
    if !may_enter() {
        return Err(RecognitionFailure::Busy);
    }
    let finished = async { opened?.finish().await };
    finished.await.map_err(RecognitionFailure::Failed)
}
