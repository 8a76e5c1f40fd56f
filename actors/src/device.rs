//! DeviceActor: the socket of one device. Reads what the device says, writes what it is told, and
//! cuts the live turn at the socket before anybody else knows. Not for sound, words or vendors.

mod state;

use std::time::Duration;

use actix::fut::{ActorFutureExt as _, wrap_future};
use actix::{Actor, ActorContext as _, AsyncContext as _, Handler, Running, StreamHandler};
use bytes::Bytes;
use hearken_proto::device::{
    AudioPacket, AudioParams, Downlink, Framing, Hello, ListenMode, ServerHello, Uplink,
};
use hearken_proto::fault::Fault;
use hearken_proto::ids::SessionId;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

pub use state::{DeviceRules, TieRing, Visitor, Wiring};

use self::state::{LiveTurn, Talk, Wires};
use crate::audio::playout::Playout;
use crate::dialogue::{Turn, TurnInput};
use crate::messages::{
    NothingHeard, PlaybackEnded, PlaybackItem, PlaybackStep, SpeechEnded, SpeechStarted, StartTurn,
    Transcribed, UplinkItem,
};
use crate::ports::TapFrame;
use crate::turns::Turns;
use crate::ws_link::{self, Inbound, Incoming, SocketContext, SocketFrame};

/// Places of the uplink lane that packets leave free for listening orders.
pub const LANE_RESERVE: usize = 8;
/// Packets dropped in a row, because nobody takes them, before the connection is given up.
const MAX_DROPPED_IN_A_ROW: u32 = 64;
/// How often the idle rules are looked at.
const CLOCK_EVERY: Duration = Duration::from_secs(1);

/// The socket of one device.
pub struct DeviceActor {
    visitor: Visitor,
    rules: DeviceRules,
    session_id: SessionId,
    turns: Turns,
    tie: Option<TieRing>,
    wires: Option<Wires>,
    inbound: Inbound,
    /// Greeted, and since when nobody spoke.
    talk: Talk,
    live: Option<LiveTurn>,
    span: tracing::Span,
}

impl DeviceActor {
    /// A socket that ties its ring when it starts.
    pub fn new(visitor: Visitor, rules: DeviceRules, turns: Turns, tie: TieRing) -> Self {
        let session_id = SessionId::random();
        let span =
            tracing::info_span!("device", device = %visitor.device_id, session = %session_id);
        let now = Instant::now();
        let talk = Talk {
            since: now,
            greeted: false,
            mode: None,
            last_inbound: now,
            last_ping: now,
            last_voice: now,
            dropped_in_a_row: 0,
            leaving: false,
        };
        Self {
            visitor,
            rules,
            session_id,
            turns,
            tie: Some(tie),
            wires: None,
            inbound: Inbound::default(),
            talk,
            live: None,
            span,
        }
    }

    fn send(&mut self, message: &Downlink, ctx: &mut SocketContext<Self>) {
        let text = message.encode(&self.session_id);
        if let Some(tap) = &mut self.visitor.tap {
            tap.frame(TapFrame::DownText(text.clone()));
        }
        ctx.text(text);
    }

    fn text(&mut self, text: String, ctx: &mut SocketContext<Self>) {
        let message = match Uplink::decode(&text) {
            Ok(message) => message,
            Err(error) => {
                tracing::warn!(%error, bytes = text.len(), "text frame cannot be read");
                return;
            }
        };
        if let Some(tap) = &mut self.visitor.tap {
            tap.frame(TapFrame::UpText(text));
        }
        match message {
            Uplink::Hello(hello) => self.hello(&hello, ctx),
            Uplink::ListenStart { mode } => self.listen_start(mode, ctx),
            Uplink::ListenStop => self.order(UplinkItem::ListenStop, ctx),
            Uplink::ListenDetect { text } => self.detect(text, ctx),
            Uplink::Abort { reason } => {
                tracing::debug!(reason, "abort");
                self.abort(ctx);
            }
            Uplink::Goodbye => ctx.stop(),
            Uplink::Mcp { .. } | Uplink::Iot { .. } => tracing::debug!("no tool host takes this"),
            Uplink::Unknown { kind } => tracing::warn!(kind, "message of unknown type"),
        }
    }

