//! Interruptions in realtime mode: voice pauses a reply, which ends or resumes when the words are
//! known. Not for the meaning of words: that is `crate::interruption`.

use actix::{AsyncContext as _, Handler};
use hearken_dialogue::metrics::actor_metrics;
use hearken_dialogue::turn_trace::TraceEvent;
use hearken_dialogue::{Turn, TurnInput};
use hearken_ports::role::InterruptionManner;
use hearken_proto::device::{Downlink, ListenMode};
use hearken_proto::ids::TurnId;
use hearken_socket::SocketContext;
use tokio::time::Instant;

use super::DeviceActor;
use super::state::{Interruption, LiveTurn};
use crate::interruption::{LAST_WORDS, Meaning, may_command};
use crate::messages::{Interrupted, PlaybackStep};

type Ctx = SocketContext<DeviceActor>;

/// Maximum number of utterances over a reply that are not understood yet; a further one ends the
/// reply.
const MAX_INTERRUPTIONS: usize = 8;

/// Maximum number of sentences after a question that leave it open: "Shall I open it? Please say yes
/// or no."
const MAX_AFTER_QUESTION: usize = 2;

impl DeviceActor {
    /// Pauses the reply because the person speaks, until their words are known. Returns the turn of
    /// their utterance if the reply cannot be paused; then it ends.
    pub(super) fn pause(&mut self, turn: Turn) -> Option<Turn> {
        let realtime = self.state.mode == Some(ListenMode::Realtime);
        let may_pause = realtime && self.pauses() && !self.state.leaving;
        let is_spoken =
            |live: &&mut LiveTurn| live.speaking && live.interruptions.len() < MAX_INTERRUPTIONS;
        let Some(live) = self.live.as_mut().filter(is_spoken).filter(|_| may_pause) else {
            return Some(turn);
        };
        // Replies are paused before they end: otherwise each cough and each "mm-hmm" would end a
        // reply, and people would have to ask again. Decision 0063.
        if !live.turn.playback_now().paused {
            tracing::debug!(turn = %live.turn.id, trace = live.turn.trace().log_id(), "paused the reply");
            live.turn.trace().event(TraceEvent::Interrupted);
            live.turn.pause_playback();
        }
        // An utterance that ends the reply needs its permit. The last utterance gets it: that one
        // is answered, with the words of the earlier ones.
        turn.take_permit(live.interruptions.last().map_or(&live.turn, |before| &before.turn));
        live.interruptions.push(Interruption { turn, heard_at: None, late: false });
        None
    }

    /// Records the end of an utterance that interrupts a reply. If its words are not known in time,
    /// the reply resumes.
    pub(super) fn interruption_spoken(&mut self, turn: TurnId, ctx: &mut Ctx) {
        let Some(interruption) = self.interruption(turn) else { return };
        interruption.heard_at = Some(Instant::now());
        ctx.run_later(self.rules.interruption.resume_after, move |act, _| {
            let _in = act.span.clone().entered();
            let Some(interruption) = act.interruption(turn) else { return };
            // A late utterance stays in the list: its words still end the reply when they arrive.
            interruption.late = true;
            if act.resume() {
                actor_metrics().turn_taking.interruptions.late.increment(1);
            }
        });
    }

    /// Returns true if the utterance of this turn interrupts a reply, and is still spoken.
    pub(super) fn interrupts(&self, turn: TurnId) -> bool {
        let mut interruptions = self.live.iter().flat_map(|live| &live.interruptions);
        interruptions.any(|i| i.turn.id == turn && i.heard_at.is_none())
    }

    fn interruption(&mut self, turn: TurnId) -> Option<&mut Interruption> {
        self.live.as_mut()?.interruptions.iter_mut().find(|i| i.turn.id == turn)
    }

    /// Returns whether voice pauses the reply, according to the role or the configuration.
    fn pauses(&self) -> bool {
        match (self.rules.role)().and_then(|role| role.interruption) {
            Some(manner) => manner == InterruptionManner::Pause,
            None => self.rules.interruption.pause,
        }
    }

    /// Resumes a paused reply at the first sentence that was not fully heard, unless another
    /// utterance over it is still pending. Returns false if it does not.
    fn resume(&mut self) -> bool {
        let Some(live) = self.live.as_ref().filter(|l| l.turn.playback_now().paused) else {
            return false;
        };
        if live.interruptions.iter().any(|interruption| !interruption.late) {
            return false;
        }
        // The sentence is sent again from its start: the device may have dropped the packets that
        // it had. Decision 0063.
        let from = live.heard().whole;
        tracing::debug!(turn = %live.turn.id, trace = live.turn.trace().log_id(), from, "the reply goes on");
        live.turn.trace().event(TraceEvent::Resumed);
        live.turn.resume_playback(from);
        // If another turn took its permit meanwhile, the limit is exceeded by one turn.
        live.turn.acquire_permit(&self.rules.admission);
        true
    }

