//! VadActor: Opus packets in, utterances out. Decodes, detects voice activity, finds where speech
//! starts and ends (endpointing), and creates the turn of each utterance. Not for recognising
//! words.

use std::time::Duration;

use actix::{Actor, AsyncContext as _, Context, Recipient, SpawnHandle, StreamHandler};
use hearken_proto::device::ListenMode;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use crate::actors::messages::{OpenUtterance, SpeechEnded, SpeechStarted, UplinkItem};
use crate::audio::endpointer::Endpoint;
use crate::audio::pcm;
use crate::audio::utterance_detector::{PacketError, UtteranceDetector};
use crate::audio::voice_detector::SAMPLE_RATE_HZ;
use crate::dialogue::Turn;
use crate::metrics::actor_metrics;
use crate::settings::HearingSettings;
use crate::turn_factory::TurnFactory;
use crate::utterance_channel::{self, AudioSender};

/// Recipients of the actor's messages.
pub struct VadOutputs {
    /// Recipient of starts of speech: the `DeviceActor`.
    pub started: Recipient<SpeechStarted>,
    /// Recipient of ends of speech: the `DeviceActor`.
    pub ended: Recipient<SpeechEnded>,
    /// Recipient of utterances: the `AsrActor`.
    pub utterances: Recipient<OpenUtterance>,
}

/// Voice activity detection for one device.
pub struct VadActor {
    lane: Option<mpsc::Receiver<UplinkItem>>,
    outputs: VadOutputs,
    turns: TurnFactory,
    utterance_lane: usize,
    settings: HearingSettings,
    detector: UtteranceDetector,
    mode: Option<ListenMode>,
    open: Option<Utterance>,
    /// Timer that ends an utterance whose packets stop coming.
    timeout: Option<SpawnHandle>,
    /// Number of `Forget` orders carried out.
    forgets: u64,
}

/// An utterance that is being spoken.
struct Utterance {
    turn: Turn,
    audio: AudioSender,
    last_packet: Instant,
    sent: Duration,
    dropped: u32,
}

impl VadActor {
    /// Creates an actor that takes its packets from `lane`.
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
            detector: UtteranceDetector::new(settings.clone()),
            settings,
            mode: None,
            open: None,
            timeout: None,
            forgets: 0,
        }
    }

    fn packet(&mut self, opus: &[u8], ctx: &mut Context<Self>) {
        let Some(mode) = self.mode else { return actor_metrics().uplink.unwanted.increment(1) };
        if !self.decode(opus) {
            return;
        }
        if self.open.as_ref().is_some_and(|u| !u.turn.is_live()) {
            self.open = None;
            self.detector.forget();
        }
        let longest = self.settings.max_utterance + self.settings.pre_roll;
        if mode == ListenMode::Manual {
            if let Some(utterance) = &mut self.open {
                utterance.send(self.detector.unclassified(), longest);
            }
            return self.detector.forget();
        }
        while let Some(judged) = self.detector.classify() {
            if matches!(judged.endpoint, Some(Endpoint::Started { .. })) {
                self.open_utterance();
                self.schedule_timeout(ctx);
            }
            if let Some(utterance) = &mut self.open {
                utterance.send(self.detector.sound(&judged), longest);
            }
            if judged.endpoint == Some(Endpoint::Ended) {
                self.end();
            }
        }
    }

    /// Decodes a packet and appends its samples. A packet that does not decode is counted and
    /// skipped, with false as the result.
    fn decode(&mut self, opus: &[u8]) -> bool {
        let count = &actor_metrics().uplink;
        match self.detector.decode(opus) {
            Ok(()) if opus.is_empty() => count.empty.increment(1),
            Ok(()) => count.heard.increment(1),
            Err(error) => {
                let oversized = error == PacketError::Oversized;
                if oversized { &count.oversized } else { &count.garbage }.increment(1);
                tracing::debug!(%error, bytes = opus.len(), "cannot decode an uplink packet");
                return false;
            }
        }
        true
    }

    fn open_utterance(&mut self) {
        let turn = self.turns.next();
        let (audio, receiver) = utterance_channel::channel(self.utterance_lane);
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

    /// Discards the audio received so far; an open utterance is abandoned.
    fn forget(&mut self) {
        if let Some(utterance) = self.open.take() {
            utterance.turn.cut();
        }
        self.detector.forget();
    }

    fn listen(&mut self, mode: ListenMode, ctx: &mut Context<Self>) {
        self.mode = Some(mode);
        if mode == ListenMode::Manual {
            self.forget();
            self.open_utterance();
        } else if self.open.is_none() {
            self.detector.forget();
        } else {
            // A button has opened the utterance; from here on silence ends it.
            self.schedule_timeout(ctx);
        }
    }

    /// Ends an utterance whose packets stop coming: some clients send nothing while silent. The
    /// timer fires when that can be at the earliest, and runs only while an utterance is open.
    fn schedule_timeout(&mut self, ctx: &mut Context<Self>) {
        if let Some(timeout) = self.timeout.take() {
            ctx.cancel_future(timeout);
        }
        let Some(utterance) = &self.open else { return };
        let left = self.settings.silence.saturating_sub(utterance.last_packet.elapsed());
        if left.is_zero() {
            self.detector.end();
            return self.end();
        }
        self.timeout = Some(ctx.run_later(left, |act, ctx| {
            act.timeout = None;
            if act.mode != Some(ListenMode::Manual) {
                act.schedule_timeout(ctx);
            }
        }));
    }
}

impl Utterance {
    /// Sends more samples of the utterance, up to `longest` in all.
    fn send(&mut self, sound: &[i16], longest: Duration) {
        self.last_packet = Instant::now();
        self.sent += pcm::duration(sound.len(), SAMPLE_RATE_HZ);
        if self.sent <= longest && !self.audio.send(sound) {
            self.dropped += 1;
            actor_metrics().drops.utterance.increment(1);
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

    /// Cancels the connection, also after a panic: a connection without one of its actors must end.
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
                self.detector.close();
                self.mode = None;
            }
            UplinkItem::Forget => {
                self.forgets += 1;
                self.forget();
            }
            UplinkItem::Speaking(speaking) => self.detector.set_speaking(speaking),
        }
    }

    /// Does nothing: the `DeviceActor` is gone, and its token stops this actor.
    fn finished(&mut self, _: &mut Self::Context) {}
}
