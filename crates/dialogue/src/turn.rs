//! A turn: one input and all the work to answer it. Not for doing the work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hearken_ports::usage::LimitReached;
use hearken_ports::{ProviderError, ToolError, ToolRequest};
use hearken_proto::device::Emotion;
use hearken_proto::ids::TurnId;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::admission::{Admission, TurnPermit};
use crate::people::Speaker;
use crate::turn_rate::TurnRate;
use crate::turn_trace::TurnTrace;
use crate::turn_trace::vocabulary::Outcome;

/// Identity of one turn and the means to end it. Part of every message. A stage ignores messages of
/// a turn that is no longer live, which drops late work early.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Number of the turn within its connection, from 1.
    pub id: TurnId,
    /// Cancels speech recognition, and with it the reply.
    words: CancellationToken,
    /// Cancels the reply.
    reply: CancellationToken,
    /// Playback progress of the turn.
    progress: Arc<watch::Sender<Option<PlaybackProgress>>>,
    /// Whether its speech may be sent.
    playback: Arc<watch::Sender<PlaybackControl>>,
    /// Rate of its client's turns, if it is limited.
    rate: Option<TurnRate>,
    /// True once the rate has counted the turn.
    rate_taken: Arc<AtomicBool>,
    /// True once the rate of its address has counted its utterance.
    utterance_taken: Arc<AtomicBool>,
    /// True if the turn was last refused because turns come too fast.
    is_too_fast: Arc<AtomicBool>,
    /// Admission permit of the turn, from admission until the turn ends.
    permit: Arc<Mutex<Option<TurnPermit>>>,
    /// Speaker of its words, once identified.
    speaker: Arc<Mutex<Speaker>>,
    /// True once tools were called for its words.
    has_called: Arc<AtomicBool>,
    /// Cancelled once it is certain that the person has finished. `None` if that was certain from
    /// the start.
    certain: Option<CancellationToken>,
    /// Trace of the turn.
    trace: TurnTrace,
    /// True if its client needs no pause between `tts start` and the audio.
    plays_at_once: bool,
}

// The next filler during a tool call depends on what the device plays, not on the length of the text. Decision 0014.
/// Playback progress of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaybackProgress {
    /// Number of sentences whose audio was sent completely; `usize::MAX` if no more will be sent.
    pub sentences: usize,
    /// Time when the last of these sentences started to play.
    pub began: Instant,
    /// Time when all sent audio will have been played.
    pub quiet_from: Instant,
    /// Length of the unsent audio, if the speech is complete; known while the speech is paused.
    pub left: Option<Duration>,
}

/// Whether a turn's speech may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlaybackControl {
    /// True during a possible interruption.
    pub paused: bool,
    /// Number of times that it was resumed.
    pub resumed: u32,
    /// Number of sentences, from the first, that are not repeated after the pause.
    pub from: usize,
}

impl Turn {
    /// Creates a live turn that ends when its connection ends.
    pub fn new(id: TurnId, connection: &CancellationToken) -> Self {
        let words = connection.child_token();
        let reply = words.child_token();
        let permit = Arc::default();
        let progress = Arc::default();
        let playback = Arc::default();
        let speaker = Arc::default();
        let trace = TurnTrace::default();
        Self {
            id,
            words,
            reply,
            progress,
            playback,
            rate: None,
            rate_taken: Arc::default(),
            utterance_taken: Arc::default(),
            is_too_fast: Arc::default(),
            permit,
            speaker,
            has_called: Arc::default(),
            certain: None,
            trace,
            plays_at_once: false,
        }
    }

    /// Sets whether the turn's client plays at once.
    #[must_use]
    pub fn played_at_once(self, plays_at_once: bool) -> Self {
        Self { plays_at_once, ..self }
    }

    /// Reports whether its client plays audio directly after `tts start`.
    pub fn plays_at_once(&self) -> bool {
        self.plays_at_once
    }

    /// Sets the trace of the turn.
    #[must_use]
    pub fn traced(self, trace: TurnTrace) -> Self {
        Self { trace, ..self }
    }

