//! VadActor: Opus packets in, utterances out. Decodes, detects voice activity, finds where speech
//! starts and ends (endpointing), and creates the turn of each utterance. Asks the turn detector
//! about each long silence. Not for recognising words.

use std::time::Duration;

use actix::fut::{ActorFutureExt as _, WrapFuture as _};
use actix::{Actor, AsyncContext as _, Context, Recipient, SpawnHandle, StreamHandler};
use hearken_audio::endpointer::Endpoint;
use hearken_audio::recent_speech::RecentSpeech;
use hearken_audio::utterance_detector::{PacketError, UtteranceDetector};
use hearken_audio::voice_detector::SAMPLE_RATE_HZ;
use hearken_audio::{HearingSettings, pcm};
use hearken_dialogue::Turn;
use hearken_dialogue::metrics::actor_metrics;
use hearken_dialogue::turn_factory::TurnFactory;
use hearken_dialogue::turn_trace::{Stage, TurnState};
use hearken_ports::turn_detector::LONGEST_SPEECH;
use hearken_proto::device::ListenMode;
use hearken_proto::ids::TurnId;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use crate::messages::{OpenUtterance, SpeechEnded, SpeechStarted, UplinkItem};
use crate::turn_detection::TurnDetection;
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

/// Settings of utterances.
pub struct UtteranceRules {
    /// Maximum number of audio pieces of an utterance that wait for the recogniser.
    pub lane: usize,
    /// Settings for the start and the maximum length of an utterance.
    pub hearing: HearingSettings,
    /// Turn detection, which chooses the silence that ends an utterance.
    pub turn_detection: TurnDetection,
    /// Length of silence after which a speculative answer starts; `None` disables speculative answers.
    pub speculate_after: Option<Duration>,
}

/// If a client sends nothing during silence, a longer time without a packet counts as silence, not
/// as a late packet.
const LATEST_PACKET: Duration = Duration::from_millis(150);

/// A person who goes on within this time after the end of an utterance had not finished.
const WENT_ON: Duration = Duration::from_secs(2);

/// Voice activity detection for one device.
pub struct VadActor {
    lane: Option<mpsc::Receiver<UplinkItem>>,
    outputs: VadOutputs,
    turns: TurnFactory,
    utterance_lane: usize,
    settings: HearingSettings,
    turn_detection: TurnDetection,
    /// Last utterance, for turn detection, until the next speech or until [`WENT_ON`] has passed.
    ended: Option<EndedUtterance>,
    detector: UtteranceDetector,
    mode: Option<ListenMode>,
    open: Option<Utterance>,
    /// Timer of an utterance whose packets stop arriving.
    timeout: Option<SpawnHandle>,
    /// True if the client sends nothing during silence: the packets of its last utterance stopped
    /// arriving.
    silent_client: bool,
    /// Number of `Forget` and `ForgetSpeech` orders executed.
    forgets: u64,
    /// True if the turn of the current speech was cut, and the order that follows the cut has not
    /// arrived yet.
    was_cut: bool,
    /// Arrival of the last packet of speech whose rest is discarded.
    discarded_at: Instant,
}

/// Utterance after which the person may go on.
struct EndedUtterance {
    at: Instant,
    /// Silence that ended it.
    silence: Duration,
    /// Recent speech for the turn detector, in case they go on.
    recent: Option<RecentSpeech>,
}

/// Utterance that is being spoken.
struct Utterance {
    turn: Turn,
    audio: AudioSender,
    last_packet: Instant,
    /// End of the last voice.
    voiced_until: Instant,
    /// End of the silence that was counted without packets.
    silent_until: Instant,
    sent: Duration,
    dropped: u32,
    /// Recent speech for the turn detector.
    recent: Option<RecentSpeech>,
    /// Number of times that the person went on after a reported silence.
    resumed: u32,
    /// Length of silence that ends it, as last chosen.
    window: Duration,
    /// The same, without regard to unfinished words.
    judged: Duration,
}

impl VadActor {
    /// Creates an actor that takes its packets from `lane`.
    pub fn new(
        lane: mpsc::Receiver<UplinkItem>,
        outputs: VadOutputs,
        turns: TurnFactory,
        rules: UtteranceRules,
    ) -> Self {
        let UtteranceRules { lane: utterance_lane, hearing: settings, .. } = rules;
        let mut detector = UtteranceDetector::new(settings.clone());
        if let Some(speculate_after) = rules.speculate_after {
            detector.set_speculate_after(speculate_after);
        }
        Self {
            lane: Some(lane),
            outputs,
            turns,
            utterance_lane,
            detector,
            settings,
            turn_detection: rules.turn_detection,
            ended: None,
            mode: None,
            open: None,
            timeout: None,
            silent_client: false,
            forgets: 0,
            was_cut: false,
            discarded_at: Instant::now(),
        }
    }

