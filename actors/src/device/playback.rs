//! Messages to a device: the live turn's playback, its end, and the ways to end it. Not for
//! messages from the device.

use std::time::Duration;

use bytes::Bytes;
use hearken_audio::playout::{PlayedBack as HeardPart, Playout};
use hearken_dialogue::metrics::actor_metrics;
use hearken_dialogue::turn_trace::{Stage, TraceEvent};
use hearken_dialogue::{Turn, TurnInput};
use hearken_ports::RecordedFrame;
use hearken_proto::device::{AudioPacket, Downlink, ListenMode};
use hearken_proto::fault::Fault;
use hearken_socket::SocketContext;
use tokio::time::Instant;

use super::DeviceActor;
use super::state::LiveTurn;
use crate::interruption;
use crate::messages::{PlaybackEnded, PlaybackItem, PlaybackStep, StartTurn, UplinkItem};

type Ctx = SocketContext<DeviceActor>;

impl DeviceActor {
    pub(super) fn send(&mut self, message: &Downlink, ctx: &mut Ctx) {
        let text = message.encode(&self.session_id);
        if let Some(sink) = &mut self.connection.sink {
            sink.frame(RecordedFrame::DownText(text.clone()));
        }
        ctx.text(text);
    }

    /// Starts a turn that did not come from speech.
    pub(super) fn begin(&mut self, input: TurnInput) {
        self.begin_turn(self.turns.next(), input);
    }

    /// Starts this turn, which did not come from speech.
    pub(super) fn begin_turn(&mut self, turn: Turn, input: TurnInput) {
        let input = match input {
            TurnInput::Words(words) if !turn.acquire_permit(&self.rules.admission) => {
                TurnInput::Busy(words)
            }
            input => input,
        };
        let message = if let TurnInput::Say(text) = &input { Some(text.clone()) } else { None };
        self.live = Some(LiveTurn { message, ..self.live_turn(turn.clone(), false) });
        if let Some(links) = &self.links {
            links.start_turn.do_send(StartTurn { turn, input });
        }
    }

    pub(super) fn live_turn(&self, turn: Turn, hearing: bool) -> LiveTurn {
        let speaking = &self.rules.speaking;
        let playout = Playout::new(speaking.packet, speaking.lead_packets);
        LiveTurn {
            turn,
            message: None,
            hearing,
            speaking: false,
            heard_at: None,
            quiet_since: self.state.last_voice,
            epoch: Instant::now(),
            playout,
            sentences: 0,
            question: None,
            interruptions: Vec::new(),
            resumed: 0,
        }
    }

    /// Puts the message of the live turn, if it has one that was not heard yet, before the other
    /// pending ones.
    fn requeue_unheard_message(&mut self) {
        let unheard = self.live.as_mut().filter(|live| live.is_unheard());
        if let Some(message) = unheard.and_then(|live| live.message.take()) {
            self.state.to_say.push_front(message);
        }
    }

    /// Ends the live turn at once: nothing more of it is sent. A message that was not heard yet
    /// waits again, whatever ends it: one press of a button arrives as `abort`, as `listen start`
    /// or as both. Returns true if the device was sent `tts stop`.
    pub(super) fn cut(&mut self, ctx: &mut Ctx) -> bool {
        self.requeue_unheard_message();
        // Without a live turn, `play` drops all steps that are still on their way.
        let Some(live) = self.live.take() else { return false };
        live.turn.trace().end(Stage::Playback);
        live.turn.trace().event(TraceEvent::Cut);
        live.interruptions.iter().for_each(|interruption| interruption.turn.cut());
        live.turn.cut();
        if live.speaking {
            self.send(&Downlink::TtsStop, ctx);
        }
        self.ended(&live, false, ctx);
        live.speaking
    }

    /// Ends the live turn because the person speaks (barge-in). An answer whose playback has
    /// started is cut. Words whose answer has not started to play will be answered together with
    /// the new ones. A message that has not started to play waits again.
    pub(super) fn interrupt_live_turn(&mut self, ctx: &mut Ctx) {
        self.requeue_unheard_message();
        match self.live.take_if(|live| live.is_unheard()) {
            Some(live) => {
                live.turn.mark_continued();
                live.interruptions.iter().for_each(|interruption| interruption.turn.cut());
                if live.speaking {
                    self.send(&Downlink::TtsStop, ctx);
                }
                self.ended(&live, true, ctx);
            }
            None => {
                self.cut(ctx);
            }
        }
    }

