//! VadActor: Opus packets in, utterances out. Decodes, tells voice from noise, finds the ends of
//! speech, and mints the turn that begins with it. Not for recognising words.

use std::time::Duration;

use actix::{Actor, AsyncContext as _, Context, Recipient, SpawnHandle, StreamHandler};
use hearken_proto::device::ListenMode;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use crate::audio::endpointer::Endpoint;
use crate::audio::pcm;
use crate::audio::utterance_detector::{Unheard, UtteranceDetector};
use crate::audio::voice_detector::SAMPLE_RATE_HZ;
use crate::dialogue::Turn;
use crate::messages::{OpenUtterance, SpeechEnded, SpeechStarted, UplinkItem};
use crate::metrics::meters;
use crate::settings::HearingSettings;
use crate::turn_factory::TurnFactory;
use crate::utterance_channel::{self, PieceSender};

/// Where the actor's findings go.
pub struct VadOutputs {
    /// The edge, told when speech starts.
    pub started: Recipient<SpeechStarted>,
    /// The edge, told when speech ends.
    pub ended: Recipient<SpeechEnded>,
    /// The recogniser's actor.
    pub utterances: Recipient<OpenUtterance>,
}

/// Hears one device.
pub struct VadActor {
    lane: Option<mpsc::Receiver<UplinkItem>>,
    outputs: VadOutputs,
    turns: TurnFactory,
    utterance_lane: usize,
    settings: HearingSettings,
    ear: UtteranceDetector,
    mode: Option<ListenMode>,
    open: Option<Utterance>,
    /// Looks whether packets still come.
    clock: Option<SpawnHandle>,
    /// Orders to forget that were carried out.
    forgets: u64,
}

/// An utterance that is being spoken.
struct Utterance {
    turn: Turn,
    audio: PieceSender,
    last_packet: Instant,
    sent: Duration,
    dropped: u32,
}

impl VadActor {
    /// An actor that takes its packets from `lane`.
    pub fn new(
        lane: mpsc::Receiver<UplinkItem>,
        outputs: VadOutputs,
        turns: TurnFactory,
        utterance_lane: usize,
        settings: HearingSettings,
    ) -> Self {
        Self {
            lane: Some(lane),
            outputs,
            turns,
            utterance_lane,
            ear: UtteranceDetector::new(settings.clone()),
            settings,
            mode: None,
            open: None,
            clock: None,
            forgets: 0,
        }
    }

    fn packet(&mut self, opus: &[u8], ctx: &mut Context<Self>) {
        let Some(mode) = self.mode else { return meters().uplink.unwanted.increment(1) };
        if !self.decode(opus) {
            return;
        }
        if self.open.as_ref().is_some_and(|u| !u.turn.is_live()) {
            self.open = None;
            self.ear.forget();
        }
        let longest = self.settings.max_utterance + self.settings.pre_roll;
        if mode == ListenMode::Manual {
            if let Some(utterance) = &mut self.open {
                utterance.send(self.ear.unjudged(), longest);
            }
            return self.ear.forget();
        }
        while let Some(judged) = self.ear.judge() {
            if matches!(judged.endpoint, Some(Endpoint::Started { .. })) {
                self.open_utterance();
                self.watch_the_clock(ctx);
            }
            if let Some(utterance) = &mut self.open {
                utterance.send(self.ear.sound(&judged), longest);
            }
            if judged.endpoint == Some(Endpoint::Ended) {
                self.end();
            }
        }
    }

    /// Appends the packet's sound; garbage is counted and skipped.
    fn decode(&mut self, opus: &[u8]) -> bool {
        let count = &meters().uplink;
        match self.ear.decode(opus) {
            Ok(()) if opus.is_empty() => count.empty.increment(1),
            Ok(()) => count.heard.increment(1),
            Err(error) => {
                let oversized = error == Unheard::Oversized;
                if oversized { &count.oversized } else { &count.garbage }.increment(1);
                tracing::debug!(%error, bytes = opus.len(), "uplink packet does not decode");
                return false;
            }
        }
        true
    }