    /// Records the turn's words and outcome in its trace, and ends the trace. Later writes are
    /// ignored.
    pub fn record(&self, record: &TurnRecord) {
        let said: Vec<_> = record.said.iter().map(|said| said.text.as_str()).collect();
        self.trace().said(&said.join(" "));
        self.trace().finish(Outcome::from(&record.end));
    }

    /// Returns the trace of the turn.
    pub fn trace(&self) -> &TurnTrace {
        &self.trace
    }

    /// Returns a speculative answer of this turn, started before it is certain that the person has
    /// finished. Its reply is held until [`Turn::confirm`], ends with that of the turn, and can be
    /// withdrawn alone.
    pub fn speculate(&self) -> Self {
        let certain = Some(CancellationToken::new());
        let trace = self.trace.speculate();
        Self { reply: self.reply.child_token(), certain, trace, ..self.clone() }
    }

    /// Releases the reply of a speculation: the person has finished.
    pub fn confirm(&self) {
        if let Some(certain) = &self.certain {
            self.trace.use_speculation();
            certain.cancel();
        }
    }

    /// Ends a speculation, but nothing else of its turn: the person goes on.
    pub fn withdraw(&self) {
        self.trace.withdraw();
        self.reply.cancel();
    }

    /// Waits until it is certain that the person has finished, or the turn is no longer to be
    /// answered.
    pub async fn confirmed(&self) {
        let Some(certain) = &self.certain else { return };
        tokio::select! {
            biased;
            () = self.reply.cancelled() => {}
            () = certain.cancelled() => {}
        }
    }

    /// Reports whether the turn is to be answered: neither cut nor continued by another.
    pub fn is_live(&self) -> bool {
        !self.reply.is_cancelled()
    }

    /// Reports whether the words of the turn count, though another turn will answer them.
    pub fn is_continued(&self) -> bool {
        self.reply.is_cancelled() && !self.words.is_cancelled()
    }