    fn hello(&mut self, hello: &Hello, ctx: &mut SocketContext<Self>) {
        if let Some(version) = hello.version {
            self.visitor.framing = Framing::from_version(version);
        }
        self.talk.greeted = true;
        self.talk.last_voice = Instant::now();
        let speaking = &self.rules.speaking;
        let packet_ms = u32::try_from(speaking.packet.as_millis()).unwrap_or(60);
        let audio_params = AudioParams::opus(speaking.sample_rate_hz, packet_ms);
        tracing::info!(framing = ?self.visitor.framing, uplink = ?hello.audio_params, "hello");
        self.send(&Downlink::Hello(ServerHello { audio_params }), ctx);
    }

    fn listen_start(&mut self, mode: ListenMode, ctx: &mut SocketContext<Self>) {
        self.talk.mode = Some(mode);
        self.talk.last_voice = Instant::now();
        if mode == ListenMode::Manual {
            self.cut(ctx);
        }
        self.order(UplinkItem::ListenStart(mode), ctx);
    }

    fn detect(&mut self, text: String, ctx: &mut SocketContext<Self>) {
        self.cut(ctx);
        self.order(UplinkItem::Forget, ctx);
        let wake = text.is_empty() || self.rules.device.is_wake_word(&text);
        let input = if wake { TurnInput::Wake(text) } else { TurnInput::Words(text) };
        self.begin(input);
    }

    fn abort(&mut self, ctx: &mut SocketContext<Self>) {
        let told = self.cut(ctx);
        self.order(UplinkItem::Forget, ctx);
        if !told {
            self.send(&Downlink::TtsStop, ctx);
        }
    }

    /// Begins a turn that did not come from speech.
    fn begin(&mut self, input: TurnInput) {
        let turn = self.turns.mint();
        self.live = Some(self.live_turn(turn.clone(), false));
        if let Some(wires) = &self.wires {
            wires.start_turn.do_send(StartTurn { turn, input });
        }
    }

    fn live_turn(&self, turn: Turn, hearing: bool) -> LiveTurn {
        let speaking = &self.rules.speaking;
        let playout = Playout::new(speaking.packet, speaking.lead_packets);
        LiveTurn { turn, hearing, speaking: false, epoch: Instant::now(), playout }
    }

    /// Ends the live turn here and now: nothing of it is sent any more. True where the device
    /// was told to stop.
    fn cut(&mut self, ctx: &mut SocketContext<Self>) -> bool {
        let Some(live) = self.live.take() else { return false };
        live.turn.cut();
        if live.speaking {
            self.send(&Downlink::TtsStop, ctx);
        }
        self.ended(&live);
        live.speaking
    }

    /// The person speaks: a reply that is heard is cut; words that are not answered yet will be
    /// answered together with what comes.
    fn give_way(&mut self, ctx: &mut SocketContext<Self>) {
        match self.live.take_if(|l| !l.speaking) {
            Some(live) => {
                live.turn.continued();
                self.ended(&live);
            }
            None => {
                self.cut(ctx);
            }
        }
    }

    fn ended(&mut self, live: &LiveTurn) {
        let heard = live.playout.heard(live.epoch.elapsed());
        self.talk.last_voice = Instant::now();
        if let Some(wires) = &self.wires {
            wires.playback_ended.do_send(PlaybackEnded { turn: live.turn.id, heard });
        }
    }

    /// Sends a listening order, for which the lane keeps some places.
    fn order(&mut self, item: UplinkItem, ctx: &mut SocketContext<Self>) {
        let sent = self.wires.as_ref().is_some_and(|w| w.uplink.try_send(item).is_ok());
        if !sent {
            tracing::warn!("listening orders come faster than they can be carried out");
            self.leave(Fault::Busy, ctx);
        }
    }

