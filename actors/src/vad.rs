//! VadActor: Opus packets in, utterances out. Decodes, tells voice from noise, finds the ends of
//! speech, and mints the turn that begins with it. Not for recognising words.

use std::time::Duration;

use actix::{Actor, AsyncContext as _, Context, Recipient, StreamHandler};
use hearken_proto::device::ListenMode;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use crate::audio::ear::{Ear, Unheard};
use crate::audio::endpointer::Endpoint;
use crate::audio::pcm;
use crate::audio::voicing::SAMPLE_RATE_HZ;
use crate::dialogue::Turn;
use crate::messages::{OpenUtterance, SpeechEnded, SpeechStarted, UplinkItem};
use crate::meters::meters;
use crate::settings::HearingSettings;
use crate::turns::Turns;

/// How often the clock is looked at while an utterance is open.
const CLOCK_EVERY: Duration = Duration::from_millis(100);

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
    turns: Turns,
    utterance_lane: usize,
    settings: HearingSettings,
    ear: Ear,
    mode: Option<ListenMode>,
    open: Option<Utterance>,
    /// Orders to forget that were carried out.
    forgets: u64,
}

/// An utterance that is being spoken.
struct Utterance {
    turn: Turn,
    audio: mpsc::Sender<Vec<i16>>,
    last_packet: Instant,
    sent: Duration,
    dropped: u32,
}

impl VadActor {
    /// An actor that takes its packets from `lane`.
    pub fn new(
        lane: mpsc::Receiver<UplinkItem>,
        outputs: VadOutputs,
        turns: Turns,
        utterance_lane: usize,
        settings: HearingSettings,
    ) -> Self {
        Self {
            lane: Some(lane),
            outputs,
            turns,
            utterance_lane,
            ear: Ear::new(settings.clone()),
            settings,
            mode: None,
            open: None,
            forgets: 0,
        }
    }

    fn packet(&mut self, opus: &[u8]) {
        let Some(mode) = self.mode else { return meters().uplink.unwanted.increment(1) };
        if !self.decode(opus) {
            return;
        }
        if self.open.as_ref().is_some_and(|u| !u.turn.is_live()) {
            self.open = None;
            self.ear.forget();
        }
        if mode == ListenMode::Manual {
            let pcm = self.ear.take_all();
            self.forward(pcm);
            return;
        }
        while let Some((frame, endpoint)) = self.ear.judge() {
            match endpoint {
                Some(Endpoint::Started { ago }) => self.begin(ago),
                _ if self.open.is_some() => self.forward(frame),
                _ => {}
            }
            if endpoint == Some(Endpoint::Ended) {
                self.end();
            }
        }
    }

    /// Appends the packet's sound; garbage is counted and skipped.
    fn decode(&mut self, opus: &[u8]) -> bool {
        let count = &meters().uplink;
        match self.ear.decode(opus) {
            Ok(_) if opus.is_empty() => count.empty.increment(1),
            Ok(_) => count.heard.increment(1),
            Err(error) => {
                let oversized = error == Unheard::Oversized;
                if oversized { &count.oversized } else { &count.garbage }.increment(1);
                tracing::debug!(%error, bytes = opus.len(), "uplink packet does not decode");
                return false;
            }
        }
        true
    }

    /// Opens an utterance whose voice began this long ago.
    fn begin(&mut self, ago: Duration) {
        let pcm = self.ear.last(ago + self.settings.pre_roll);
        self.open_utterance();
        self.forward(pcm);
    }

    fn open_utterance(&mut self) {
        let turn = self.turns.mint();
        let (audio, receiver) = mpsc::channel(self.utterance_lane);
        let forgets = self.forgets;
        self.outputs.started.do_send(SpeechStarted { turn: turn.clone(), forgets });
        self.outputs.utterances.do_send(OpenUtterance { turn: turn.clone(), audio: receiver });
        let last_packet = Instant::now();
        self.open = Some(Utterance { turn, audio, last_packet, sent: Duration::ZERO, dropped: 0 });
    }

    fn forward(&mut self, pcm: Vec<i16>) {
        let longest = self.settings.endpointer.max_utterance;
        let Some(utterance) = &mut self.open else { return };
        utterance.last_packet = Instant::now();
        utterance.sent += pcm::duration(pcm.len(), SAMPLE_RATE_HZ);
        if utterance.sent > longest + self.settings.pre_roll {
            return;
        }
        if utterance.audio.try_send(pcm).is_err() {
            utterance.dropped += 1;
        }
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

    fn listen(&mut self, mode: ListenMode) {
        self.mode = Some(mode);
        if mode == ListenMode::Manual {
            self.forget();
            self.open_utterance();
        } else if self.open.is_none() {
            self.ear.forget();
        }
    }

    /// Ends an utterance whose packets stopped coming: some clients send nothing while silent.
    fn look_at_the_clock(&mut self) {
        let silence = self.settings.endpointer.silence;
        let overdue = |u: &Utterance| u.last_packet.elapsed() >= silence;
        if self.mode != Some(ListenMode::Manual) && self.open.as_ref().is_some_and(overdue) {
            self.ear.end();
            self.end();
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
        ctx.run_interval(CLOCK_EVERY, |act, _| act.look_at_the_clock());
    }

    /// Also after a panic: a connection with a stage missing must end.
    fn stopped(&mut self, _: &mut Self::Context) {
        self.turns.connection().cancel();
    }
}

impl StreamHandler<UplinkItem> for VadActor {
    fn handle(&mut self, item: UplinkItem, _: &mut Self::Context) {
        match item {
            UplinkItem::Packet(opus) => self.packet(&opus),
            UplinkItem::ListenStart(mode) => self.listen(mode),
            UplinkItem::ListenStop => {
                self.end();
                self.ear.forget();
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
