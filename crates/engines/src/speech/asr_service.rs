//! The recognition service: the ListenAI protocol of `hearken_proto::speech::asr` over a recogniser
//! and voice activity detectors. Batch mode and streaming mode; PCM and Opus. Engines are behind
//! traits.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use hearken_audio::opus::Decoder;
use hearken_proto::json;
use hearken_proto::speech::asr::{
    AsrCommand, AsrEvent, AudioFormat, BatchState, SAMPLE_RATE_HZ, VadEvent, code,
};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use super::engine::{Detected, EngineError, RecognitionEngines, SpeechDetector};
use super::pool::{Pool, WorkKind};
use super::socket::{self, End, OUT_LEN, Socket, now_ms};
use super::text::script::Language;

/// Minimum length of an utterance that is recognised, in samples (0.3 s).
const SHORTEST: usize = 3 * SAMPLE_RATE_HZ as usize / 10;
/// Maximum length of a batch, in samples (300 s).
const LONGEST: usize = 300 * SAMPLE_RATE_HZ as usize;
/// Maximum number of utterances of one connection that wait for their results.
const MOST_WAITING: usize = 8;
/// Deadline for waiting in the queue and recognising, together.
const DEADLINE: Duration = Duration::from_secs(120);

/// Recognition service.
#[derive(Clone)]
pub struct AsrService {
    /// Recogniser and detectors.
    pub hearing: RecognitionEngines,
    /// Thread pool that runs the engines.
    pub pool: Arc<Pool>,
}

impl AsrService {
    /// Serves `listener` until `stop` is cancelled; paths `/` and `/asr`.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let connections = stop.clone();
        socket::accept(listener, &["/", "/asr"], socket::MAX_CONNECTIONS, stop, move |socket| {
            converse(self.clone(), socket, connections.child_token())
        })
        .await;
    }
}

/// Serves one connection, from handshake to close.
async fn converse(service: AsrService, socket: Socket, stop: CancellationToken) {
    let _cancel_work = stop.clone().drop_guard();
    let (mut sink, mut stream) = socket.split();
    let (out, written) = mpsc::channel(OUT_LEN);
    let (waiting, results) = mpsc::channel(MOST_WAITING);
    let mut session = Session::new(service, out.clone(), waiting, stop.clone());
    let reading = async {
        loop {
            let answered = match socket::next(&mut stream).await {
                Ok(Message::Text(text)) => session.command(&text).await,
                Ok(Message::Binary(bytes)) => session.audio(&bytes).await,
                Ok(_) => Ok(()),
                Err(end) => return end,
            };
            if answered.is_err() {
                return End::Theirs;
            }
        }
    };
    let end = tokio::select! {
        end = reading => end,
        () = deliver(results, out) => End::Theirs,
        end = socket::write(&mut sink, written, stop) => end,
    };
    socket::end(sink, stream, end).await;
}

/// Error: the task that writes to the socket has ended.
struct Gone;

/// Utterance that was queued for recognition.
struct QueuedUtterance {
    kind: Kind,
    samples: u64,
    result: oneshot::Receiver<Result<String, EngineError>>,
    stop: CancellationToken,
}

#[derive(Clone, Copy)]
enum Kind {
    Batch,
    Segment(u64),
}

/// Sends results in the order of their utterances.
async fn deliver(mut waiting: mpsc::Receiver<QueuedUtterance>, out: mpsc::Sender<Message>) {
    while let Some(QueuedUtterance { kind, samples, result, stop }) = waiting.recv().await {
        let outcome = tokio::select! {
            biased;
            () = stop.cancelled() => continue,
            outcome = timeout(DEADLINE, result) => outcome,
        };
        let text = match outcome {
            Ok(Ok(Ok(text))) => Ok(text),
            Ok(Ok(Err(error))) => Err(error.to_string()),
            Ok(Err(_)) => Err("recognition was aborted".to_owned()),
            Err(_) => Err("recognition took too long".to_owned()),
        };
        let events = match (text, kind) {
            (Ok(text), Kind::Batch) => vec![
                AsrEvent::BatchResult {
                    text,
                    duration: seconds(samples),
                    samples,
                    timestamp: now_ms(),
                },
                progress(BatchState::Complete, "recognition is complete"),
            ],
            (Ok(text), Kind::Segment(_)) if text.is_empty() => vec![],
            (Ok(text), Kind::Segment(segment_id)) => vec![AsrEvent::Result {
                text,
                is_final: true,
                is_speeching: false,
                timestamp: now_ms(),
                segment_id,
            }],
            (Err(reason), _) => {
                tracing::warn!(reason, "recognition failed");
                vec![error(code::EXCEPTION, reason)]
            }
        };
        for event in events {
            if out.send(Message::text(event.encode())).await.is_err() {
                return;
            }
        }
    }
}

