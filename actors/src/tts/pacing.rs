//! Pacing: sends one turn's packets to the socket, each when it is due. Fills a prebuffer before it
//! starts, so that stalls of the synthesiser are not audible. Not for synthesis.

use std::collections::VecDeque;
use std::time::Duration;

use hearken_audio::SpeakingSettings;
use hearken_audio::playout::Playout;
use hearken_dialogue::Turn;
use hearken_dialogue::metrics::{actor_metrics, as_f64};
use hearken_dialogue::turn::{PlaybackControl, PlaybackProgress};
use hearken_dialogue::turn_trace::Stage;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::sent_sentences::SentSentences;
use crate::messages::{PlaybackItem, PlaybackStep};

/// Maximum wait for a send to the socket; a longer one is a stall.
const STALL: Duration = Duration::from_secs(2);

/// Pacing of one turn.
pub(super) struct Pacing {
    turn: Turn,
    steps: mpsc::Receiver<PlaybackStep>,
    /// Steps taken from synthesis that are not due yet.
    waiting: VecDeque<PlaybackStep>,
    /// Maximum number of steps that are taken while speech is paused.
    most_waiting: usize,
    sent: SentSentences,
    control: watch::Receiver<PlaybackControl>,
    /// Number of resumptions of speech.
    resumed: u32,
    lane: mpsc::Sender<PlaybackItem>,
    epoch: Instant,
    playout: Playout,
    packet: Duration,
    prebuffer: Duration,
    start_guard: Duration,
    stop_margin: Duration,
    /// Earliest time for audio, once `tts start` has been sent.
    audio_from: Option<Duration>,
    underruns: u32,
    /// Number of sentences whose packets have all been sent.
    sentences: usize,
    /// Arrival time of the first sentence, until there is audio of it.
    first_sentence: Option<Duration>,
    /// Maximum number of used slots of the queue to the socket.
    fullest: usize,
    /// Start of the last sentence's playback, once a packet of it was sent.
    began: Option<Duration>,
}

impl Pacing {
    pub(super) fn new(
        turn: Turn,
        settings: &SpeakingSettings,
        steps: mpsc::Receiver<PlaybackStep>,
        lane: mpsc::Sender<PlaybackItem>,
    ) -> Self {
        Self {
            start_guard: if turn.plays_at_once() { Duration::ZERO } else { settings.start_guard },
            control: turn.playback(),
            turn,
            steps,
            waiting: VecDeque::new(),
            most_waiting: settings.ahead_packets,
            sent: SentSentences::default(),
            resumed: 0,
            lane,
            epoch: Instant::now(),
            playout: Playout::new(settings.packet, settings.lead_packets),
            packet: settings.packet,
            prebuffer: settings.prebuffer,
            stop_margin: settings.stop_margin,
            audio_from: None,
            underruns: 0,
            sentences: 0,
            first_sentence: None,
            fullest: 0,
            began: None,
        }
    }

    /// Reports the progress of the turn's speech: sentences sent, and the times of its playback.
    fn tell(&self, sentences: usize) {
        self.tell_with(sentences, None);
    }

    fn tell_with(&self, sentences: usize, left: Option<Duration>) {
        let quiet_from = self.epoch + self.playout.end(Duration::ZERO);
        let began = self.began.map_or(quiet_from, |began| self.epoch + began);
        self.turn.publish_progress(PlaybackProgress { sentences, began, quiet_from, left });
    }

    /// Waits while speech is paused, then returns to the position from which it resumes. Returns
    /// false if the connection is gone.
    async fn follow(&mut self) -> bool {
        loop {
            let control = *self.control.borrow_and_update();
            if control.paused {
                // The socket needs the rest of the reply for its decision: near the end of a reply,
                // a backchannel is an answer.
                let left = self.left_unsent();
                self.tell_with(self.sentences, left);
                if self.control.changed().await.is_err() {
                    return false;
                }
            } else if control.resumed != self.resumed {
                return self.rewind(control).await;
            } else {
                return true;
            }
        }
    }