    fn open_utterance(&mut self) {
        let turn = self.turns.mint();
        let (audio, receiver) = utterance_channel::lane(self.utterance_lane);
        let forgets = self.forgets;
        self.outputs.started.do_send(SpeechStarted { turn: turn.clone(), forgets });
        self.outputs.utterances.do_send(OpenUtterance { turn: turn.clone(), audio: receiver });
        let last_packet = Instant::now();
        self.open = Some(Utterance { turn, audio, last_packet, sent: Duration::ZERO, dropped: 0 });
    }

    fn end(&mut self) {
        let Some(utterance) = self.open.take() else { return };
        if utterance.dropped > 0 {
            tracing::warn!(turn = %utterance.turn.id, pieces = utterance.dropped, "utterance has gaps: the recogniser is too slow");
        }
        self.outputs.ended.do_send(SpeechEnded { turn: utterance.turn.id });
    }

    /// Drops what was heard; an open utterance is abandoned.
    fn forget(&mut self) {
        if let Some(utterance) = self.open.take() {
            utterance.turn.cut();
        }
        self.ear.forget();
    }

    fn listen(&mut self, mode: ListenMode, ctx: &mut Context<Self>) {
        self.mode = Some(mode);
        if mode == ListenMode::Manual {
            self.forget();
            self.open_utterance();
        } else if self.open.is_none() {
            self.ear.forget();
        } else {
            // A button has opened it, and silence is to end it from here on.
            self.watch_the_clock(ctx);
        }
    }

    /// Ends an utterance whose packets stop coming: some clients send nothing while silent. Looks
    /// again when that can be at the earliest, and only while an utterance is open.
    fn watch_the_clock(&mut self, ctx: &mut Context<Self>) {
        if let Some(clock) = self.clock.take() {
            ctx.cancel_future(clock);
        }
        let Some(utterance) = &self.open else { return };
        let left = self.settings.silence.saturating_sub(utterance.last_packet.elapsed());
        if left.is_zero() {
            self.ear.end();
            return self.end();
        }
        self.clock = Some(ctx.run_later(left, |act, ctx| {
            act.clock = None;
            if act.mode != Some(ListenMode::Manual) {
                act.watch_the_clock(ctx);
            }
        }));
    }
}

impl Utterance {
    /// Sends some more of it, up to the longest that an utterance may be.
    fn send(&mut self, sound: &[i16], longest: Duration) {
        self.last_packet = Instant::now();
        self.sent += pcm::duration(sound.len(), SAMPLE_RATE_HZ);
        if self.sent <= longest && !self.audio.send(sound) {
            self.dropped += 1;
            meters().drops.utterance.increment(1);
        }
    }
}

impl Actor for VadActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        crate::lifetime::stop_with(self.turns.connection(), ctx);
        if let Some(lane) = self.lane.take() {
            ctx.add_stream(ReceiverStream::new(lane));
        }
    }

    /// Also after a panic: a connection with a stage missing must end.
    fn stopped(&mut self, _: &mut Self::Context) {
        self.turns.connection().cancel();
    }
}

impl StreamHandler<UplinkItem> for VadActor {
    fn handle(&mut self, item: UplinkItem, ctx: &mut Self::Context) {
        match item {
            UplinkItem::Packet(opus) => self.packet(&opus, ctx),
            UplinkItem::ListenStart(mode) => self.listen(mode, ctx),
            UplinkItem::ListenStop => {
                self.end();
                self.ear.close();
                self.mode = None;
            }
            UplinkItem::Forget => {
                self.forgets += 1;
                self.forget();
            }
            UplinkItem::Speaking(speaking) => self.ear.need(speaking),
        }
    }

    /// The edge is gone; its token stops this actor.
    fn finished(&mut self, _: &mut Self::Context) {}
}