struct Session {
    service: AsrService,
    out: mpsc::Sender<Message>,
    waiting: mpsc::Sender<QueuedUtterance>,
    connection: CancellationToken,
    /// Child of the connection's token; cancelled by `reset`.
    work: CancellationToken,
    format: AudioFormat,
    decoder: Option<Decoder>,
    /// First byte of a PCM sample whose second byte is in the next frame.
    odd: Option<u8>,
    batch: Option<Batch>,
    detector: Option<Box<dyn SpeechDetector>>,
    segments: u64,
}

struct Batch {
    samples: Vec<i16>,
    language: Option<Language>,
    overlong: bool,
}

impl Session {
    fn new(
        service: AsrService,
        out: mpsc::Sender<Message>,
        waiting: mpsc::Sender<QueuedUtterance>,
        connection: CancellationToken,
    ) -> Self {
        let work = connection.child_token();
        Self {
            service,
            out,
            waiting,
            connection,
            work,
            format: AudioFormat::Pcm,
            decoder: None,
            odd: None,
            batch: None,
            detector: None,
            segments: 0,
        }
    }

    async fn send(&mut self, event: AsrEvent) -> Result<(), Gone> {
        self.out.send(Message::text(event.encode())).await.map_err(|_| Gone)
    }

    async fn command(&mut self, text: &str) -> Result<(), Gone> {
        let command = match parse(text) {
            Ok(command) => command,
            Err(event) => return self.send(event).await,
        };
        match command {
            AsrCommand::Ping => self.send(AsrEvent::Pong).await,
            AsrCommand::Reset => self.reset().await,
            AsrCommand::SetAudioFormat { format } => {
                self.format = format;
                self.decoder = None;
                self.odd = None;
                self.send(AsrEvent::AudioFormatSet { format, timestamp: now_ms() }).await
            }
            AsrCommand::BatchStart { sample_rate, language } => {
                if sample_rate != SAMPLE_RATE_HZ {
                    let reason = format!("sample rate {sample_rate} is not supported, send 16000");
                    return self.send(error(code::FORMAT, reason)).await;
                }
                let language = language.as_deref().and_then(language_named);
                self.batch = Some(Batch { samples: Vec::new(), language, overlong: false });
                self.odd = None;
                self.send(progress(BatchState::Receiving, "send the audio, then batch_end")).await
            }
            AsrCommand::BatchEnd => self.end_batch().await,
        }
    }

    async fn reset(&mut self) -> Result<(), Gone> {
        self.work.cancel();
        self.work = self.connection.child_token();
        self.format = AudioFormat::Pcm;
        self.decoder = None;
        self.odd = None;
        self.batch = None;
        if let Some(detector) = &mut self.detector {
            detector.reset();
        }
        self.send(AsrEvent::Reset { message: "State reset successfully".into() }).await
    }

    async fn end_batch(&mut self) -> Result<(), Gone> {
        let Some(batch) = self.batch.take() else {
            return self.send(error(code::BATCH_NOT_STARTED, "no batch was started")).await;
        };
        if batch.overlong {
            return self.send(error(code::EXCEPTION, "the batch is longer than 300 s")).await;
        }
        if batch.samples.is_empty() {
            return self.send(error(code::NO_AUDIO, "the batch holds no audio")).await;
        }
        if batch.samples.len() < SHORTEST {
            return self.send(error(code::TOO_SHORT, "the batch is shorter than 0.3 s")).await;
        }
        self.send(progress(BatchState::Recognizing, "recognising")).await?;
        self.recognize(Kind::Batch, batch.samples, batch.language).await
    }

    async fn recognize(
        &mut self,
        kind: Kind,
        samples: Vec<i16>,
        language: Option<Language>,
    ) -> Result<(), Gone> {
        let Ok(place) = self.waiting.clone().try_reserve_owned() else {
            let reason = "too many utterances of this connection wait for their results";
            return self.send(error(code::EXCEPTION, reason)).await;
        };
        let count = samples.len() as u64;
        let recognizer = Arc::clone(&self.service.hearing.recognizer);
        let job = move |stop: &CancellationToken| {
            let begun = std::time::Instant::now();
            let text = recognizer.recognize(&samples, language, stop);
            let took_ms = begun.elapsed().as_millis();
            tracing::debug!(audio_s = seconds(count), took_ms, ok = text.is_ok(), "recognised");
            text
        };
        match self.service.pool.submit(WorkKind::Recognition, 0, &self.work, job) {
            Ok(result) => {
                let stop = self.work.clone();
                // The owned sender is returned; the session has its own.
                drop(place.send(QueuedUtterance { kind, samples: count, result, stop }));
                Ok(())
            }
            Err(full) => self.send(error(code::EXCEPTION, full.to_string())).await,
        }
    }

