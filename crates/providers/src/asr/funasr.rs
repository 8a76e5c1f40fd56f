//! FunASR's runtime WebSocket (`funasr+ws://`): a JSON configuration, PCM, a JSON end message.
//!
//! - One connection per utterance: the runtime stores the state of one utterance per connection.
//! - In this protocol `hotwords` and `timestamp` are JSON inside strings; neither is used here.
//! - The runtime may send no answer at all to noise, in either mode: its `2pass` servers and its
//!   Python server send no empty results. A slow server has not answered yet, either. The Python
//!   server does not even answer a ping while it recognises; the C++ one does: a result that comes
//!   after the audio counted as noise is lost, and shows how long later utterances have to wait.
//! - `is_final` differs between its C++ and Python servers: in C++ it marks the last result, in
//!   Python a result that was sent during the speech, even if it arrives after our end of the
//!   audio. The results before that end show which meaning applies. Otherwise, an utterance ends
//!   when no further result arrives for a while; the Python server splits the audio at pauses, and
//!   sends a result for each piece. As long as speech after a pause may be without its result, the
//!   wait grows with that speech: a part of a command may say something else.
//! - A server may send the last words before it receives the end of the audio, and nothing after
//!   it, or close the connection. If it closes before the person has finished, its words are only a
//!   part, and may say something else: the utterance fails. Silence after them may be lost.
//! - In `2pass` mode it sends the words of each chunk as it recognises them (`2pass-online`), which
//!   a segment then replaces: partial transcripts.
//! - In servers that only resemble FunASR, fields are missing, null or of another type, and
//!   messages may be binary or not JSON.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, FutureExt as _, TryFutureExt as _};
use hearken_audio::pcm;
use hearken_audio::voice_detector::SAMPLE_RATE_HZ;
use hearken_ports::{Asr, AsrStream, ProviderError, ProviderErrorKind, Transcript, UtteranceSpec};
use hearken_proto::json::{MAX_SPEECH_WEIGHT, mended, weighed_within};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use super::transcript;
use crate::service_health::Probe;
use crate::settings::{AsrSettings, FunAsrMode, ms};
use crate::ws::{Endpoint, Incoming, Socket};

const PROVIDER: &str = "funasr";
/// Description of a missing result in errors.
const MISSING: &str = "no result within its deadline";
/// Maximum size of the segments of an utterance, longer than any transcript; further segments are
/// dropped.
const MAX_SEGMENTS_BYTES: usize = 16 << 10;

/// Time without a message after which a `2pass` result counts as the last one.
const SETTLE: Duration = Duration::from_millis(800);
/// Time without a message after an `offline` result, which is rarely followed by another, or a
/// result that may be the last one.
const SETTLE_OFFLINE: Duration = Duration::from_millis(300);
/// Minimum time without a message after the end of the audio, after which the words before that end
/// are the transcript.
const SETTLE_EARLY: Duration = Duration::from_secs(2);
/// The same if a result of the second pass is still to replace some words.
const SETTLE_ONLINE: Duration = Duration::from_secs(8);
/// Time without a result after an unreadable message, if there are no words.
const SETTLE_UNREADABLE: Duration = Duration::from_millis(500);

/// Time without any result after the end of the audio, after which the audio was noise, in addition
/// to the length of the audio and twice the time of the last answer. Recognition is several times
/// faster than speech, and whoever gets no answer for that long has repeated their words.
const SETTLE_NOISE: Duration = Duration::from_secs(5);
/// Minimum length of a pause at which a server may split the audio. The Python server does after 800
/// ms by default, but does not hear the same silence as [`SILENT`] does.
const PAUSE: Duration = Duration::from_millis(600);
/// Maximum power of lost audio, relative to the loudest piece of its utterance, that still counts as
/// silence (26 dB below).
const SILENT: f64 = 0.0025;
/// Maximum number of consecutive utterances that count as noise because they got no result. A
/// server that answers pings and recognises nothing any more is down: its next utterance fails.
const MOST_UNANSWERED: u32 = 5;