    /// Waits until the turn is no longer to be answered. Resolves at once if that is already the
    /// case.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.reply.cancelled()
    }

    /// Waits until not even the words of the turn are needed. Resolves at once if that is already
    /// the case.
    pub fn discarded(&self) -> WaitForCancellationFuture<'_> {
        self.words.cancelled()
    }

    /// Returns a receiver of the playback progress. It stays `None` for outputs without speech.
    pub fn progress(&self) -> watch::Receiver<Option<PlaybackProgress>> {
        self.progress.subscribe()
    }

    /// Publishes the playback progress.
    pub fn publish_progress(&self, progress: PlaybackProgress) {
        self.progress.send_replace(Some(progress));
    }

    /// Returns a receiver of the playback control of its speech.
    pub fn playback(&self) -> watch::Receiver<PlaybackControl> {
        self.playback.subscribe()
    }

    /// Returns the current playback control of its speech.
    pub fn playback_now(&self) -> PlaybackControl {
        *self.playback.borrow()
    }

    /// Pauses its speech.
    pub fn pause_playback(&self) {
        self.playback.send_modify(|playback| playback.paused = true);
    }

    /// Resumes its speech after this number of sentences.
    pub fn resume_playback(&self, from: usize) {
        self.playback.send_modify(|playback| {
            let resumed = playback.resumed + 1;
            *playback = PlaybackControl { paused: false, resumed, from };
        });
    }

    /// Records the speaker of its words.
    pub fn note_speaker(&self, speaker: Speaker) {
        *self.speaker.lock().unwrap_or_else(PoisonError::into_inner) = speaker;
    }

    /// Returns the speaker of its words, as far as known.
    pub fn speaker(&self) -> Speaker {
        self.speaker.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that tools were called for its words.
    pub fn note_calls(&self) {
        self.has_called.store(true, Ordering::Relaxed);
    }

    /// Reports whether tools were called for its words.
    pub fn has_called(&self) -> bool {
        self.has_called.load(Ordering::Relaxed)
    }

    /// Sets the rate of the turn's client.
    #[must_use]
    pub fn at_rate(self, rate: Option<TurnRate>) -> Self {
        Self { rate, ..self }
    }

    /// Acquires an admission permit. Returns false if none is free, or turns come too fast: then
    /// the turn is not answered.
    pub fn acquire_permit(&self, admission: &Admission) -> bool {
        self.acquire(admission, Self::take_rate)
    }

    /// Acquires an admission permit for an utterance whose words are not known yet. Returns false
    /// if none is free, or utterances come too fast: then it is not recognised.
    pub fn admit_utterance(&self, admission: &Admission) -> bool {
        self.acquire(admission, Self::take_utterance)
    }

    fn acquire(&self, admission: &Admission, rate: fn(&Self) -> Result<(), Duration>) -> bool {
        let mut permit = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
        if permit.is_none() {
            *permit = rate(self).ok().and_then(|()| admission.try_acquire());
        }
        permit.is_some()
    }

    /// Counts the utterance of the turn in the rate of its address, once.
    fn take_utterance(&self) -> Result<(), Duration> {
        if self.rate_taken.load(Ordering::Relaxed) || self.utterance_taken.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.taken(&self.utterance_taken, TurnRate::take_utterance)
    }

    /// Counts the turn in the rate of its client, once: the permit may be returned in each pause of
    /// the person.
    ///
    /// # Errors
    /// Returns the time after which the next turn may start, if turns come too fast.
    pub fn take_rate(&self) -> Result<(), Duration> {
        if self.rate_taken.load(Ordering::Relaxed) {
            return Ok(());
        }
        let was_heard = self.utterance_taken.load(Ordering::Relaxed);
        let rate = if was_heard { TurnRate::take_words } else { TurnRate::take };
        self.taken(&self.rate_taken, rate)
    }

    /// Counts the turn as that of a person in danger, whom its client's rate does not refuse. Returns
    /// false if too many such turns came.
    pub fn take_urgent(&self) -> bool {
        self.rate.as_ref().is_none_or(TurnRate::take_urgent)
    }

    /// Counts a request beyond the rate of turns of its client. Returns the time before it is
    /// carried out.
    pub fn take_request(&self) -> Duration {
        self.rate.as_ref().map(TurnRate::take_request).unwrap_or_default()
    }

    /// Counts a request beyond the rate of turns of its client, which cannot wait. Returns false if
    /// it is not carried out.
    pub fn try_request(&self) -> bool {
        self.rate.as_ref().is_none_or(TurnRate::try_request)
    }

    fn taken(
        &self,
        is_taken: &AtomicBool,
        rate: fn(&TurnRate) -> Result<(), Duration>,
    ) -> Result<(), Duration> {
        let taken = self.rate.as_ref().map_or(Ok(()), rate);
        self.is_too_fast.store(taken.is_err(), Ordering::Relaxed);
        is_taken.store(taken.is_ok(), Ordering::Relaxed);
        taken
    }

    /// Reports whether the turn was last refused because turns come too fast.
    pub fn is_too_fast(&self) -> bool {
        self.is_too_fast.load(Ordering::Relaxed)
    }

    /// Takes the permit of another turn, if it has one, without releasing it in between.
    pub fn take_permit(&self, of: &Self) {
        let permit = of.permit.lock().unwrap_or_else(PoisonError::into_inner).take();
        if permit.is_some() {
            *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = permit;
        }
    }

    /// Releases the permit, if there is one, for other turns.
    pub fn release_permit(&self) {
        drop(self.permit.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Cancels all stages of the turn. A cut is not an error.
    pub fn cut(&self) {
        self.words.cancel();
        self.release_permit();
    }

    /// Cancels the reply because the person goes on speaking. The words are still recognised and
    /// will be answered together with the next ones.
    pub fn mark_continued(&self) {
        self.reply.cancel();
        self.release_permit();
    }
}

/// Input of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnInput {
    /// Words of a person, recognised or typed.
    Words(String),
    /// Earlier words that were recognised but not answered: the person seemed to go on speaking,
    /// and then said nothing more.
    Resumed(String),
    /// Wake word. It is answered with a fixed phrase, without the model. There is no greeting if
    /// the person goes on speaking within the grace period: that speech is answered.
    Wake {
        /// Wake word as reported by the device.
        word: String,
        /// Delay between the wake word and the greeting.
        grace: Duration,
    },
    /// Text to speak that the model did not write, in any form.
    Say(String),
    /// Silence after which the connection is about to be closed.
    Farewell,
    /// Speech that could not be recognised. It is answered with an apology.
    Unrecognised,
    /// Words without capacity to answer them; empty if they were not recognised, or are certainly no
    /// emergency. They are answered with a fixed phrase, unless a person may be in danger.
    Busy(String),
}

/// Speakable unit of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// Plain words, without Markdown or emoji.
    pub text: String,
}

