//! DeviceActor: the WebSocket of one device. Reads the device's messages, writes messages and audio
//! to it, and cuts the live turn here before any other actor knows. Not for audio processing, words
//! or vendors.

mod device_activity;
mod interruption;
mod orders;
mod playback;
mod state;
mod timeouts;
mod uplink;

use std::collections::VecDeque;

use actix::fut::{ActorFutureExt as _, wrap_future};
use actix::{Actor, ActorContext as _, AsyncContext as _, Handler, Running, StreamHandler};
use hearken_base::memory_pool::PeerMemory;
use hearken_base::paced_log::PacedLog;
use hearken_dialogue::metrics::{DeviceActivity, actor_metrics};
use hearken_dialogue::turn_factory::TurnFactory;
use hearken_proto::device::Downlink;
use hearken_proto::ids::SessionId;
use hearken_socket::{Inbound, Incoming, SocketContext, SocketFrame};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use self::device_activity::Counted;
use self::state::{ConnectionState, LiveTurn, PipelineLinks, TextFrames, WakeWords};
use self::timeouts::CHECK_EVERY;
use crate::device_registry::Registration;
use crate::messages::{
    DeviceOrder, NothingRecognised, PartialTranscript, PlaybackItem, SpeechEnded, SpeechStarted,
    Transcribed,
};

pub use state::{DeviceConnection, DeviceRules, PipelineHandles, StartPipeline};

/// Slots of the uplink queue that audio packets leave free for listening orders.
pub const LANE_RESERVE: usize = 8;

/// Actor of one device's socket.
pub struct DeviceActor {
    connection: DeviceConnection,
    /// Memory that is used for the device.
    memory: PeerMemory,
    rules: DeviceRules,
    session_id: SessionId,
    turns: TurnFactory,
    start_pipeline: Option<StartPipeline>,
    links: Option<PipelineLinks>,
    inbound: Inbound,
    /// Handshake, timers, microphone and pending messages of the connection.
    state: ConnectionState,
    live: Option<LiveTurn>,
    /// Registration in the device registry, once the actor has an address.
    registration: Option<Registration>,
    counted: Counted,
    span: tracing::Span,
}

impl DeviceActor {
    /// Creates the socket actor of a session. When it starts, it starts the other actors of its
    /// connection with `start_pipeline`.
    pub fn new(
        connection: DeviceConnection,
        rules: DeviceRules,
        session_id: SessionId,
        turns: TurnFactory,
        start_pipeline: StartPipeline,
    ) -> Self {
        let span =
            tracing::info_span!("device", device = %connection.device_id, session = %session_id);
        let now = Instant::now();
        let state = ConnectionState {
            since: now,
            greeted: false,
            mode: None,
            last_inbound: now,
            last_ping: now,
            last_voice: now,
            dropped_in_a_row: 0,
            text_frames: TextFrames::default(),
            wake_words: WakeWords::default(),
            warnings: PacedLog::default(),
            microphone_open: false,
            leaving: false,
            forgets: 0,
            to_say: VecDeque::new(),
            messages_held_until: None,
            notice_given: false,
            wants_partials: false,
            sent: None,
            last_stamp: 0,
        };
        let memory = connection.memory();
        Self {
            connection,
            memory,
            rules,
            session_id,
            turns,
            start_pipeline: Some(start_pipeline),
            links: None,
            inbound: Inbound::default(),
            state,
            live: None,
            registration: None,
            counted: Counted::new(DeviceActivity::Idle),
            span,
        }
    }
}

impl Actor for DeviceActor {
    type Context = SocketContext<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        actor_metrics().connections.increment(1);
        let ended = wrap_future::<_, Self>(self.turns.connection().clone().cancelled_owned());
        ctx.spawn(ended.map(|(), act, ctx| {
            let _in = act.span.clone().entered();
            let fault = act.turns.fault();
            act.leave(fault, ctx);
        }));
        let mut own_tools = None;
        if let Some(start_pipeline) = self.start_pipeline.take() {
            let PipelineHandles { uplink, start_turn, playback_ended, said, playback, tools } =
                start_pipeline(&ctx.address());
            ctx.add_stream(ReceiverStream::new(playback));
            self.links = Some(PipelineLinks { uplink, start_turn, playback_ended, said });
            own_tools = Some(tools);
        }
        self.register(own_tools, ctx);
        ctx.run_interval(CHECK_EVERY, |act, ctx| {
            let _in = act.span.clone().entered();
            act.check_timeouts(ctx);
        });
    }

    fn stopping(&mut self, _: &mut Self::Context) -> Running {
        self.turns.connection().cancel();
        Running::Stop
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        actor_metrics().connections.decrement(1);
        self.turns.connection().cancel();
        let unsaid = self.state.to_say.len();
        if unsaid > 0 {
            actor_metrics().drops.messages.increment(unsaid as u64);
            tracing::warn!(parent: &self.span, unsaid, "the connection ended before messages were spoken");
        }
        tracing::info!(parent: &self.span, "disconnected");
    }
}