/// Speech recogniser with FunASR's protocol.
#[derive(Debug)]
pub struct FunAsr {
    endpoint: Endpoint,
    mode: FunAsrMode,
    result_timeout: Duration,
    settle_noise: Duration,
    settle_early: Duration,
    known: Arc<Mutex<Known>>,
}

/// Properties of a server, as far as its utterances have shown them.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Meaning of `is_final`.
    marks: FinalMarks,
    /// Time from the end of the audio to the last result after it, of the last utterance that had
    /// one.
    answer_time: Duration,
    /// Number of consecutive utterances without any result.
    unanswered: u32,
    /// True while a result is awaited for an utterance whose transcript was returned already.
    hears_late: bool,
}

impl FunAsr {
    /// Creates a client of `url` (`ws://` or `wss://`, without the `funasr+`).
    pub fn new(url: String, settings: &AsrSettings) -> Self {
        let endpoint = Endpoint {
            provider: PROVIDER,
            url,
            api_key: settings.api_key.clone(),
            connect_timeout: ms(settings.connect_timeout_ms),
            send_timeout: ms(settings.send_timeout_ms),
        };
        let result_timeout = ms(settings.result_timeout_ms);
        let marks = FinalMarks::Unknown;
        let known = Known { marks, answer_time: Duration::ZERO, unanswered: 0, hears_late: false };
        let known = Arc::new(Mutex::new(known));
        let mode = settings.funasr_mode;
        let settle_noise = SETTLE_NOISE;
        let settle_early = SETTLE_EARLY;
        Self { endpoint, mode, result_timeout, settle_noise, settle_early, known }
    }
}

#[async_trait]
impl Asr for FunAsr {
    async fn open(&self, _spec: UtteranceSpec) -> Result<Box<dyn AsrStream>, ProviderError> {
        let mut utterance = Utterance {
            socket: self.endpoint.connect().await?,
            endpoint: self.endpoint.clone(),
            result_timeout: self.result_timeout,
            settle_noise: self.settle_noise,
            settle_early: self.settle_early,
            heard: Segments::new(self.mode),
            samples: 0,
            pieces: Pieces::default(),
            loudest: 0.0,
            is_over: false,
            is_cut: false,
            late_since: None,
            final_marks: lock(&self.known).marks,
            known: Arc::clone(&self.known),
        };
        let config = json!({
            "mode": match self.mode { FunAsrMode::Offline => "offline", FunAsrMode::TwoPass => "2pass" },
            "wav_name": "utterance",
            "wav_format": "pcm",
            "audio_fs": 16_000,
            "is_speaking": true,
            "chunk_size": [5, 10, 5],
            "chunk_interval": 10,
            "itn": true,
        });
        utterance.send(Message::text(config.to_string())).await?;
        Ok(Box::new(utterance))
    }
}

impl Probe for FunAsr {
    fn probe(&self) -> BoxFuture<'_, Result<(), ProviderError>> {
        self.endpoint.probe().map_ok(drop).boxed()
    }
}

struct Utterance {
    socket: Socket,
    endpoint: Endpoint,
    result_timeout: Duration,
    settle_noise: Duration,
    settle_early: Duration,
    heard: Segments,
    /// Number of samples sent.
    samples: usize,
    /// Pieces of the audio without a result so far.
    pieces: Pieces,
    /// Power of the loudest piece of the audio.
    loudest: f64,
    /// True if the connection has ended after words.
    is_over: bool,
    /// True if speech was lost after that end: the words are not the whole utterance.
    is_cut: bool,
    /// End of the audio, if a result may follow that is no longer part of the transcript.
    late_since: Option<Instant>,
    final_marks: FinalMarks,
    known: Arc<Mutex<Known>>,
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Meaning of `is_final` at this server, derived from the results before the end of the audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FinalMarks {
    Unknown,
    /// The last result: an earlier result had it unset.
    LastResult,
    /// A result from before the end of the audio.
    EarlyResult,
}

/// Pieces of an utterance's audio, as a server splits it at pauses, that have no result so far.
#[derive(Debug, Default)]
struct Pieces {
    open: usize,
    /// Number of samples from the start of the first one.
    samples: usize,
    /// Number of silent samples since the last sound.
    quiet: usize,
}

impl Pieces {
    /// Adds audio that was sent.
    fn push(&mut self, samples: usize, is_loud: bool) {
        let is_paused = pcm::duration(self.quiet, SAMPLE_RATE_HZ) >= PAUSE;
        if is_loud && (self.open == 0 || is_paused) {
            self.open += 1;
        }
        if self.open > 0 {
            self.samples += samples;
        }
        self.quiet = if is_loud { 0 } else { self.quiet + samples };
    }