    fn ended(&mut self, live: &LiveTurn, continued: bool, ctx: &mut Ctx) {
        if live.speaking && self.state.mode == Some(ListenMode::Realtime) {
            self.order(UplinkItem::Speaking(false), ctx);
        }
        let heard = if continued { HeardPart::default() } else { live.heard() };
        // People need not speak while a reply plays: silence counts from here.
        self.state.last_voice = Instant::now();
        self.state.leaving = false;
        if let Some(links) = &self.links {
            links.playback_ended.do_send(PlaybackEnded { turn: live.turn.id, heard, continued });
        }
    }

    pub(super) fn play(&mut self, item: PlaybackItem, ctx: &mut Ctx) {
        let Some(live) = self.live.as_mut().filter(|l| l.turn.id == item.turn) else { return };
        let now = live.epoch.elapsed();
        if !live.takes(&item.step) {
            return;
        }
        match item.step {
            PlaybackStep::Emotion(emotion) => self.send(&Downlink::Llm { emotion }, ctx),
            PlaybackStep::Start => {
                live.speaking = true;
                self.send(&Downlink::TtsStart, ctx);
                // From here on the microphone may hear the server's speech: realtime mode uses
                // another length of voice, and the other modes drop the audio.
                let open = self.state.mode == Some(ListenMode::Realtime);
                let item = if open { UplinkItem::Speaking(true) } else { UplinkItem::Forget };
                self.order(item, ctx);
            }
            PlaybackStep::SentenceStart(text) => {
                live.playout.sentence_started(now);
                if interruption::is_question(&text) {
                    live.question = Some(live.sentences);
                }
                live.sentences += 1;
                self.send(&Downlink::SentenceStart { text }, ctx);
            }
            PlaybackStep::Packet(opus) => {
                if live.playout.end(Duration::ZERO).is_zero() {
                    tracing::debug!(turn = %live.turn.id, trace = live.turn.trace().log_id(), "sent the first audio");
                    live.turn.trace().first_packet();
                    live.turn.trace().begin(Stage::Playback);
                    if let Some(heard) = live.heard_at {
                        actor_metrics().first_audio.record(heard.elapsed());
                    }
                }
                // `sent` moves the clock past this packet, so its own time is read before.
                let plays_at = live.epoch + live.playout.end(now);
                live.playout.sent(now);
                live.turn.trace().said_packet(&opus, plays_at, live.playout.packet());
                self.packet(opus, item.due, plays_at, ctx);
            }
            PlaybackStep::SentenceEnd(text) => {
                live.playout.sentence_complete();
                self.send(&Downlink::SentenceEnd { text }, ctx);
            }
            PlaybackStep::SentenceBroken(text) => {
                live.playout.sentence_broken();
                self.send(&Downlink::SentenceEnd { text }, ctx);
            }
            PlaybackStep::GivenUp => live.playout.given_up(),
            // This clock measures what was heard, and is rewound like the one of pacing.
            PlaybackStep::Resumed { from, .. } => {
                live.playout.rewind(from, now);
                live.sentences = from;
                live.question = live.question.filter(|at| *at < from);
            }
            PlaybackStep::Stop => self.played_out(ctx),
        }
    }

    fn packet(&mut self, opus: Bytes, due: Instant, plays_at: Instant, ctx: &mut Ctx) {
        if let Some(sink) = &mut self.connection.sink {
            sink.frame(RecordedFrame::DownAudio(opus.clone()));
        }
        let timestamp_ms = self.state.stamp(plays_at);
        if let Some(sent) = &self.state.sent {
            sent.push(timestamp_ms, opus.clone());
        }
        let late_by = due.elapsed();
        actor_metrics().packet_sent(late_by);
        self.rules.admission.packet_sent(late_by);
        ctx.binary(self.connection.framing.encode(&AudioPacket { opus, timestamp_ms }));
    }

    fn played_out(&mut self, ctx: &mut Ctx) {
        let Some(live) = self.live.take() else { return };
        live.turn.trace().end(Stage::Playback);
        if live.speaking {
            self.send(&Downlink::TtsStop, ctx);
        }
        live.turn.cut();
        // `ended` resets this.
        let leaves = self.state.leaving;
        self.ended(&live, false, ctx);
        // An utterance over the last sound is not understood yet: no other turn may start before
        // it.
        if !live.interruptions.is_empty() {
            return self.listen_to(live.interruptions);
        }
        // A message that arrived during the farewell is spoken, and the connection stays open.
        if leaves && self.state.to_say.is_empty() {
            return self.leave(Fault::Idle, ctx);
        }
        self.state.messages_held_until = None;
        self.say_next();
    }
}
