//! AsrActor: streams each utterance to the recogniser while it is spoken, and reports the
//! transcript, and before that speculative transcripts of it. Not for voice activity detection.

mod recognition;

use std::sync::Arc;

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

/// Recipients of the actor's messages.
pub struct AsrOutputs {
    /// Recipient of outcomes: the `SessionActor`.
    pub recognised: Recipient<UtteranceRecognised>,
    /// Recipient of speculative transcripts: the `SessionActor`.
    pub speculative_transcripts: Recipient<SpeculativeTranscript>,
    /// Recipient of words so far: the `DeviceActor`.
    pub partials: Recipient<PartialTranscript>,
}

/// Speech recognition of one device's utterances.
pub struct AsrActor {
    connection: CancellationToken,
    asr: Arc<dyn Asr>,
    admission: Admission,
    outputs: AsrOutputs,
    rules: RecognitionRules,
    /// Cancelled once the outcome of the last utterance was reported, or is not wanted any more.
    reported: CancellationToken,
}

impl AsrActor {
    /// Creates an actor that reports outcomes, as `Busy` where `admission` does not admit the turn.
    pub fn new(
        connection: CancellationToken,
        asr: Arc<dyn Asr>,
        admission: Admission,
        outputs: AsrOutputs,
        rules: RecognitionRules,
    ) -> Self {
        let reported = CancellationToken::new();
        reported.cancel();
        Self { connection, asr, admission, outputs, rules, reported }
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

    /// Cancels the connection, also after a panic: a connection without one of its actors must end.
    fn stopped(&mut self, _: &mut Self::Context) {
        self.connection.cancel();
    }
}

impl Handler<OpenUtterance> for AsrActor {
    type Result = ();

    fn handle(&mut self, message: OpenUtterance, ctx: &mut Self::Context) {
        let OpenUtterance { turn, audio } = message;
        let reported = CancellationToken::new();
        let before = std::mem::replace(&mut self.reported, reported.clone());
        let listener = TurnListener {
            turn: turn.clone(),
            admission: self.admission.clone(),
            before: before.clone(),
            speculative_transcripts: self.outputs.speculative_transcripts.clone(),
            partials: self.outputs.partials.clone(),
        };
        let asr = Arc::clone(&self.asr);
        let rules = self.rules.clone();
        let span = turn.trace().log_span();
        let recognition = Recognition::new(asr, listener, audio.unfinished(), rules);
        let work = async move {
            // A busy recogniser may finish a short utterance before a long one: outcomes are
            // reported in the order of the utterances.
            let in_order = async {
                let outcome = recognition.run(audio).await;
                turn.trace().end(Stage::Recognition);
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
        ctx.spawn(work.instrument(span).into_actor(self).map(move |recognised, act, _| {
            if let Some(recognised) = recognised {
                act.outputs.recognised.do_send(recognised);
            }
            reported.cancel();
        }));
    }
}

/// Turn whose utterance is recognised.
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
        !self.turn.is_live() || self.turn.acquire_permit(&self.admission)
    }

    fn may_speculate(&self) -> bool {
        self.turn.is_live()
            && self.before.is_cancelled()
            && !self.admission.is_strained()
            && self.turn.acquire_permit(&self.admission)
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
        let told = PartialTranscript { turn: self.turn.id, text: words.to_owned() };
        // What is lost is in the next one.
        self.partials.try_send(told).unwrap_or_default();
    }
}