    /// Records the result of the first one.
    fn recognised(&mut self) {
        self.open = self.open.saturating_sub(1);
        if self.open == 0 {
            self.samples = 0;
        }
    }
}

/// Progress of the results after the end of the audio.
struct Tail {
    /// End of the audio.
    ended: Instant,
    /// Latest time of any result.
    deadline: Instant,
    /// Time from which no further message is expected.
    until: Instant,
    /// Kind of the last result.
    answer: Option<ResultKind>,
    /// True after a message that is not a result.
    is_unreadable: bool,
}

impl Tail {
    fn at_most(&self, wait: Duration) -> Instant {
        self.deadline.min(Instant::now() + wait)
    }
}

/// Segments recognised so far in an utterance.
pub(super) struct Segments {
    mode: FunAsrMode,
    segments: Vec<String>,
    /// Words after the last segment.
    online: String,
    /// True if the words have changed since the last call of `partial`.
    changed: bool,
    /// Value of `is_final` in the last message, if it was a result and had one.
    was_final: Option<bool>,
}

/// Recognition result, with the fields that are used here.
#[derive(Deserialize)]
struct FunAsrMessage {
    #[serde(default)]
    mode: Value,
    #[serde(default)]
    text: Value,
    #[serde(default)]
    is_final: Value,
}

impl FunAsrMessage {
    /// Reports whether its words belong to a chunk, which a segment replaces.
    fn is_online(&self) -> bool {
        self.mode.as_str().is_some_and(|mode| mode.eq_ignore_ascii_case("2pass-online"))
    }

    fn is_final(&self) -> bool {
        match &self.is_final {
            Value::Bool(flag) => *flag,
            Value::String(text) => text.eq_ignore_ascii_case("true"),
            Value::Number(number) => number.as_f64().is_some_and(|number| number != 0.0),
            _ => false,
        }
    }
}

/// Kind of a recognition result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResultKind {
    Nothing,
    Segment,
    Last,
}

#[async_trait]
impl AsrStream for Utterance {
    async fn push(&mut self, pcm: &[i16]) -> Result<(), ProviderError> {
        let power = power(pcm);
        self.loudest = self.loudest.max(power);
        if !self.is_over {
            match self.stream(pcm, power).await {
                // If only silence follows, `finish` returns the words.
                Err(_) if self.heard.has_words() => self.is_over = true,
                pushed => return pushed,
            }
        }
        self.is_cut |= power > self.loudest * SILENT;
        self.is_whole()
    }

    fn partial(&mut self) -> Option<String> {
        self.heard.partial()
    }

    async fn finish(mut self: Box<Self>) -> Result<Transcript, ProviderError> {
        if self.is_over {
            return self.is_whole().map(|()| self.heard.transcript());
        }
        match self.hear_out().await {
            Err(error) if !self.heard.has_words() => Err(error),
            // Words recognised so far count, however the connection ended.
            _ => {
                let transcript = self.heard.transcript();
                if let Some(ended) = self.late_since {
                    self.hear_late(ended);
                }
                Ok(transcript)
            }
        }
    }
}

impl Utterance {
    async fn send(&mut self, message: Message) -> Result<(), ProviderError> {
        self.endpoint.send(&mut self.socket, message).await
    }