/// Event of a turn, in order. Each output renders the same stream in its own way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEvent {
    /// Emotion to show. At most one, before the first sentence.
    Emotion(Emotion),
    /// Sentence to speak.
    Sentence(Sentence),
}

/// Channel for a turn's events. It is bounded: a slow receiver slows the model down (backpressure).
pub type TurnSink = mpsc::Sender<TurnEvent>;

/// Outcome of a turn.
#[derive(Debug)]
pub enum TurnEnd {
    /// Everything was spoken.
    Completed,
    /// The turn was cut.
    Interrupted,
    /// The server had no capacity, and the person was informed.
    Refused,
    /// A stage failed. The apology was spoken or shown.
    Failed(TurnError),
}

impl From<&TurnEnd> for Outcome {
    fn from(end: &TurnEnd) -> Self {
        match end {
            TurnEnd::Completed => Self::Answered,
            TurnEnd::Interrupted => Self::Interrupted,
            TurnEnd::Refused => Self::Refused,
            TurnEnd::Failed(_) => Self::Failed,
        }
    }
}

/// Failed stage of a turn, with the cause.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// Speech recognition failed.
    #[error("recognition failed")]
    Recognition,
    /// The language model failed.
    #[error("the language model failed")]
    Llm(#[source] ProviderError),
    /// Today's limit is reached: the model is not asked.
    #[error(transparent)]
    LimitReached(LimitReached),
    /// The model's answer has nothing that can be spoken.
    #[error("the language model gave no words")]
    NoWords,
    /// The model requested more rounds of calls than allowed.
    #[error("the model did not stop calling tools")]
    TooManyRounds,
    /// A tool failed, and its failure ends the turn instead of going to the model.
    #[error("the tool `{tool}` failed")]
    Tool {
        /// Name of the tool at its source.
        tool: String,
        /// Cause of the failure.
        #[source]
        error: ToolError,
    },
}

/// Record of a finished turn.
#[derive(Debug)]
pub struct TurnRecord {
    /// Words of the person, if there were any.
    pub user: Option<String>,
    /// Every sentence sent to the output, in order. Apologies and other fixed phrases are not
    /// remembered.
    pub said: Vec<Said>,
    /// Rounds of tool calls, in order.
    pub rounds: Vec<ToolRound>,
    /// Outcome of the turn.
    pub end: TurnEnd,
}

impl TurnRecord {
    /// Reports whether the model refused the request as invalid or too large.
    pub fn is_refused(&self) -> bool {
        matches!(&self.end, TurnEnd::Failed(TurnError::Llm(error)) if error.kind.is_of_the_request())
    }
}

/// Tool calls that the model requested together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRound {
    /// Number of sentences of the turn sent to the output before these calls.
    pub after: usize,
    /// Calls of the round.
    pub calls: Vec<ToolRequest>,
    /// Results sent to the model, one for each call.
    pub results: Vec<String>,
}

impl ToolRound {
    /// Returns the round without these calls; `None` if none remain.
    pub(crate) fn without(&self, leaves_out: impl Fn(&ToolRequest, &str) -> bool) -> Option<Self> {
        let all = self.calls.iter().zip(&self.results);
        let (calls, results): (Vec<_>, Vec<_>) =
            all.filter(|(c, r)| !leaves_out(c, r)).map(|(c, r)| (c.clone(), r.clone())).unzip();
        (!calls.is_empty()).then_some(Self { after: self.after, calls, results })
    }
}

/// Sentence that was sent to the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Words of the sentence.
    pub text: String,
    /// Set if the sentence belongs to the dialogue. False for apologies and greetings.
    pub remembered: bool,
}
