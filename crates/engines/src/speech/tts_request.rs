//! Processing of one synthesis request: runs its units on the pool, delays the start as the
//! machine's speed requires, and sends frames. Admission is in `tts_service`.

use std::sync::Arc;
use std::time::Duration;

use hearken_audio::pcm;
use hearken_audio::resample::Resampler;
use hearken_proto::speech::tts::{
    AudioFrame, FrameKind, FrameMeta, TtsEvent, TtsFailure, TtsMode, TtsResult,
};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use super::engine::{EngineError, Voice, VoicePair, wave};
use super::phrase_cache::{PhraseCache, PhraseKey};
use super::plan::Unit;
use super::pool::{Pool, WorkKind};
use super::start_delay::{Piece, wait_before_release};
use super::text::clauses;
use super::voice_speeds::VoiceSpeeds;

/// State that all requests share.
pub(super) struct Inner {
    pub(super) speakers: Vec<VoicePair>,
    pub(super) pool: Arc<Pool>,
    pub(super) paces: Arc<VoiceSpeeds>,
    pub(super) phrases: PhraseCache,
    pub(super) room: Arc<Semaphore>,
}

/// Sample rate of all audio of this service.
pub const OUTPUT_RATE_HZ: u32 = 24_000;
/// Samples per frame: a quarter of a second.
const FRAME: usize = OUTPUT_RATE_HZ as usize / 4;
/// Deadline of one unit: waiting for a thread and synthesis, together.
const UNIT_DEADLINE: Duration = Duration::from_secs(120);
/// Safety factor for units that are slower than the average.
const CAUTION: f64 = 1.1;
/// Weight after which a request drops one priority level, behind newer ones: about 20 s of speech.
const TURN_WEIGHT: usize = 360;

/// Admitted request.
pub(super) struct Request {
    pub(super) id: String,
    pub(super) units: Vec<Unit>,
    pub(super) speaker: VoicePair,
    pub(super) mode: TtsMode,
    pub(super) speed: f32,
    pub(super) stop: CancellationToken,
}

/// Reason why a request ended without its audio.
enum Ending {
    /// The client cancelled it.
    Cancelled,
    /// The client is gone.
    Gone,
    /// The request failed, with the protocol's code and a reason.
    Failed(&'static str, String),
}

/// Synthesises the request, and sends its outcome to the client unless the client is gone.
pub(super) async fn run(service: &Inner, request: Request, out: &mpsc::Sender<Message>) {
    let id = request.id.clone();
    let stop = request.stop.clone();
    let mut speaking = Speaking {
        service,
        outlet: TextSink { request_id: id.clone(), out, sequence: 0, samples: 0 },
        request,
        held: Vec::new(),
        released: false,
    };
    let outcome = tokio::select! {
        biased;
        () = stop.cancelled() => Err(Ending::Cancelled),
        outcome = speaking.run() => outcome,
    };
    let result = speaking.outlet.result();
    let event = match outcome {
        Ok(()) => TtsEvent::Complete { request_id: id, result },
        Err(Ending::Cancelled) => {
            let result = TtsResult { cancelled: true, ..result };
            TtsEvent::Complete { request_id: id, result }
        }
        Err(Ending::Failed(code, why)) => {
            tracing::warn!(code, why, "synthesis failed");
            error_event(Some(id), code, &why)
        }
        Err(Ending::Gone) => return,
    };
    // A client that is gone needs no result.
    let _gone = out.send(Message::text(event.encode())).await;
}

struct Speaking<'a> {
    service: &'a Inner,
    request: Request,
    outlet: TextSink<'a>,
    held: Vec<i16>,
    released: bool,
}

