//! Voice while a reply is played, in realtime mode: the reply is paused, and ends or goes on when it is known what was said.
//! Not for what words mean: that is `crate::interruption`.

use actix::{AsyncContext as _, Handler};
use hearken_proto::device::{Downlink, ListenMode};
use hearken_proto::ids::TurnId;
use tokio::time::Instant;

use super::DeviceActor;
use super::state::{Interruption, LiveTurn};
use crate::actors::messages::{Interrupted, PlaybackStep, StartTurn};
use crate::audio::playout::PlayedBack;
use crate::dialogue::{Turn, TurnInput};
use crate::interruption::{LAST_WORDS, Meaning};
use crate::metrics::actor_metrics;
use crate::role::InterruptionManner;
use crate::turn_trace::Moment;
use crate::ws_link::SocketContext;

type Ctx = SocketContext<DeviceActor>;

impl DeviceActor {
    /// Pauses the reply that is played because the person speaks, until it is known what they say. Returns the turn of
    /// their utterance where that is not to be waited for: then the reply ends.
    pub(super) fn pause(&mut self, turn: Turn) -> Option<Turn> {
        let realtime = self.state.mode == Some(ListenMode::Realtime);
        let may_pause = realtime && self.pauses() && !self.state.leaving;
        let is_played =
            |live: &&mut LiveTurn| live.speaking && live.heard() != PlayedBack::default();
        let Some(live) = self.live.as_mut().filter(is_played).filter(|_| may_pause) else {
            return Some(turn);
        };
        // Who speaks a second time before the first was understood wants to be heard.
        if let Some(first) = live.interruption.take() {
            first.turn.mark_continued();
            return Some(turn);
        }
        tracing::debug!(turn = %live.turn.id, trace = live.turn.trace().log_id(), "paused the reply");
        live.turn.trace().moment(Moment::Interrupted);
        live.turn.pause_playback();
        // Whoever ends the reply needs its place.
        live.turn.release_permit();
        live.interruption = Some(Interruption { turn, heard_at: None });
        None
    }

    /// Notes the end of an utterance that interrupts a reply. If nothing is known of it in time, the reply goes on.
    pub(super) fn interruption_spoken(&mut self, turn: TurnId, ctx: &mut Ctx) {
        let Some(interruption) = self.interruption(turn) else { return };
        interruption.heard_at = Some(Instant::now());
        ctx.run_later(self.rules.interruption.resume_after, move |act, _| {
            let _in = act.span.clone().entered();
            if act.interruption(turn).is_some() && act.resume() {
                actor_metrics().turn_taking.interruptions.late.increment(1);
            }
        });
    }

    /// Reports whether the utterance of this turn interrupts a reply, and is still spoken.
    pub(super) fn interrupts(&self, turn: TurnId) -> bool {
        let interruption = self.live.as_ref().and_then(|live| live.interruption.as_ref());
        interruption.is_some_and(|i| i.turn.id == turn && i.heard_at.is_none())
    }

    fn interruption(&mut self, turn: TurnId) -> Option<&mut Interruption> {
        self.live.as_mut()?.interruption.as_mut().filter(|i| i.turn.id == turn)
    }

    /// Returns whether voice pauses the reply: as its role says, or as is configured.
    fn pauses(&self) -> bool {
        match (self.rules.role)().and_then(|role| role.interruption) {
            Some(manner) => manner == InterruptionManner::Pause,
            None => self.rules.interruption.pause,
        }
    }

    /// Lets a paused reply go on with the first sentence that was not heard. Returns false if none is paused.
    fn resume(&mut self) -> bool {
        let Some(live) = self.live.as_ref().filter(|l| l.turn.playback_now().paused) else {
            return false;
        };
        let from = live.heard().whole;
        tracing::debug!(turn = %live.turn.id, trace = live.turn.trace().log_id(), from, "the reply goes on");
        live.turn.trace().moment(Moment::Resumed);
        live.turn.resume_playback(from);
        // If its place was taken meanwhile, it is one turn above the limit.
        live.turn.acquire_permit(&self.rules.admission);
        true
    }

    /// Drops an utterance that is not answered, and lets the reply go on. Returns false if it interrupts none.
    pub(super) fn dismiss(&mut self, turn: TurnId) -> bool {
        let Some(interruption) = self.interruption(turn) else { return false };
        interruption.turn.cut();
        self.resume();
        if let Some(live) = &mut self.live {
            live.interruption = None;
        }
        true
    }

    /// Makes the utterance that has interrupted a reply the live turn, since the reply is over.
    pub(super) fn listen_to(&mut self, Interruption { turn, heard_at }: Interruption) {
        let hearing = heard_at.is_none();
        self.live = Some(LiveTurn { heard_at, ..self.live_turn(turn, hearing) });
    }

    /// Ends the reply that an utterance interrupts, or lets it go on. Returns true if the utterance is to be answered.
    fn decide(&mut self, turn: &Turn, input: &TurnInput, ctx: &mut Ctx) -> bool {
        let outcomes = &actor_metrics().turn_taking.interruptions;
        let asked = self.live.as_ref().is_some_and(LiveTurn::awaits_answer);
        let meaning = match input {
            TurnInput::Words(words) => self.rules.interruption.meaning(words, asked),
            _ => Meaning::Words,
        };
        tracing::debug!(turn = %turn.id, trace = turn.trace().log_id(), ?meaning, "understood an interruption");
        match (meaning, input) {
            (Meaning::Backchannel, _) => {
                self.dismiss(turn.id);
                outcomes.backchannel.increment(1);
                return false;
            }
            (Meaning::Stop, TurnInput::Words(text)) => {
                self.cut(ctx);
                self.send(&Downlink::Stt { text: text.clone() }, ctx);
                outcomes.stopped.increment(1);
                return false;
            }
            _ => {}
        }
        let interruption = self.live.as_mut().and_then(|live| live.interruption.take());
        self.cut(ctx);
        interruption.into_iter().for_each(|interruption| self.listen_to(interruption));
        outcomes.answered.increment(1);
        true
    }
}

impl LiveTurn {
    /// Reports whether a step of its playback is carried out. What was on its way when the person spoke is not.
    pub(super) fn takes(&mut self, step: &PlaybackStep) -> bool {
        if let PlaybackStep::Resumed { count, .. } = step {
            self.resumed = *count;
        }
        let control = self.turn.playback_now();
        let plays = !control.paused && self.resumed == control.resumed;
        plays || *step == PlaybackStep::Stop
    }

    /// Reports whether a backchannel would be an answer: to a question, or to a reply that is nearly over.
    fn awaits_answer(&self) -> bool {
        let progress = *self.turn.progress().borrow();
        let left = progress
            .and_then(|p| Some(p.left? + p.quiet_from.saturating_duration_since(Instant::now())));
        self.asks || left.is_some_and(|left| left <= LAST_WORDS)
    }
}

impl Handler<Interrupted> for DeviceActor {
    type Result = ();

    fn handle(&mut self, Interrupted { turn, input }: Interrupted, ctx: &mut Self::Context) {
        let _in = self.span.clone().entered();
        let interrupts = self.interruption(turn.id).is_some();
        // The reply may have ended by itself meanwhile.
        let is_live = self.live.as_ref().is_some_and(|live| live.turn.id == turn.id);
        let answered = if interrupts { self.decide(&turn, &input, ctx) } else { is_live };
        if let Some(links) = self.links.as_ref().filter(|_| answered) {
            links.start_turn.do_send(StartTurn { turn, input });
        }
        self.count();
    }
}
