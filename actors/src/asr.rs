//! AsrActor: streams each utterance to the recogniser while it is spoken, and reports speculative
//! transcripts and the transcript. Not for voice activity detection.

mod recognition;

use std::sync::Arc;
use std::time::Duration;

use actix::fut::{ActorFutureExt as _, WrapFuture as _};
use actix::{Actor, AsyncContext as _, Context, Handler, Recipient};
use hearken_dialogue::Turn;
use hearken_dialogue::admission::Admission;
use hearken_dialogue::people::Speaker;
use hearken_dialogue::turn_trace::Stage;
use hearken_ports::{Asr, Transcript};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::recognition::{Listener, Recognition};
use crate::messages::{
    OpenUtterance, PartialTranscript, SpeculativeTranscript, UtteranceRecognised,
};

pub use self::recognition::RecognitionRules;

/// Maximum time that an utterance waits for the recognition of earlier ones.
const EARLIER_WITHIN: Duration = Duration::from_secs(10);

/// Recipients of the actor's messages.
pub struct AsrOutputs {
    /// Recipient of outcomes: the `SessionActor`.
    pub recognised: Recipient<UtteranceRecognised>,
    /// Recipient of speculative transcripts: the `SessionActor`.
    pub speculative_transcripts: Recipient<SpeculativeTranscript>,
    /// Recipient of partial transcripts: the `DeviceActor`.
    pub partials: Recipient<PartialTranscript>,
}

/// Speech recognition of one device's utterances.
pub struct AsrActor {
    connection: CancellationToken,
    asr: Arc<dyn Asr>,
    admission: Admission,
    outputs: AsrOutputs,
    rules: RecognitionRules,
    last: InOrder,
}

/// Position of an utterance in the order of outcomes.
#[derive(Clone, Default)]
struct InOrder {
    /// Cancelled once its outcome was reported, or is no longer needed.
    reported: CancellationToken,
    /// Cancelled when later words have waited long enough for it.
    given_up: CancellationToken,
}

impl InOrder {
    /// Waits until the outcome of the utterance before this one is reported. Abandons that
    /// utterance's recognition after `within`, or when this one is abandoned.
    async fn wait_for(&self, before: &Self, within: Option<Duration>) {
        let too_long = async {
            match within {
                Some(within) => tokio::time::sleep(within).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = before.reported.cancelled() => return,
            () = self.given_up.cancelled() => {}
            () = too_long => {}
        }
        before.given_up.cancel();
        before.reported.cancelled().await;
    }
}

impl AsrActor {
    /// Creates an actor that reports outcomes, as `Busy` if `admission` does not admit the turn.
    pub fn new(
        connection: CancellationToken,
        asr: Arc<dyn Asr>,
        admission: Admission,
        outputs: AsrOutputs,
        rules: RecognitionRules,
    ) -> Self {
        let last = InOrder::default();
        last.reported.cancel();
        Self { connection, asr, admission, outputs, rules, last }
    }
}

impl Actor for AsrActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        crate::lifetime::stop_with(&self.connection, ctx);
        if let Some(speakers) = self.rules.speakers.clone() {
            ctx.spawn(async move { speakers.refresh().await }.into_actor(self));
        }
    }

    /// Cancels the connection, even after a panic: a connection without one of its actors must end.
    fn stopped(&mut self, _: &mut Self::Context) {
        self.connection.cancel();
    }
}

impl Handler<OpenUtterance> for AsrActor {
    type Result = ();

    fn handle(&mut self, message: OpenUtterance, ctx: &mut Self::Context) {
        let OpenUtterance { turn, audio } = message;
        let place = InOrder::default();
        let before = std::mem::replace(&mut self.last, place.clone());
        let listener = TurnListener {
            turn: turn.clone(),
            admission: self.admission.clone(),
            before: before.reported.clone(),
            speculative_transcripts: self.outputs.speculative_transcripts.clone(),
            partials: self.outputs.partials.clone(),
        };
        let asr = Arc::clone(&self.asr);
        let rules = self.rules.clone();
        let span = turn.trace().log_span();
        let recognition = Recognition::new(asr, listener, audio.unfinished(), rules);
        let reported = place.reported.clone();
        let work = async move {
            // A busy recogniser may finish a short utterance before a long one: outcomes are
            // reported in the order of the utterances.
            let in_order = async {
                let outcome = tokio::select! {
                    biased;
                    outcome = recognition.run(audio) => outcome,
                    () = place.given_up.cancelled() => {
                        tracing::warn!("gave up an utterance: later words were recognised 10 s ago");
                        Ok(Transcript::default())
                    }
                };
                turn.trace().end(Stage::Recognition);
                // Noise without words, which may be transcribed as a full stop, waits without a
                // limit.
                let has_words = outcome
                    .as_ref()
                    .is_ok_and(|transcript| transcript.text.contains(char::is_alphanumeric));
                place.wait_for(&before, has_words.then_some(EARLIER_WITHIN)).await;
                outcome
            };
            let outcome = tokio::select! {
                biased;
                () = turn.discarded() => return None,
                outcome = in_order => outcome,
            };
            Some(UtteranceRecognised { turn, outcome })
        };
        ctx.spawn(work.instrument(span).into_actor(self).map(move |recognised, act, _| {
            if let Some(recognised) = recognised {
                act.outputs.recognised.do_send(recognised);
            }
            reported.cancel();
        }));
    }
}

/// Listener for the turn of an utterance.
struct TurnListener {
    turn: Turn,
    admission: Admission,
    /// Cancelled once the outcome of the utterance before it was reported.
    before: CancellationToken,
    speculative_transcripts: Recipient<SpeculativeTranscript>,
    partials: Recipient<PartialTranscript>,
}

impl Listener for TurnListener {
    fn may_enter(&self) -> bool {
        !self.turn.is_live() || self.turn.admit_utterance(&self.admission)
    }

    fn may_speculate(&self) -> bool {
        self.turn.is_live()
            && self.before.is_cancelled()
            && !self.admission.is_strained()
            && self.turn.admit_utterance(&self.admission)
    }

    fn speculative_transcript(&self, transcript: Option<Transcript>) {
        self.speculative_transcripts
            .do_send(SpeculativeTranscript { turn: self.turn.clone(), transcript });
    }

    fn finishes(&self) {
        self.turn.trace().begin(Stage::Recognition);
    }

    fn speaker(&self, speaker: Speaker) {
        self.turn.note_speaker(speaker);
    }

    fn partial(&self, words: &str) {
        let partial = PartialTranscript { turn: self.turn.id, text: words.to_owned() };
        // A lost message does not matter: the next one contains all words.
        self.partials.try_send(partial).unwrap_or_default();
    }
}