    fn binary(&mut self, message: &Bytes, ctx: &mut SocketContext<Self>) {
        let packet = match self.visitor.framing.decode(message) {
            Ok(packet) => packet,
            Err(error) => {
                tracing::debug!(%error, bytes = message.len(), "audio frame cannot be read");
                return;
            }
        };
        if let Some(tap) = &mut self.visitor.tap {
            tap.frame(TapFrame::UpAudio(packet.opus.clone()));
        }
        // With its own microphone closed, what a device in auto mode still sends is our own
        // voice, or was under way when we began.
        let deaf = self.talk.mode != Some(ListenMode::Realtime)
            && self.live.as_ref().is_some_and(|l| l.speaking);
        if deaf {
            return;
        }
        let Some(wires) = &self.wires else { return };
        let room = wires.uplink.capacity() > LANE_RESERVE;
        if room && wires.uplink.try_send(UplinkItem::Packet(packet.opus)).is_ok() {
            self.talk.dropped_in_a_row = 0;
            return;
        }
        self.talk.dropped_in_a_row += 1;
        if self.talk.dropped_in_a_row > MAX_DROPPED_IN_A_ROW {
            tracing::warn!("audio comes faster than it can be heard");
            self.leave(Fault::Busy, ctx);
        }
    }

    fn play(&mut self, item: PlaybackItem, ctx: &mut SocketContext<Self>) {
        let Some(live) = self.live.as_mut().filter(|l| l.turn.id == item.turn) else { return };
        let now = live.epoch.elapsed();
        match item.step {
            PlaybackStep::Emotion(emotion) => self.send(&Downlink::Llm { emotion }, ctx),
            PlaybackStep::Start => {
                live.speaking = true;
                self.send(&Downlink::TtsStart, ctx);
                if self.talk.mode != Some(ListenMode::Realtime) {
                    self.order(UplinkItem::Forget, ctx);
                }
            }
            PlaybackStep::SentenceStart(text) => {
                live.playout.sentence_started(now);
                self.send(&Downlink::SentenceStart { text }, ctx);
            }
            PlaybackStep::Packet(opus) => {
                if live.playout.end(Duration::ZERO).is_zero() {
                    tracing::debug!(turn = %live.turn.id, "first audio leaves");
                }
                live.playout.sent(now);
                self.packet(opus, now, ctx);
            }
            PlaybackStep::SentenceEnd(text) => {
                live.playout.sentence_complete();
                self.send(&Downlink::SentenceEnd { text }, ctx);
            }
            PlaybackStep::Stop => self.played_out(ctx),
        }
    }

    fn packet(&mut self, opus: Bytes, played: Duration, ctx: &mut SocketContext<Self>) {
        if let Some(tap) = &mut self.visitor.tap {
            tap.frame(TapFrame::DownAudio(opus.clone()));
        }
        let timestamp_ms = u32::try_from(played.as_millis()).unwrap_or(u32::MAX);
        ctx.binary(self.visitor.framing.encode(&AudioPacket { opus, timestamp_ms }));
    }

    fn played_out(&mut self, ctx: &mut SocketContext<Self>) {
        let Some(live) = self.live.take() else { return };
        if live.speaking {
            self.send(&Downlink::TtsStop, ctx);
        }
        live.turn.cut();
        self.ended(&live);
        if self.talk.leaving {
            self.leave(Fault::Idle, ctx);
        }
    }

    fn leave(&mut self, fault: Fault, ctx: &mut SocketContext<Self>) {
        tracing::info!(fault = fault.code(), "closing");
        self.cut(ctx);
        ws_link::close(ctx, fault);
        ctx.stop();
    }

    fn look_at_the_clock(&mut self, ctx: &mut SocketContext<Self>) {
        let device = &self.rules.device;
        let now = Instant::now();
        if !self.talk.greeted && now - self.talk.since >= device.hello_timeout {
            return self.leave(Fault::NoHello, ctx);
        }
        if now - self.talk.last_inbound >= device.dead_after {
            tracing::info!("the device is gone without a word");
            self.cut(ctx);
            return ctx.stop();
        }
        if now - self.talk.last_ping >= device.ping_every {
            self.talk.last_ping = now;
            ctx.ping(b"");
        }
        let silent = self.live.as_ref().is_none_or(|l| l.hearing);
        if silent && self.talk.greeted && now - self.talk.last_voice >= device.no_voice_timeout {
            if self.rules.farewell.is_empty() || self.talk.leaving {
                return self.leave(Fault::Idle, ctx);
            }
            self.talk.leaving = true;
            self.cut(ctx);
            self.begin(TurnInput::Say(self.rules.farewell.clone()));
        }
    }
}