impl StreamHandler<SocketFrame> for DeviceActor {
    fn handle(&mut self, frame: SocketFrame, ctx: &mut Self::Context) {
        let _in = self.span.clone().entered();
        self.state.last_inbound = Instant::now();
        match self.inbound.accept(frame, ctx) {
            Incoming::Text(text) => self.text(text, ctx),
            Incoming::Binary(message) => self.binary(&message, ctx),
            Incoming::Alive | Incoming::Closed => {}
            Incoming::Broken(fault) => self.leave(fault, ctx),
        }
        self.count();
    }

    /// Stops the actor: the peer dropped the connection, as firmware does.
    fn finished(&mut self, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

impl StreamHandler<PlaybackItem> for DeviceActor {
    fn handle(&mut self, item: PlaybackItem, ctx: &mut Self::Context) {
        let _in = self.span.clone().entered();
        self.play(item, ctx);
        self.count();
    }

    /// Does nothing: the TtsActor is gone, and the connection's token ends this actor too.
    fn finished(&mut self, _: &mut Self::Context) {}
}

impl Handler<SpeechStarted> for DeviceActor {
    type Result = ();

    fn handle(&mut self, started: SpeechStarted, ctx: &mut Self::Context) {
        let _in = self.span.clone().entered();
        let SpeechStarted { turn, forgets } = started;
        // An order to forget is still on its way among the packets, and covers this utterance, too.
        // Decision 0009.
        if forgets < self.state.forgets {
            return turn.cut();
        }
        tracing::debug!(turn = %turn.id, trace = turn.trace().log_id(), "speech has started");
        let quiet_since = self.quiet_since();
        self.state.last_voice = Instant::now();
        if let Some(turn) = self.pause(turn) {
            self.interrupt_live_turn(ctx);
            self.live = Some(LiveTurn { quiet_since, ..self.live_turn(turn, true) });
        }
        self.count();
    }
}

impl Handler<SpeechEnded> for DeviceActor {
    type Result = ();

    fn handle(&mut self, ended: SpeechEnded, ctx: &mut Self::Context) {
        let _in = self.span.clone().entered();
        tracing::debug!(turn = %ended.turn, "speech has ended");
        self.state.last_voice = Instant::now();
        if let Some(live) = self.live.as_mut().filter(|l| l.turn.id == ended.turn) {
            live.hearing = false;
            live.heard_at = Some(Instant::now());
        }
        self.interruption_spoken(ended.turn, ctx);
        self.count();
    }
}

impl Handler<Transcribed> for DeviceActor {
    type Result = ();

    fn handle(&mut self, message: Transcribed, ctx: &mut Self::Context) {
        let _in = self.span.clone().entered();
        let live = self.live.as_ref().filter(|l| l.turn.id == message.turn.id);
        if let Some(heard) = live.and_then(|l| l.heard_at) {
            actor_metrics().transcript.record(heard.elapsed());
        }
        if live.is_some() || message.turn.is_continued() {
            tracing::debug!(turn = %message.turn.id, trace = message.turn.trace().log_id(), chars = message.text.chars().count(), "sent the transcript");
            self.send(&Downlink::Stt { text: message.text }, ctx);
        }
    }
}

impl Handler<PartialTranscript> for DeviceActor {
    type Result = ();

    fn handle(&mut self, message: PartialTranscript, ctx: &mut Self::Context) {
        let PartialTranscript { turn, text } = message;
        let live = self.live.as_ref().is_some_and(|live| live.turn.id == turn && live.hearing);
        // Only clients that request partial transcripts get them: firmware shows each `stt` as
        // final. Decision 0065.
        if self.state.wants_partials && !text.is_empty() && (live || self.interrupts(turn)) {
            self.send(&Downlink::PartialStt { text }, ctx);
        }
    }
}

impl Handler<NothingRecognised> for DeviceActor {
    type Result = ();

    fn handle(&mut self, message: NothingRecognised, ctx: &mut Self::Context) {
        let _in = self.span.clone().entered();
        if self.dismiss(message.turn) {
            actor_metrics().turn_taking.interruptions.nothing.increment(1);
        }
        if let Some(live) = self.live.take_if(|l| l.turn.id == message.turn) {
            live.turn.cut();
            self.state.messages_held_until = None;
            if message.is_ignored {
                // Otherwise a television would keep the connection open.
                self.state.last_voice = live.quiet_since;
            }
        }
        self.say_next();
        if message.is_ignored {
            // The next words of an endless voice may start before the next check of the timers.
            self.check_silence(ctx);
        }
        self.count();
    }
}

impl Handler<DeviceOrder> for DeviceActor {
    type Result = ();

    fn handle(&mut self, order: DeviceOrder, ctx: &mut Self::Context) {
        let _in = self.span.clone().entered();
        self.carry_out(order, ctx);
    }
}
