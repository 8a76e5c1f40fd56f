//! VadActor: Opus packets in, utterances out. Decodes, tells voice from noise, finds the ends of
//! speech, and mints the turn that begins with it. Not for recognising words.

use std::collections::VecDeque;
use std::time::Duration;

use actix::{Actor, AsyncContext as _, Context, Recipient, StreamHandler};
use hearken_proto::device::ListenMode;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use crate::audio::endpointer::{Endpoint, Endpointer, MAX_ONSET_PAUSE};
use crate::audio::opus::Decoder;
use crate::audio::pcm;
use crate::audio::voicing::{FRAME_SAMPLES, SAMPLE_RATE_HZ, Voicing};
use crate::dialogue::Turn;
use crate::messages::{OpenUtterance, SpeechEnded, SpeechStarted, UplinkItem};
use crate::meters::meters;
use crate::settings::HearingSettings;
use crate::turns::Turns;

/// Length of one decision.
const FRAME: Duration = Duration::from_millis(20);
/// Six frames of 20 ms at Opus's longest (RFC 6716, section 3.2) and their headers; a packet longer
/// than this is none.
const MAX_OPUS_BYTES: usize = 6 * 1_275 + 14;
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
    ear: Ear,
    mode: Option<ListenMode>,
    open: Option<Utterance>,
    /// Orders to forget that were carried out.
    forgets: u64,
}

/// Decoding and judging, made when first needed.
struct Ear {
    settings: HearingSettings,
    decoder: Option<Decoder>,
    voicing: Option<Voicing>,
    endpointer: Endpointer,
    /// Recent sound: the pre-roll, and what is not yet a whole frame at its end.
    recent: VecDeque<i16>,
    /// Samples at the end of `recent` that are not judged yet.
    unjudged: usize,
    scratch: Vec<i16>,
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
        let endpointer = Endpointer::new(settings.endpointer.clone());
        let ear = Ear {
            settings,
            decoder: None,
            voicing: None,
            endpointer,
            recent: VecDeque::new(),
            unjudged: 0,
            scratch: Vec::new(),
        };
        Self {
            lane: Some(lane),
            outputs,
            turns,
            utterance_lane,
            ear,
            mode: None,
            open: None,
            forgets: 0,
        }
    }

    fn packet(&mut self, opus: &[u8]) {
        let Some(mode) = self.mode else { return meters().uplink.unwanted.increment(1) };
        let decoded = self.ear.decode(opus);
        if decoded == 0 {
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

    /// Opens an utterance whose voice began this long ago.
    fn begin(&mut self, ago: Duration) {
        let pcm = self.ear.last(ago + self.ear.settings.pre_roll);
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
        let longest = self.ear.settings.endpointer.max_utterance;
        let Some(utterance) = &mut self.open else { return };
        utterance.last_packet = Instant::now();
        utterance.sent += pcm::duration(pcm.len(), SAMPLE_RATE_HZ);
        if utterance.sent > longest + self.ear.settings.pre_roll {
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
        let silence = self.ear.settings.endpointer.silence;
        let overdue = |u: &Utterance| u.last_packet.elapsed() >= silence;
        if self.mode != Some(ListenMode::Manual) && self.open.as_ref().is_some_and(overdue) {
            self.ear.endpointer.reset();
            self.end();
        }
    }
}

impl Ear {
    /// Appends the packet's sound and returns its length in samples; garbage is counted and
    /// skipped.
    fn decode(&mut self, opus: &[u8]) -> usize {
        let count = &meters().uplink;
        if opus.len() > MAX_OPUS_BYTES {
            count.oversized.increment(1);
            return 0;
        }
        if self.decoder.is_none() {
            self.decoder = Decoder::new(SAMPLE_RATE_HZ)
                .inspect_err(|e| tracing::error!(error = %e, "no opus decoder"))
                .ok();
        }
        let Some(decoder) = &mut self.decoder else { return 0 };
        self.scratch.clear();
        match decoder.decode(opus, &mut self.scratch) {
            Ok(samples) => {
                self.recent.extend(&self.scratch);
                self.unjudged += samples;
                if opus.is_empty() { &count.empty } else { &count.heard }.increment(1);
                samples
            }
            Err(error) => {
                count.garbage.increment(1);
                tracing::debug!(%error, bytes = opus.len(), "uplink packet does not decode");
                0
            }
        }
    }

    /// Judges the next whole frame, if there is one.
    fn judge(&mut self) -> Option<(Vec<i16>, Option<Endpoint>)> {
        if self.unjudged < FRAME_SAMPLES {
            return None;
        }
        let settings = &self.settings;
        let voicing = self.voicing.get_or_insert_with(|| {
            Voicing::new(settings.aggressiveness, settings.min_rms, settings.over_noise)
        });
        let start = self.recent.len() - self.unjudged;
        let frame: Vec<i16> = self.recent.range(start..start + FRAME_SAMPLES).copied().collect();
        self.unjudged -= FRAME_SAMPLES;
        let endpoint = self.endpointer.hear(voicing.is_voice(&frame), FRAME);
        self.trim();
        Some((frame, endpoint))
    }

    /// How much voice starts an utterance depends on whether it would interrupt us.
    fn need(&mut self, speaking: bool) {
        let usual = self.settings.endpointer.min_speech;
        self.endpointer.need(if speaking { self.settings.barge_in } else { usual });
    }

    /// Keeps as much of the judged past as an utterance may reach back into.
    fn trim(&mut self) {
        let voice = self.settings.endpointer.min_speech.max(self.settings.barge_in);
        let onset = voice * 2 + MAX_ONSET_PAUSE * 4;
        let keep = pcm::samples_in(self.settings.pre_roll + onset, SAMPLE_RATE_HZ) + self.unjudged;
        let surplus = self.recent.len().saturating_sub(keep);
        self.recent.drain(..surplus);
    }

    /// The last part of the judged past.
    fn last(&self, length: Duration) -> Vec<i16> {
        let end = self.recent.len() - self.unjudged;
        let start = end.saturating_sub(pcm::samples_in(length, SAMPLE_RATE_HZ));
        self.recent.range(start..end).copied().collect()
    }

    fn take_all(&mut self) -> Vec<i16> {
        self.unjudged = 0;
        self.recent.drain(..).collect()
    }

    fn forget(&mut self) {
        self.recent.clear();
        self.unjudged = 0;
        self.endpointer.reset();
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