    /// Returns an error if speech was lost: a part of a command is not to be executed, and another
    /// recogniser may hear the whole.
    fn is_whole(&self) -> Result<(), ProviderError> {
        if !self.is_cut {
            return Ok(());
        }
        let kind = ProviderErrorKind::Unavailable;
        Err(self.endpoint.failed(kind, "the connection ended while the person was speaking"))
    }

    /// Reads the messages that have arrived, and sends audio.
    async fn stream(&mut self, pcm: &[i16], power: f64) -> Result<(), ProviderError> {
        self.take_early()?;
        self.samples += pcm.len();
        self.pieces.push(pcm.len(), power > self.loudest * SILENT);
        self.send(Message::binary(pcm::to_le_bytes(pcm))).await
    }

    /// Records the meaning of `is_final` at this server, for this utterance and later ones.
    fn learn(&mut self, marks: FinalMarks) {
        self.final_marks = marks;
        lock(&self.known).marks = marks;
    }

    /// Reads the messages that have arrived before the end of the audio.
    fn take_early(&mut self) -> Result<(), ProviderError> {
        while let Some(incoming) = self.endpoint.take_ready(&mut self.socket)? {
            self.take(&incoming);
            match self.heard.was_final {
                Some(true) => self.learn(FinalMarks::EarlyResult),
                Some(false) if self.final_marks == FinalMarks::Unknown => {
                    self.final_marks = FinalMarks::LastResult;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Sends the end of the audio, and reads the results until the last one.
    async fn hear_out(&mut self) -> Result<(), ProviderError> {
        self.take_early()?;
        self.send(Message::text(json!({ "is_speaking": false }).to_string())).await?;
        let ended = Instant::now();
        let deadline = ended + self.result_timeout;
        let mut tail =
            Tail { ended, deadline, until: deadline, answer: None, is_unreadable: false };
        tail.until = match (self.heard.awaits_segment(), self.heard.has_words()) {
            (true, _) => tail.at_most(SETTLE_ONLINE),
            (false, true) => tail.at_most(self.rest_wait()),
            (false, false) => self.noise_wait().map_or(deadline, |wait| tail.at_most(wait)),
        };
        loop {
            let received = self.endpoint.receive(&mut self.socket, tail.until, MISSING).await;
            let incoming = match received {
                Ok(incoming) => incoming,
                Err(error) => match self.missed(&tail, error).await? {
                    Some(incoming) => incoming,
                    None => return Ok(()),
                },
            };
            let kind = self.take(&incoming);
            let marks = self.final_marks;
            if kind == Some(ResultKind::Last) && marks == FinalMarks::LastResult {
                return Ok(());
            }
            self.note(&mut tail, kind);
        }
    }

    /// Records a message after the end of the audio, and chooses the wait for the next one.
    fn note(&mut self, tail: &mut Tail, kind: Option<ResultKind>) {
        match kind {
            Some(ResultKind::Nothing) if self.heard.awaits_segment() => {
                tail.until = tail.at_most(SETTLE_ONLINE);
            }
            Some(ResultKind::Nothing) => {}
            Some(kind) => {
                if self.heard.has_words() {
                    lock(&self.known).answer_time = tail.ended.elapsed();
                }
                if tail.answer == Some(ResultKind::Last) {
                    self.learn(FinalMarks::EarlyResult);
                }
                tail.until = tail.at_most(self.settle(&kind));
                tail.answer = Some(kind);
            }
            None if tail.answer.is_some() || self.heard.has_words() => {}
            None => {
                tail.is_unreadable = true;
                tail.until = tail.until.min(tail.at_most(SETTLE_UNREADABLE));
            }
        }
    }

    /// Decides what it means that no message has arrived. Returns one that arrives after all, and
    /// `None` if the utterance is over.
    async fn missed(
        &mut self,
        tail: &Tail,
        error: ProviderError,
    ) -> Result<Option<Incoming>, ProviderError> {
        let is_late = error.kind == ProviderErrorKind::Timeout;
        if tail.answer.is_some() || self.heard.has_words() {
            self.settled(tail, is_late);
            return Ok(None);
        }
        if is_late && tail.is_unreadable {
            return Err(self.endpoint.violated("a message that is not a recognition result"));
        }
        if !is_late || tail.until >= tail.deadline {
            return Err(error);
        }
        let socket = &mut self.socket;
        let incoming = self.endpoint.receive_or_pong(socket, tail.deadline, MISSING).await?;
        if incoming.is_none() {
            lock(&self.known).unanswered += 1;
            self.late_since = Some(tail.ended);
        }
        Ok(incoming)
    }

    /// Records that the results count as complete.
    fn settled(&mut self, tail: &Tail, is_late: bool) {
        if self.may_miss_words(tail.answer.as_ref()) {
            tracing::warn!(after = ?tail.ended.elapsed(), "words may be missing: the recogniser sent no result for the last speech");
            self.late_since = is_late.then_some(tail.ended);
        } else if tail.answer == Some(ResultKind::Last) && self.final_marks == FinalMarks::Unknown {
            self.learn(FinalMarks::LastResult);
        }
    }

    /// Waits in the background for the result that is missing: if it comes, the server is slower
    /// than assumed, and later utterances wait longer. One utterance at a time.
    fn hear_late(mut self: Box<Self>, ended: Instant) {
        if std::mem::replace(&mut lock(&self.known).hears_late, true) {
            return;
        }
        tokio::spawn(async move {
            let deadline = ended + self.result_timeout;
            self.heard.changed = false;
            while !self.heard.changed
                && let Ok(incoming) =
                    self.endpoint.receive(&mut self.socket, deadline, "no late result").await
            {
                self.take(&incoming);
            }
            let mut known = lock(&self.known);
            known.hears_late = false;
            if self.heard.changed {
                known.answer_time = ended.elapsed();
                tracing::warn!(after = ?known.answer_time, "lost words: the recogniser sent them after the utterance counted as over; later utterances wait longer");
            }
        });
    }

    /// Returns the time without a result after which the audio was noise; `None` if a missing
    /// result is to count as a failure.
    fn noise_wait(&self) -> Option<Duration> {
        let mut known = lock(&self.known);
        if known.unanswered >= MOST_UNANSWERED {
            known.unanswered = 0;
            return None;
        }
        let length = pcm::duration(self.samples, SAMPLE_RATE_HZ);
        Some(self.settle_noise + length + 2 * known.answer_time)
    }

    /// Returns the time without a message after which the pieces that have no result yet count as
    /// silence.
    fn rest_wait(&self) -> Duration {
        let length = pcm::duration(self.pieces.samples, SAMPLE_RATE_HZ);
        self.settle_early.max(length + 2 * lock(&self.known).answer_time)
    }

    /// Reports whether a piece may be without its result after this one, or without any after the
    /// end of the audio. After that end, the Python server unsets `is_final` in its last result.
    fn may_miss_words(&self, answer: Option<&ResultKind>) -> bool {
        let is_last = answer == Some(&ResultKind::Segment)
            && self.heard.was_final == Some(false)
            && self.final_marks != FinalMarks::LastResult;
        self.pieces.open > 0 && !is_last
    }

    /// Returns the time without a message after which this result counts as the last one.
    fn settle(&self, kind: &ResultKind) -> Duration {
        match kind {
            // The words of a longer piece may follow an empty one.
            _ if !self.heard.has_words() => SETTLE,
            ResultKind::Last if self.final_marks == FinalMarks::EarlyResult => self.rest_wait(),
            kind if self.may_miss_words(Some(kind)) => self.rest_wait(),
            ResultKind::Last => SETTLE_OFFLINE,
            _ if self.heard.mode == FunAsrMode::Offline => SETTLE_OFFLINE,
            _ => SETTLE,
        }
    }

    /// Parses a message. Returns none if it is not a result.
    fn take(&mut self, incoming: &Incoming) -> Option<ResultKind> {
        let kind = match incoming {
            Incoming::Text(text) => self.heard.take(text),
            Incoming::Binary(bytes) => self.heard.take(&String::from_utf8_lossy(bytes)),
        };
        let is_result = kind.as_ref().is_some_and(|kind| *kind != ResultKind::Nothing);
        if is_result {
            self.pieces.recognised();
        }
        if is_result || self.heard.has_words() {
            lock(&self.known).unanswered = 0;
        }
        kind
    }
}

impl Segments {
    pub(super) fn new(mode: FunAsrMode) -> Self {
        Self { mode, segments: Vec::new(), online: String::new(), changed: false, was_final: None }
    }

    /// Parses a message of the recogniser. Returns none if it is not a result.
    pub(super) fn take(&mut self, message: &str) -> Option<ResultKind> {
        self.was_final = None;
        let message = message.trim_start_matches('\u{feff}').trim();
        if message.is_empty() {
            return Some(ResultKind::Nothing);
        }
        let read = |text: &str| weighed_within::<FunAsrMessage>(text, MAX_SPEECH_WEIGHT).ok();
        let answer = read(message).or_else(|| read(&mended(message)?))?;
        let is_result = answer.text.is_string() && !answer.is_final.is_null();
        self.was_final = is_result.then(|| answer.is_final());
        let heard = meaning(&answer);
        let known: usize = self.segments.iter().map(String::len).sum();
        let text = answer.text.as_str().unwrap_or_default();
        let segment = text.trim();
        // Also if the second pass recognised nothing.
        if heard != ResultKind::Nothing && answer.text.is_string() {
            self.online.clear();
        }
        if segment.is_empty() || known + self.online.len() > MAX_SEGMENTS_BYTES {
            return Some(heard);
        }
        if heard != ResultKind::Nothing {
            self.segments.push(segment.to_owned());
            self.changed = true;
        } else if self.mode == FunAsrMode::TwoPass && answer.is_online() {
            self.online.push_str(text);
            self.changed = true;
        }
        Some(heard)
    }

    /// Returns the words so far, if they have changed since the last call.
    pub(super) fn partial(&mut self) -> Option<String> {
        std::mem::take(&mut self.changed).then(|| self.transcript().text)
    }

    /// Returns the transcript: the segments, and the words after them that no segment has replaced.
    pub(super) fn transcript(&self) -> Transcript {
        let online = Some(self.online.trim()).filter(|words| !words.is_empty());
        let words: Vec<&str> = self.segments.iter().map(String::as_str).chain(online).collect();
        transcript(&join(&words))
    }

    /// Reports whether a segment is still to replace some words.
    fn awaits_segment(&self) -> bool {
        !self.online.trim().is_empty()
    }

    fn has_words(&self) -> bool {
        !self.segments.is_empty() || self.awaits_segment()
    }
}

/// Returns the mean power of a piece of audio.
fn power(pcm: &[i16]) -> f64 {
    let sum: f64 = pcm.iter().map(|&sample| f64::from(sample).powi(2)).sum();
    // Pieces are short: their lengths are exact in 32 bits.
    sum / f64::from(u32::try_from(pcm.len()).unwrap_or(u32::MAX).max(1))
}

/// Returns the kind of a result. Only `2pass` mode has results that later ones replace.
fn meaning(answer: &FunAsrMessage) -> ResultKind {
    if answer.is_online() {
        ResultKind::Nothing
    } else if answer.is_final() {
        ResultKind::Last
    } else if answer.text.is_string() {
        ResultKind::Segment
    } else {
        // A confirmation has no text.
        ResultKind::Nothing
    }
}

/// Joins segments in order, with a space only between two Latin letters.
fn join(segments: &[&str]) -> String {
    let mut whole = String::new();
    for segment in segments {
        let apart =
            whole.ends_with(|c: char| c.is_ascii()) && segment.starts_with(|c: char| c.is_ascii());
        if apart && !whole.is_empty() {
            whole.push(' ');
        }
        whole.push_str(segment);
    }
    whole
}

#[cfg(test)]
mod tests;