impl Speaking<'_> {
    async fn run(&mut self) -> Result<(), Ending> {
        self.outlet.progress("queued", 0.0).await?;
        self.outlet.progress("processing", 0.0).await?;
        let units = std::mem::take(&mut self.request.units);
        let mut weight = 0;
        for (done, unit) in units.iter().enumerate() {
            let release_at = self.release_at(&units[done..]);
            let pcm = self.unit(unit, weight, release_at).await?;
            weight += clauses::weight(&unit.text);
            self.held.extend_from_slice(&pcm);
            let pause = unit.pause.div_f32(self.request.speed).as_secs_f64();
            let silence = (pause * f64::from(OUTPUT_RATE_HZ)) as usize;
            self.held.resize(self.held.len() + silence, 0);
            if self.released {
                self.outlet.stream(&mut self.held).await?;
            }
            let share = (done + 1) as f64 / units.len() as f64;
            self.outlet.progress("generating", share).await?;
        }
        match self.request.mode {
            TtsMode::Streaming => self.outlet.stream(&mut self.held).await,
            TtsMode::NonStreaming => {
                self.outlet.progress("encoding", 1.0).await?;
                self.outlet.frame(FrameKind::Whole, &self.held).await
            }
        }
    }

    /// Returns the time at which playback may start, given that synthesis of the first of
    /// `remaining` starts now.
    fn release_at(&self, remaining: &[Unit]) -> Option<Instant> {
        if self.released || self.held.is_empty() || self.request.mode == TtsMode::NonStreaming {
            return None;
        }
        let pieces: Vec<Piece> = remaining
            .iter()
            .map(|unit| {
                let audio = unit.expected().div_f32(self.request.speed);
                let voice = self.request.speaker.voice(unit.language);
                let known = self.service.phrases.get(&self.key(voice.as_ref(), unit)).is_some();
                let cost = self.service.paces.cost(voice.name()).unwrap_or(1.0) * CAUTION;
                let work = if known { Duration::ZERO } else { audio.mul_f64(cost) };
                Piece { audio, work }
            })
            .collect();
        let buffered = length(self.held.len(), OUTPUT_RATE_HZ);
        Some(Instant::now() + wait_before_release(buffered, &pieces))
    }

    /// Returns the unit's audio. Meanwhile sends the held audio when it is due.
    async fn unit(
        &mut self,
        unit: &Unit,
        weight: usize,
        release_at: Option<Instant>,
    ) -> Result<Arc<[i16]>, Ending> {
        let voice = Arc::clone(self.request.speaker.voice(unit.language));
        let key = self.key(voice.as_ref(), unit);
        if let Some(pcm) = self.service.phrases.get(&key) {
            return Ok(pcm);
        }
        let text = unit.text.clone();
        let speed = self.request.speed;
        let paces = Arc::clone(&self.service.paces);
        let turn = (weight / TURN_WEIGHT) as u64;
        let job = move |stop: &CancellationToken| speak(voice.as_ref(), &text, speed, stop, &paces);
        let made = self.service.pool.submit(WorkKind::Synthesis, turn, &self.request.stop, job);
        let made = made.map_err(|full| Ending::Failed("QUEUE_FULL", full.to_string()))?;
        let made = timeout(UNIT_DEADLINE, made);
        tokio::pin!(made);
        let made = loop {
            tokio::select! {
                made = &mut made => break made,
                () = until(release_at), if !self.released => {
                    self.released = true;
                    self.outlet.stream(&mut self.held).await?;
                }
            }
        };
        let pcm: Arc<[i16]> = match made {
            Ok(Ok(Ok(pcm))) => pcm.into(),
            Ok(Ok(Err(EngineError::Cancelled))) => return Err(Ending::Cancelled),
            Ok(Ok(Err(error))) => return Err(Ending::Failed("INTERNAL_ERROR", error.to_string())),
            Ok(Err(_)) => {
                return Err(Ending::Failed("INTERNAL_ERROR", "synthesis was aborted".into()));
            }
            Err(_) => return Err(Ending::Failed("TIMEOUT", "synthesis took too long".into())),
        };
        self.service.phrases.put(key, Arc::clone(&pcm));
        Ok(pcm)
    }

    fn key(&self, voice: &dyn Voice, unit: &Unit) -> PhraseKey {
        PhraseKey {
            voice: format!("{}/{}", self.request.speaker.id, voice.name()).into(),
            text: unit.text.as_str().into(),
            speed_permille: (self.request.speed * 1000.0).round() as u32,
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Synthesises one unit at the output rate, and trims the silence at its edges. Runs on the pool.
fn speak(
    voice: &dyn Voice,
    text: &str,
    speed: f32,
    stop: &CancellationToken,
    paces: &VoiceSpeeds,
) -> Result<Vec<i16>, EngineError> {
    let begun = std::time::Instant::now();
    let rate_hz = voice.sample_rate_hz();
    let mut pcm = Vec::new();
    voice.speak(text, speed, stop, &mut |chunk| pcm.extend_from_slice(chunk))?;
    paces.measured(voice.name(), begun.elapsed(), length(pcm.len(), rate_hz));
    let keep = rate_hz as usize / 50;
    let pcm = wave::trim(&pcm, 120, keep);
    if rate_hz == OUTPUT_RATE_HZ {
        return Ok(pcm.to_vec());
    }
    let failed = |reason: String| EngineError::Failed { engine: "resampler", reason };
    let mut resampler =
        Resampler::new(rate_hz, OUTPUT_RATE_HZ).map_err(|error| failed(error.to_string()))?;
    let mut out = Vec::with_capacity(pcm.len() * 2);
    resampler.process(pcm, &mut out);
    resampler.finish(&mut out);
    Ok(out)
}

fn length(samples: usize, rate_hz: u32) -> Duration {
    Duration::from_secs_f64(samples as f64 / f64::from(rate_hz.max(1)))
}

/// Sender of frames and events to the client; counts them.
struct TextSink<'a> {
    request_id: String,
    out: &'a mpsc::Sender<Message>,
    sequence: u64,
    samples: u64,
}

impl TextSink<'_> {
    async fn send(&self, message: Message) -> Result<(), Ending> {
        self.out.send(message).await.map_err(|_| Ending::Gone)
    }

    async fn progress(&self, state: &str, progress: f64) -> Result<(), Ending> {
        let event = TtsEvent::Progress {
            request_id: self.request_id.clone(),
            state: state.to_owned(),
            progress,
            message: state.to_owned(),
        };
        self.send(Message::text(event.encode())).await
    }

    /// Sends all of `pcm` in frames, and empties it.
    async fn stream(&mut self, pcm: &mut Vec<i16>) -> Result<(), Ending> {
        let whole = std::mem::take(pcm);
        for chunk in whole.chunks(FRAME) {
            self.frame(FrameKind::Stream, chunk).await?;
        }
        Ok(())
    }

    async fn frame(&mut self, kind: FrameKind, pcm: &[i16]) -> Result<(), Ending> {
        let meta = FrameMeta {
            request_id: self.request_id.clone(),
            sequence: self.sequence,
            sample_rate: OUTPUT_RATE_HZ,
            is_final: false,
        };
        let frame = AudioFrame { kind, meta, pcm: pcm::to_le_bytes(pcm).into() };
        self.send(Message::Binary(frame.encode())).await?;
        self.sequence += 1;
        self.samples += pcm.len() as u64;
        Ok(())
    }

    fn result(&self) -> TtsResult {
        TtsResult {
            duration: self.samples as f64 / f64::from(OUTPUT_RATE_HZ),
            sample_rate: OUTPUT_RATE_HZ,
            samples: self.samples,
            chunks: self.sequence,
            cancelled: false,
        }
    }
}

/// Builds an error event.
pub(super) fn error_event(request_id: Option<String>, code: &str, message: &str) -> TtsEvent {
    let error = TtsFailure { code: code.to_owned(), message: message.to_owned(), details: None };
    TtsEvent::Error { request_id, error }
}