    fn packet(&mut self, opus: &[u8], played: u32, ctx: &mut Context<Self>) {
        let Some(mode) = self.mode else { return actor_metrics().uplink.unwanted.increment(1) };
        self.pass_discarded();
        if !self.decode(opus, played) {
            return;
        }
        if self.open.as_ref().is_some_and(|u| !u.turn.is_live()) {
            self.open = None;
            self.was_cut = true;
            self.detector.forget();
        }
        let longest = self.settings.max_utterance + self.settings.pre_roll;
        if mode == ListenMode::Manual {
            if let Some(utterance) = &mut self.open {
                utterance.send(self.detector.unclassified(), longest);
                utterance.voiced_until = utterance.last_packet;
            }
            return self.detector.forget();
        }
        self.choose_window();
        while let Some(judged) = self.detector.classify() {
            if let Some(Endpoint::Started { ago }) = judged.endpoint {
                let before = self.went_on(ago);
                self.open_utterance(before);
                self.schedule_timeout(ctx);
            }
            if let Some(Endpoint::Resumed { after }) = judged.endpoint {
                self.resumed(after);
            }
            if let Some(utterance) = &mut self.open {
                utterance.send(self.detector.sound(&judged), longest);
                if let Some(silence) = self.detector.silence() {
                    utterance.voiced_until = utterance.last_packet - silence;
                }
            }
            match judged.endpoint {
                Some(Endpoint::Paused { look, speculate }) => self.paused(look, speculate, ctx),
                Some(Endpoint::Ended) => {
                    self.silent_client = false;
                    self.end(ctx);
                }
                Some(Endpoint::Started { .. } | Endpoint::Resumed { .. }) | None => {}
            }
        }
    }

    /// Reports a pause to the recogniser, or asks the turn detector about the current silence.
    fn paused(&mut self, look: Option<usize>, speculate: bool, ctx: &mut Context<Self>) {
        if let Some(utterance) = self.open.as_ref().filter(|_| speculate) {
            utterance.audio.pause();
        }
        if let Some(look) = look {
            self.look(look, ctx);
        }
    }

    /// Asks the turn detector about the current silence.
    fn look(&mut self, look: usize, ctx: &mut Context<Self>) {
        let Some(Utterance { turn, resumed, recent: Some(recent), .. }) = &self.open else {
            return;
        };
        let Some(detector) = self.turn_detection.detector() else {
            return actor_metrics().turn_taking.judgements.skipped.increment(1);
        };
        let speech = recent.to_vec();
        let turn = turn.id;
        let resumed = *resumed;
        let judgement = async move { detector.judge(speech).await };
        ctx.spawn(judgement.into_actor(self).map(move |probability, act, ctx| match probability {
            Some(probability) => act.judged(turn, resumed, look, probability, ctx),
            None => actor_metrics().turn_taking.judgements.skipped.increment(1),
        }));
    }

    /// Applies the detector's judgement of a silence, unless that silence is over.
    fn judged(
        &mut self,
        turn: TurnId,
        resumed: u32,
        look: usize,
        probability: f32,
        ctx: &mut Context<Self>,
    ) {
        let same = |u: &&Utterance| u.turn.id == turn && u.resumed == resumed;
        let Some(silence) = self.open.as_ref().filter(same).and(self.detector.silence()) else {
            return actor_metrics().turn_taking.judgements.late.increment(1);
        };
        let window = self.turn_detection.window(probability);
        actor_metrics().turn_taking.judgements.judged.increment(1);
        tracing::debug!(%turn, look, probability, ?window, ?silence, "judged a silence");
        if let Some(utterance) = &mut self.open {
            utterance.judged = window;
        }
        self.choose_window();
        if silence >= self.detector.window() {
            self.detector.end();
            return self.end(ctx);
        }
        self.schedule_timeout(ctx);
    }

    /// Chooses the length of silence that ends the utterance: as judged, and longer while the known
    /// words are unfinished.
    fn choose_window(&mut self) {
        let Some(utterance) = &mut self.open else { return };
        let longer = self.turn_detection.unfinished_window();
        let unfinished = utterance.audio.is_unfinished();
        // Words only lengthen the silence: a text that could be complete is often the start of a
        // longer one. Decision 0065.
        utterance.window = if unfinished { utterance.judged.max(longer) } else { utterance.judged };
        self.detector.choose_window(utterance.window);
    }