    /// Drops an utterance that is not answered, and resumes the reply. Returns false if it
    /// interrupts none.
    pub(super) fn dismiss(&mut self, turn: TurnId) -> bool {
        let Some(live) = &mut self.live else { return false };
        let Some(at) = live.interruptions.iter().position(|i| i.turn.id == turn) else {
            return false;
        };
        // The cut returns the permit, which `resume` takes for the reply again.
        live.interruptions.remove(at).turn.cut();
        self.resume();
        true
    }

    /// Makes the last of the utterances that interrupted a reply the live turn, because the reply
    /// is over. The words of the earlier ones are answered together with its own.
    pub(super) fn listen_to(&mut self, mut interruptions: Vec<Interruption>) {
        let Some(Interruption { turn, heard_at, .. }) = interruptions.pop() else { return };
        interruptions.iter().for_each(|before| before.turn.mark_continued());
        let hearing = heard_at.is_none();
        self.live = Some(LiveTurn { heard_at, ..self.live_turn(turn, hearing) });
    }

    /// Ends the reply that an utterance interrupts, or resumes it. Returns true if the utterance
    /// must be answered.
    fn decide(&mut self, turn: &Turn, input: &TurnInput, ctx: &mut Ctx) -> bool {
        let outcomes = &actor_metrics().turn_taking.interruptions;
        let asked = self.live.as_ref().is_some_and(LiveTurn::awaits_answer);
        let meaning = match input {
            TurnInput::Words(words) => self.rules.interruption.meaning(words, asked),
            _ => Meaning::Words,
        };
        // What a call has started goes on after the reply that confirms it.
        let has_called = self.live.as_ref().is_some_and(|live| live.turn.has_called());
        tracing::debug!(turn = %turn.id, trace = turn.trace().log_id(), ?meaning, has_called, "understood an interruption");
        match (meaning, input) {
            (Meaning::Backchannel, _) => {
                self.dismiss(turn.id);
                outcomes.backchannel.increment(1);
                return false;
            }
            (Meaning::Stop, TurnInput::Words(text)) if !(has_called && may_command(text)) => {
                // Later utterances are removed before the cut, which would end them, too: words
                // after the stop word are still answered.
                let later = self.take_interruptions(|i| i.turn.id > turn.id);
                self.cut(ctx);
                // The session starts no turn for stop words, so nothing else sends their
                // transcript.
                self.send(&Downlink::Stt { text: text.clone() }, ctx);
                self.listen_to(later);
                outcomes.stopped.increment(1);
                return false;
            }
            _ => {}
        }
        // The utterance becomes the live turn before the session starts it: a device is sent only
        // the transcript of its live turn.
        let interruptions = self.take_interruptions(|_| true);
        if meaning == Meaning::Stop {
            // The words before are answered: their calls were made.
            self.cut(ctx);
        } else {
            self.interrupt_live_turn(ctx);
        }
        self.listen_to(interruptions);
        outcomes.answered.increment(1);
        true
    }

    /// Takes the first matching utterance over the reply, and all later ones, so that they outlive
    /// the reply.
    fn take_interruptions(&mut self, from: impl Fn(&Interruption) -> bool) -> Vec<Interruption> {
        let Some(live) = &mut self.live else { return Vec::new() };
        let at = live.interruptions.iter().position(from).unwrap_or(live.interruptions.len());
        live.interruptions.split_off(at)
    }
}

impl LiveTurn {
    /// Returns true if a step of its playback must be carried out. Steps that were on their way
    /// during a pause are not.
    pub(super) fn takes(&mut self, step: &PlaybackStep) -> bool {
        // The steps share one queue: those before `Resumed` were sent before pacing knew of the
        // pause.
        if let PlaybackStep::Resumed { count, .. } = step {
            self.resumed = *count;
        }
        let control = self.turn.playback_now();
        let plays = !control.paused && self.resumed == control.resumed;
        // Pacing sends `Stop` once, as its last step: without it the reply would never end.
        plays || *step == PlaybackStep::Stop
    }

    /// Returns true if a backchannel would be an answer: to a question, or to a reply that is
    /// nearly over.
    fn awaits_answer(&self) -> bool {
        let progress = *self.turn.progress().borrow();
        let left = progress
            .and_then(|p| Some(p.left? + p.quiet_from.saturating_duration_since(Instant::now())));
        let asks = self
            .question
            .is_some_and(|at| self.sentences.saturating_sub(at + 1) <= MAX_AFTER_QUESTION);
        asks || left.is_some_and(|left| left <= LAST_WORDS)
    }
}

impl Handler<Interrupted> for DeviceActor {
    type Result = bool;

    fn handle(
        &mut self,
        Interrupted { turn, input }: Interrupted,
        ctx: &mut Self::Context,
    ) -> bool {
        let _in = self.span.clone().entered();
        let interrupts = self.interruption(turn.id).is_some();
        let answered = if interrupts {
            self.decide(&turn, &input, ctx)
        } else {
            // The reply has ended meanwhile, and the person may have spoken again.
            let is_live = self.live.as_ref().is_some_and(|live| live.turn.id == turn.id);
            is_live || turn.is_continued()
        };
        self.count();
        answered
    }
}
