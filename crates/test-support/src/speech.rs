//! The speech services with scripted engines on a free port, and a client for their protocol.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hearken_engines::speech::asr_service::AsrService;
use hearken_engines::speech::pool::Pool;
use hearken_engines::speech::tts_service::TtsService;
use hearken_engines::speech::voice_speeds::VoiceSpeeds;
use hearken_proto::speech::asr::AsrEvent;
use hearken_proto::speech::tts::{AudioFrame, TtsEvent, TtsResult};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::engines::{Gate, hearing, speakers};

/// A running service; stops when dropped.
pub struct Running {
    /// Address of its listener.
    pub address: SocketAddr,
    /// Number of synthesised clauses; always 0 for recognition.
    pub spoken: Arc<AtomicUsize>,
    _stop: DropGuard,
}

/// A listener on a free port, and its address.
pub async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Recognition with this many threads and queued batches.
pub async fn asr(gate: &Gate, threads: usize, queue: usize) -> Running {
    let (listener, address) = listen().await;
    let stop = CancellationToken::new();
    let pool = Arc::new(Pool::start(threads, queue).unwrap());
    let service = AsrService { hearing: hearing(gate), pool };
    tokio::spawn(service.serve(listener, stop.clone()));
    Running { address, spoken: Arc::default(), _stop: stop.drop_guard() }
}

/// Synthesis with this many threads and queued requests.
pub async fn tts(gate: &Gate, threads: usize, requests: usize) -> Running {
    let (listener, address) = listen().await;
    let stop = CancellationToken::new();
    let pool = Arc::new(Pool::start(threads, requests).unwrap());
    let (speakers, spoken) = speakers(gate);
    let paces = Arc::new(VoiceSpeeds::open(None));
    let service = TtsService::new(speakers, pool, paces, requests, 1 << 20);
    tokio::spawn(service.serve(listener, stop.clone()));
    Running { address, spoken, _stop: stop.drop_guard() }
}

/// A client of either service.
pub struct Client(
    /// Its connection.
    pub WebSocketStream<MaybeTlsStream<TcpStream>>,
);

impl Client {
    /// Connects to this path of a service.
    pub async fn connect(running: &Running, path: &str) -> Self {
        let url = format!("ws://{}{path}", running.address);
        Self(tokio_tungstenite::connect_async(url).await.unwrap().0)
    }

    /// Sends a text.
    pub async fn say(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    /// Sends samples, as s16le.
    pub async fn send_pcm(&mut self, pcm: &[i16]) {
        let bytes: Bytes = pcm.iter().flat_map(|s| s.to_le_bytes()).collect();
        self.0.send(Message::Binary(bytes)).await.unwrap();
    }

    /// The next message, within 10 s.
    pub async fn next(&mut self) -> Message {
        let next = tokio::time::timeout(Duration::from_secs(10), self.0.next());
        next.await.expect("a message in time").expect("an open socket").unwrap()
    }

    /// The next message of recognition.
    pub async fn heard(&mut self) -> AsrEvent {
        let message = self.next().await;
        AsrEvent::decode(message.to_text().unwrap()).unwrap()
    }

    /// The code of the next message, which must be an error.
    pub async fn error_code(&mut self) -> u32 {
        match self.heard().await {
            AsrEvent::Error { code, .. } => code,
            other => panic!("an error, not {other:?}"),
        }
    }

    /// Sends one batch; returns its result.
    pub async fn batch(&mut self, pcm: &[i16]) -> String {
        self.say(r#"{"command":"batch_start"}"#).await;
        self.send_pcm(pcm).await;
        self.say(r#"{"command":"batch_end"}"#).await;
        self.batch_text().await
    }

    /// Reads up to the result of a batch.
    pub async fn batch_text(&mut self) -> String {
        loop {
            match self.heard().await {
                AsrEvent::BatchProgress { .. } => {}
                AsrEvent::BatchResult { text, .. } => return text,
                other => panic!("a result, not {other:?}"),
            }
        }
    }

    /// Requests speech with these JSON parameters.
    pub async fn request(&mut self, id: &str, params: &str) {
        let text = format!(r#"{{"type":"tts_request","request_id":"{id}","params":{params}}}"#);
        self.say(&text).await;
    }

    /// Reads until the request ends; returns its audio and its result.
    pub async fn spoken(&mut self, id: &str) -> (Vec<AudioFrame>, TtsResult) {
        let mut frames = Vec::new();
        loop {
            match self.next().await {
                Message::Binary(bytes) => {
                    let frame = AudioFrame::decode(&bytes).unwrap();
                    if frame.meta.request_id == id {
                        frames.push(frame);
                    }
                }
                message => match TtsEvent::decode(message.to_text().unwrap()).unwrap() {
                    TtsEvent::Complete { request_id, result } if request_id == id => {
                        return (frames, result);
                    }
                    TtsEvent::Error { error, .. } => panic!("speech, not {error:?}"),
                    _ => {}
                },
            }
        }
    }

    /// Reads until an error; returns its request id and code.
    pub async fn refusal(&mut self) -> (Option<String>, String) {
        loop {
            let Message::Text(text) = self.next().await else { continue };
            if let TtsEvent::Error { request_id, error } = TtsEvent::decode(&text).unwrap() {
                return (request_id, error.code);
            }
        }
    }
}

/// The letters in the audio, without repetitions and silence.
pub fn letters(frames: &[AudioFrame]) -> Vec<i16> {
    let pcm = frames.iter().flat_map(|f| f.pcm.chunks_exact(2));
    let mut letters: Vec<i16> = pcm.map(|p| i16::from_le_bytes([p[0], p[1]])).collect();
    letters.retain(|s| *s != 0);
    letters.dedup();
    letters
}

/// The samples that [`letters`] returns for this text.
pub fn codes(text: &str) -> Vec<i16> {
    text.chars().map(|c| 1_000 + (c as u32 % 1_000) as i16).collect()
}