    /// Ends a pause inside a turn, and learns from it.
    fn resumed(&mut self, pause: Duration) {
        if let Some(utterance) = &mut self.open {
            utterance.audio.resume();
            utterance.resumed += 1;
            (utterance.window, utterance.judged) = (self.settings.silence, self.settings.silence);
        }
        self.turn_detection.resumed(pause);
    }

    /// Learns from a pause that was treated as the end of a turn, and returns the speech before it.
    /// The new speech has started `ago` ago.
    fn went_on(&mut self, ago: Duration) -> Option<RecentSpeech> {
        let ended = self.ended.take()?;
        let gap = ended.at.elapsed().saturating_sub(ago);
        if gap >= WENT_ON {
            return None;
        }
        self.turn_detection.resumed(ended.silence + gap);
        ended.recent
    }

    /// Decodes a packet and appends its samples. A packet that does not decode is counted and
    /// skipped; then returns false.
    fn decode(&mut self, opus: &[u8], played: u32) -> bool {
        let count = &actor_metrics().uplink;
        match self.detector.decode(opus, played) {
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

    /// Opens an utterance; `before` is the earlier speech of the same turn.
    fn open_utterance(&mut self, before: Option<RecentSpeech>) {
        self.was_cut = false;
        let turn = self.turns.next();
        // Each utterance has its own channel, whose closing is its end. Decision 0008.
        let (audio, receiver) = utterance_channel::channel(self.utterance_lane);
        turn.trace().begin(Stage::Speech);
        let forgets = self.forgets;
        self.outputs.started.do_send(SpeechStarted { turn: turn.clone(), forgets });
        self.outputs.utterances.do_send(OpenUtterance { turn: turn.clone(), audio: receiver });
        self.open = Some(Utterance {
            turn,
            audio,
            last_packet: Instant::now(),
            voiced_until: Instant::now(),
            silent_until: Instant::now(),
            sent: Duration::ZERO,
            dropped: 0,
            recent: self
                .turn_detection
                .has_detector()
                .then(|| before.unwrap_or_else(|| RecentSpeech::new(LONGEST_SPEECH))),
            resumed: 0,
            window: self.settings.silence,
            judged: self.settings.silence,
        });
    }

    fn end(&mut self, ctx: &mut Context<Self>) {
        let Some(utterance) = self.open.take() else { return };
        if utterance.dropped > 0 {
            tracing::warn!(turn = %utterance.turn.id, trace = utterance.turn.trace().log_id(), pieces = utterance.dropped, "utterance has gaps: the recogniser is too slow");
        }
        // An utterance that reaches its maximum length may end while the person speaks.
        let trace = utterance.turn.trace();
        let silence = Instant::now().saturating_duration_since(utterance.voiced_until);
        trace.end_ago(Stage::Speech, silence);
        trace.spent(Stage::Silence, silence);
        trace.set_state(TurnState::Thinking);
        self.outputs.ended.do_send(SpeechEnded { turn: utterance.turn.id });
        if self.turn_detection.has_detector() {
            let Utterance { window: silence, recent, .. } = utterance;
            self.ended = Some(EndedUtterance { at: Instant::now(), silence, recent });
            ctx.run_later(WENT_ON, |act, _| {
                act.ended.take_if(|ended| ended.at.elapsed() >= WENT_ON);
            });
        }
    }

    /// Discards the audio received so far; an open utterance is abandoned.
    fn forget(&mut self) {
        self.was_cut = false;
        if let Some(utterance) = self.open.take() {
            utterance.turn.cut();
        }
        self.detector.forget();
        self.ended = None;
    }

    /// Discards the audio received so far, and the rest of an utterance that is being spoken.
    fn forget_speech(&mut self) {
        let is_spoken = self.open.is_some() || self.was_cut;
        self.forget();
        if is_spoken {
            self.detector.discard();
            self.discarded_at = Instant::now();
        }
    }

    /// Ends the discarding of speech after a time without packets: some clients send nothing during
    /// silence.
    fn pass_discarded(&mut self) {
        if !self.detector.is_discarding() {
            return;
        }
        if self.discarded_at.elapsed() >= self.settings.silence {
            self.detector.forget();
        }
        self.discarded_at = Instant::now();
    }

    fn listen(&mut self, mode: ListenMode, ctx: &mut Context<Self>) {
        self.mode = Some(mode);
        if mode == ListenMode::Manual {
            self.forget();
            self.open_utterance(None);
        } else if let Some(utterance) = &self.open {
            // A button may have opened the utterance; from here on silence ends it.
            if self.detector.silence().is_none() {
                self.detector.open(utterance.sent);
            }
            self.schedule_timeout(ctx);
        } else {
            self.detector.forget();
        }
    }

    /// Ends an utterance whose packets stop arriving: some clients send nothing during silence. For
    /// those clients, time without packets has the effects of silence. The timer fires at the
    /// earliest time at which something can be due, and runs only while an utterance is open.
    fn schedule_timeout(&mut self, ctx: &mut Context<Self>) {
        if let Some(timeout) = self.timeout.take() {
            ctx.cancel_future(timeout);
        }
        self.choose_window();
        let Some(utterance) = &self.open else { return };
        let gap = utterance.last_packet.elapsed();
        // Time does not count as silence if a client sends all packets: a network stall within a
        // word would end the turn. Decision 0066.
        let counted = self.detector.silence().filter(|_| self.silent_client);
        let (wait, passed) = match counted {
            Some(silence) => {
                let wait = self.detector.next_event().saturating_sub(silence);
                (wait, utterance.silent_until.elapsed())
            }
            None => (self.detector.window(), gap),
        };
        let left = wait.saturating_sub(passed);
        if !left.is_zero() {
            self.timeout = Some(ctx.run_later(left, Self::timed_out));
        } else if counted.is_none() {
            self.silent_client = true;
            self.detector.end();
            self.end(ctx);
        } else if gap < LATEST_PACKET {
            self.timeout = Some(ctx.run_later(LATEST_PACKET - gap, Self::timed_out));
        } else {
            self.pass_silence(passed, ctx);
        }
    }

    fn timed_out(&mut self, ctx: &mut Context<Self>) {
        self.timeout = None;
        if self.mode != Some(ListenMode::Manual) {
            self.schedule_timeout(ctx);
        }
    }

    /// Counts this time, in which nothing arrived, as silence.
    fn pass_silence(&mut self, length: Duration, ctx: &mut Context<Self>) {
        if let Some(utterance) = &mut self.open {
            utterance.silent_until = Instant::now();
            if let Some(recent) = &mut utterance.recent {
                recent.push(&vec![0; pcm::samples_in(length, SAMPLE_RATE_HZ)]);
            }
        }
        match self.detector.pass_silence(length) {
            Some(Endpoint::Paused { look, speculate }) => self.paused(look, speculate, ctx),
            Some(Endpoint::Ended) => return self.end(ctx),
            Some(Endpoint::Started { .. } | Endpoint::Resumed { .. }) | None => {}
        }
        self.schedule_timeout(ctx);
    }
}

impl Utterance {
    /// Sends more samples of the utterance, up to `longest` in total.
    fn send(&mut self, sound: &[i16], longest: Duration) {
        (self.last_packet, self.silent_until) = (Instant::now(), Instant::now());
        self.sent += pcm::duration(sound.len(), SAMPLE_RATE_HZ);
        if let Some(recent) = &mut self.recent {
            recent.push(sound);
        }
        if self.sent > longest {
            return;
        }
        self.turn.trace().heard_sound(sound);
        if !self.audio.send(sound) {
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

    /// Cancels the connection, even after a panic: a connection without one of its actors must end.
    fn stopped(&mut self, _: &mut Self::Context) {
        self.turns.connection().cancel();
    }
}

impl StreamHandler<UplinkItem> for VadActor {
    fn handle(&mut self, item: UplinkItem, ctx: &mut Self::Context) {
        match item {
            UplinkItem::Packet { opus, played } => self.packet(&opus, played, ctx),
            UplinkItem::CancelEcho(sent) => self.detector.cancel_echo(sent),
            UplinkItem::GuardEcho(sent) => self.detector.guard_echo(sent),
            UplinkItem::ListenStart(mode) => self.listen(mode, ctx),
            UplinkItem::ListenStop => {
                self.end(ctx);
                self.ended = None;
                self.was_cut = false;
                self.detector.close();
                self.mode = None;
            }
            UplinkItem::Forget => {
                self.forgets += 1;
                self.forget();
            }
            UplinkItem::ForgetSpeech => {
                self.forgets += 1;
                self.forget_speech();
            }
            UplinkItem::Speaking(speaking) => {
                self.ended = None;
                self.detector.set_speaking(speaking);
            }
        }
    }

    /// Does nothing: the `DeviceActor` is gone, and its token stops this actor.
    fn finished(&mut self, _: &mut Self::Context) {}
}