impl Actor for DeviceActor {
    type Context = SocketContext<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let ended = wrap_future::<_, Self>(self.turns.connection().clone().cancelled_owned());
        ctx.spawn(ended.map(|(), act, ctx| {
            let _in = act.span.clone().entered();
            let fault = act.turns.fault();
            act.leave(fault, ctx);
        }));
        if let Some(tie) = self.tie.take() {
            let Wiring { uplink, start_turn, playback_ended, playback } = tie(&ctx.address());
            ctx.add_stream(ReceiverStream::new(playback));
            self.wires = Some(Wires { uplink, start_turn, playback_ended });
        }
        ctx.run_interval(CLOCK_EVERY, |act, ctx| {
            let _in = act.span.clone().entered();
            act.look_at_the_clock(ctx);
        });
    }

    fn stopping(&mut self, _: &mut Self::Context) -> Running {
        self.turns.connection().cancel();
        Running::Stop
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.turns.connection().cancel();
        tracing::info!(parent: &self.span, "disconnected");
    }
}

impl StreamHandler<SocketFrame> for DeviceActor {
    fn handle(&mut self, frame: SocketFrame, ctx: &mut Self::Context) {
        let _in = self.span.clone().entered();
        self.talk.last_inbound = Instant::now();
        match self.inbound.accept(frame, ctx) {
            Incoming::Text(text) => self.text(text, ctx),
            Incoming::Binary(message) => self.binary(&message, ctx),
            Incoming::Alive => {}
            Incoming::Closed => ctx.stop(),
            Incoming::Broken(fault) => self.leave(fault, ctx),
        }
    }

    /// The peer dropped the connection, as firmware does.
    fn finished(&mut self, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

impl StreamHandler<PlaybackItem> for DeviceActor {
    fn handle(&mut self, item: PlaybackItem, ctx: &mut Self::Context) {
        let _in = self.span.clone().entered();
        self.play(item, ctx);
    }

    /// The TtsActor is gone; the connection's token tells why.
    fn finished(&mut self, _: &mut Self::Context) {}
}

impl Handler<SpeechStarted> for DeviceActor {
    type Result = ();

    fn handle(&mut self, SpeechStarted { turn }: SpeechStarted, ctx: &mut Self::Context) {
        let _in = self.span.clone().entered();
        tracing::debug!(turn = %turn.id, "speech has started");
        self.talk.last_voice = Instant::now();
        self.give_way(ctx);
        self.live = Some(self.live_turn(turn, true));
    }
}

impl Handler<SpeechEnded> for DeviceActor {
    type Result = ();

    fn handle(&mut self, ended: SpeechEnded, _: &mut Self::Context) {
        let _in = self.span.clone().entered();
        tracing::debug!(turn = %ended.turn, "speech has ended");
        self.talk.last_voice = Instant::now();
        if let Some(live) = self.live.as_mut().filter(|l| l.turn.id == ended.turn) {
            live.hearing = false;
        }
    }
}

impl Handler<Transcribed> for DeviceActor {
    type Result = ();

    fn handle(&mut self, message: Transcribed, ctx: &mut Self::Context) {
        let _in = self.span.clone().entered();
        let live = self.live.as_ref().is_some_and(|l| l.turn.id == message.turn.id);
        if live || message.turn.is_continued() {
            tracing::debug!(turn = %message.turn.id, chars = message.text.chars().count(), "understood");
            self.send(&Downlink::Stt { text: message.text }, ctx);
        }
    }
}

impl Handler<NothingHeard> for DeviceActor {
    type Result = ();

    fn handle(&mut self, message: NothingHeard, _: &mut Self::Context) {
        if let Some(live) = self.live.take_if(|l| l.turn.id == message.turn) {
            live.turn.cut();
        }
    }
}