    async fn audio(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        let mut pcm = Vec::new();
        match self.format {
            AudioFormat::Pcm => self.read_pcm(bytes, &mut pcm),
            AudioFormat::Opus => {
                if let Err(reason) = self.read_opus(bytes, &mut pcm) {
                    return self.send(error(code::FORMAT, reason)).await;
                }
            }
        }
        match &mut self.batch {
            Some(batch) if batch.samples.len() + pcm.len() > LONGEST => {
                batch.overlong = true;
                batch.samples = Vec::new();
                Ok(())
            }
            Some(batch) => {
                if !batch.overlong {
                    batch.samples.extend_from_slice(&pcm);
                }
                Ok(())
            }
            None => self.listen(&pcm).await,
        }
    }

    fn read_pcm(&mut self, bytes: &[u8], pcm: &mut Vec<i16>) {
        let mut rest = bytes;
        if let (Some(low), Some((high, tail))) = (self.odd, rest.split_first()) {
            pcm.push(i16::from_le_bytes([low, *high]));
            self.odd = None;
            rest = tail;
        }
        let pairs = rest.chunks_exact(2);
        if let [half] = pairs.remainder() {
            self.odd = Some(*half);
        }
        pcm.extend(pairs.map(|pair| i16::from_le_bytes([pair[0], pair[1]])));
    }

    fn read_opus(&mut self, packet: &[u8], pcm: &mut Vec<i16>) -> Result<(), String> {
        if self.decoder.is_none() {
            let fresh = Decoder::new(SAMPLE_RATE_HZ).map_err(|error| error.to_string())?;
            self.decoder = Some(fresh);
        }
        if let Some(decoder) = &mut self.decoder {
            decoder.decode(packet, pcm).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Adds audio in streaming mode, in which the server detects the utterances.
    async fn listen(&mut self, pcm: &[i16]) -> Result<(), Gone> {
        if self.detector.is_none() {
            let detectors = Arc::clone(&self.service.hearing.detectors);
            match tokio::task::spawn_blocking(move || detectors.open()).await {
                Ok(Ok(detector)) => self.detector = Some(detector),
                Ok(Err(failure)) => {
                    return self.send(error(code::EXCEPTION, failure.to_string())).await;
                }
                Err(_) => return self.send(error(code::EXCEPTION, "the detector failed")).await,
            }
        }
        // One second at a time, to let other connections run between parts of a large message.
        for second in pcm.chunks(SAMPLE_RATE_HZ as usize) {
            let found = self.detector.as_mut().map(|d| d.push(second)).unwrap_or_default();
            for detected in found {
                self.detected(detected).await?;
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn detected(&mut self, detected: Detected) -> Result<(), Gone> {
        let vad = |event, length: Option<u64>| AsrEvent::Vad {
            event,
            duration: length.map(seconds),
            samples: length,
            timestamp: now_ms(),
        };
        match detected {
            Detected::Started => self.send(vad(VadEvent::SpeechStart, None)).await,
            Detected::Ended(samples) => {
                let length = samples.len() as u64;
                self.send(vad(VadEvent::SpeechEnd, Some(length))).await?;
                if samples.len() < SHORTEST {
                    return Ok(());
                }
                self.segments += 1;
                self.recognize(Kind::Segment(self.segments), samples, None).await
            }
        }
    }
}

fn seconds(samples: u64) -> f64 {
    samples as f64 / f64::from(SAMPLE_RATE_HZ)
}

fn error(code: u32, message: impl Into<String>) -> AsrEvent {
    AsrEvent::Error { message: message.into(), code, timestamp: now_ms() }
}

fn progress(state: BatchState, message: &str) -> AsrEvent {
    AsrEvent::BatchProgress { state, message: message.to_owned() }
}

/// Returns the language of a name that clients of the original service use, or of a language tag.
fn language_named(name: &str) -> Option<Language> {
    match name.trim().to_ascii_lowercase().as_str() {
        "中文" | "zh" | "zh-cn" | "chinese" => Some(Language::Chinese),
        "英文" | "en" | "en-us" | "english" => Some(Language::English),
        _ => None,
    }
}

/// Parses a command. Returns an error event with the protocol's own code if it is invalid.
fn parse(text: &str) -> Result<AsrCommand, AsrEvent> {
    let fields = json::object(text.as_bytes());
    let fields = fields.map_err(|reason| {
        let code = if reason.is_json() { code::UNKNOWN_COMMAND } else { code::BAD_JSON };
        error(code, reason.to_string())
    })?;
    let name = fields.get("command").and_then(|c| c.as_str()).unwrap_or_default().to_owned();
    AsrCommand::from_fields(fields).map_err(|reason| match name.as_str() {
        "set_audio_format" => error(code::FORMAT, format!("audio format: {reason}")),
        "batch_start" => error(code::EXCEPTION, format!("batch_start: {reason}")),
        _ => error(code::UNKNOWN_COMMAND, "unknown command"),
    })
}