    /// Returns the length of the audio that was not sent, if nothing more will follow.
    fn left_unsent(&mut self) -> Option<Duration> {
        let complete = loop {
            if self.waiting.len() >= self.most_waiting {
                break false;
            }
            match self.steps.try_recv() {
                Ok(step) => self.waiting.push_back(step),
                Err(error) => break error == mpsc::error::TryRecvError::Disconnected,
            }
        };
        let packets = self.waiting.iter().filter(|step| matches!(step, PlaybackStep::Packet(_)));
        complete.then(|| self.packet * u32::try_from(packets.count()).unwrap_or(u32::MAX))
    }

    /// Returns to the first sentence that was not heard.
    async fn rewind(&mut self, control: PlaybackControl) -> bool {
        self.resumed = control.resumed;
        let (from, again) = self.sent.take_from(control.from);
        for step in again.into_iter().rev() {
            self.waiting.push_front(step);
        }
        self.playout.rewind(from, self.now());
        self.began = None;
        self.sentences = self.sentences.min(from);
        self.tell(self.sentences);
        // `Resumed` goes through the queue of the steps: until it arrives, the socket drops the
        // steps before it.
        self.forward(PlaybackStep::Resumed { count: control.resumed, from }).await
    }

    /// Sends the steps, each when it is due, and `tts stop` when all has been played. Starts when
    /// it is certain that the person has finished.
    pub(super) async fn run(mut self) {
        self.turn.confirmed().await;
        // The clock starts when the reply may be sent: the time for which a speculation was held
        // back is not part of its playback.
        self.epoch = Instant::now();
        self.tell(0);
        loop {
            if !self.follow().await {
                return;
            }
            if let Some(step) = self.next().await {
                if !self.send(step).await {
                    return;
                }
                continue;
            }
            self.tell(usize::MAX);
            // The reply ends only when all was played: a voice over its last sound still pauses it.
            let end = self.playout.end(self.now());
            tokio::select! {
                biased;
                Ok(()) = self.control.changed() => {}
                () = tokio::time::sleep_until(self.epoch + end + self.stop_margin) => break,
            }
        }
        actor_metrics().playback_depth.record(as_f64(self.fullest));
        if self.underruns > 0 {
            actor_metrics().underruns.increment(self.underruns.into());
            tracing::info!(turn = %self.turn.id, trace = self.turn.trace().log_id(), underruns = self.underruns, "synthesis was slower than playback");
        }
        self.forward(PlaybackStep::Stop).await;
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    async fn next(&mut self) -> Option<PlaybackStep> {
        match self.waiting.pop_front() {
            Some(step) => Some(step),
            None => self.steps.recv().await,
        }
    }

    /// Sends `tts start`, if that was not done: the sentence is on its way to the synthesiser, and
    /// meanwhile the device prepares to play. Then fills the jitter buffer: waits until there is
    /// enough audio to start, counting what the device still has to play, or the sentence is
    /// complete, or nothing more has come for the length of the prebuffer. Returns false if the
    /// connection is gone.
    async fn gather(&mut self) -> bool {
        // `tts start` is not sent earlier, since the microphone is open while the model thinks, nor
        // with the first sound: the guard would add to the synthesiser's time. Decision 0010.
        if !self.start().await {
            return false;
        }
        let packets = |step: &PlaybackStep| u32::from(matches!(step, PlaybackStep::Packet(_)));
        let mut gathered: u32 = self.waiting.iter().map(packets).sum();
        let complete = |step: &PlaybackStep| {
            matches!(
                step,
                PlaybackStep::SentenceEnd(_)
                    | PlaybackStep::SentenceBroken(_)
                    | PlaybackStep::SentenceStart(_)
            )
        };
        let mut done = self.waiting.iter().any(complete);
        // Speech waits for an amount of sound, not for a time: with that much buffered, a stall of
        // the synthesiser is inaudible. Decision 0012.
        while !done && (gathered == 0 || self.left() + self.packet * gathered < self.prebuffer) {
            let next = if gathered == 0 {
                self.steps.recv().await
            } else {
                let next = tokio::time::timeout(self.prebuffer, self.steps.recv()).await;
                next.unwrap_or_default()
            };
            let Some(step) = next else { break };
            gathered += packets(&step);
            done = complete(&step);
            if gathered > 0
                && let Some(first) = self.first_sentence.take()
            {
                actor_metrics().voice.record(self.now().saturating_sub(first));
                self.turn.trace().begin(Stage::Prebuffer);
            }
            self.waiting.push_back(step);
        }
        self.turn.trace().end(Stage::Prebuffer);
        true
    }

    /// Sends `tts start`, once. Returns false if the connection is gone.
    async fn start(&mut self) -> bool {
        if self.audio_from.is_none() {
            self.audio_from = Some(self.now() + self.start_guard);
            return self.forward(PlaybackStep::Start).await;
        }
        true
    }

    async fn send(&mut self, step: PlaybackStep) -> bool {
        match &step {
            PlaybackStep::SentenceStart(_) => {
                if self.audio_from.is_none() {
                    self.first_sentence = Some(self.now());
                    actor_metrics().first_sentence.record(self.now());
                }
                if !self.gather().await {
                    return false;
                }
                let now = self.now();
                self.sent.forget(self.playout.heard(now).whole);
                self.playout.sentence_started(now);
                self.began = None;
            }
            PlaybackStep::Packet(_) => {
                // After a stall the prebuffer is filled again: packets that are sent one by one
                // would each arrive too late.
                if self.is_starved() {
                    self.waiting.push_front(step);
                    if !self.gather().await {
                        return false;
                    }
                    let Some(first) = self.waiting.pop_front() else { return false };
                    return self.send_packet(first).await;
                }
                return self.send_packet(step).await;
            }
            PlaybackStep::SentenceEnd(_) | PlaybackStep::SentenceBroken(_) => {
                self.playout.sentence_complete();
                self.sentences += 1;
                self.tell(self.sentences);
            }
            PlaybackStep::Emotion(_)
            | PlaybackStep::Start
            | PlaybackStep::GivenUp
            | PlaybackStep::Resumed { .. }
            | PlaybackStep::Stop => {}
        }
        self.forward(step).await
    }

    /// Returns the length of the audio that the device still has to play.
    fn left(&self) -> Duration {
        self.playout.end(Duration::ZERO).saturating_sub(self.now())
    }

    /// Returns true if the device ran out of audio within a sentence (underrun).
    fn is_starved(&self) -> bool {
        self.playout.is_within_sentence() && self.left().is_zero()
    }

    async fn send_packet(&mut self, packet: PlaybackStep) -> bool {
        let earliest = self.audio_from.unwrap_or_default();
        let due = self.playout.due(self.now()).max(earliest);
        let guarded = due == earliest && due > self.now();
        if guarded {
            self.turn.trace().begin(Stage::StartGuard);
        }
        tokio::time::sleep_until(self.epoch + due).await;
        if guarded {
            self.turn.trace().end(Stage::StartGuard);
        }
        let now = self.now();
        self.began.get_or_insert(self.playout.end(now));
        self.underruns += u32::from(self.playout.sent(now));
        self.fullest = self.fullest.max(self.lane.max_capacity() - self.lane.capacity());
        self.forward_due(packet, self.epoch + due).await
    }

    async fn forward(&mut self, step: PlaybackStep) -> bool {
        self.forward_due(step, Instant::now()).await
    }

    /// Puts one step on the queue to the socket. Returns false if the connection is gone.
    async fn forward_due(&mut self, step: PlaybackStep, due: Instant) -> bool {
        // A step is stored even if the socket drops it in a pause: it is sent again with its
        // sentence.
        self.sent.keep(&step);
        let asked = Instant::now();
        let sent = self.lane.send(PlaybackItem { turn: self.turn.id, due, step }).await.is_ok();
        if asked.elapsed() > STALL {
            actor_metrics().socket_stalls.increment(1);
            tracing::warn!(turn = %self.turn.id, trace = self.turn.trace().log_id(), waited = ?asked.elapsed(), "the device's socket stalled");
        }
        sent
    }
}
