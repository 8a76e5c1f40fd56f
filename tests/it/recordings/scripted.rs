//! A server that answers every utterance with the same words and a hum, and a recogniser that
//! always returns the same transcript. Not for assertions.

#![allow(clippy::unwrap_used, reason = "a test fails if something cannot be set up")]

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hearken_audio::opus::Encoder;
use hearken_audio::pcm;
use hearken_proto::device::{AudioPacket, AudioParams, Downlink, Framing, ServerHello, Uplink};
use hearken_proto::ids::SessionId;
use hearken_proto::speech::asr::{AsrCommand, AsrEvent};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_async, accept_hdr_async};

/// The sentence of every answer.
pub(super) const SENTENCE: &str = "好的，没有问题";
const PACKETS: u32 = 5;
const PACKET: Duration = Duration::from_millis(60);
/// Length of the hum.
pub(super) const REPLY: Duration = Duration::from_millis(300);
/// In auto mode, an utterance ends after about this many packets of silence.
const SILENT_PACKETS: usize = 5;
/// Packets of silence are shorter than this.
const SILENT_BYTES: usize = 20;

/// A scripted server for one connection.
pub(super) struct Server {
    /// Its WebSocket URL.
    pub(super) url: String,
    task: JoinHandle<Seen>,
}

/// What the server received.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Headers of the handshake, names in lower case.
    pub(super) headers: HashMap<String, String>,
    /// Type, state and mode of each text message.
    pub(super) texts: Vec<String>,
    /// Number of audio packets before the first answer.
    pub(super) packets: usize,
    /// Number of answers.
    pub(super) answers: usize,
    /// Number of audio packets between `tts start` and `tts stop`.
    pub(super) sent_while_answering: usize,
}

impl Server {
    /// Listens on a free port; the transcript of every utterance is `transcript`.
    pub(super) async fn start(transcript: &'static str) -> Self {
        Self::with_ota(transcript, None).await
    }

    /// The same, with this OTA response; without one the OTA path does not exist.
    pub(super) async fn with_ota(transcript: &'static str, ota: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/xiaozhi/v1/", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let mut first = [0; 4];
                stream.peek(&mut first).await.unwrap();
                if first != *b"POST" {
                    return serve(stream, transcript).await;
                }
                answer_boot(stream, ota).await;
            }
        });
        Self { url, task }
    }

    /// Everything that it received, once the device has disconnected.
    pub(super) async fn seen(self) -> Seen {
        self.task.await.unwrap()
    }
}

/// Reads an HTTP request and answers it.
async fn answer_boot(mut stream: TcpStream, ota: Option<&str>) {
    let mut question = Vec::new();
    while !question.ends_with(b"}") {
        assert!(stream.read_buf(&mut question).await.unwrap() > 0, "the request is incomplete");
    }
    let status = if ota.is_some() { "200 OK" } else { "404 Not Found" };
    let body = ota.unwrap_or_default();
    let length = body.len();
    let answer =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).await.unwrap();
}

type Socket = WebSocketStream<TcpStream>;

async fn serve(stream: TcpStream, transcript: &'static str) -> Seen {
    let mut seen = Seen::default();
    let mut headers = HashMap::new();
    #[allow(clippy::result_large_err, reason = "the signature is the library's")]
    let keep = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        for (name, value) in request.headers() {
            headers.insert(name.to_string(), value.to_str().unwrap().to_owned());
        }
        Ok(response)
    };
    let mut socket = accept_hdr_async(stream, keep).await.unwrap();
    let framing = Framing::from_version(headers["protocol-version"].parse().unwrap());
    seen.headers = headers;
    let mut silent = 0;
    let mut spoken = 0;
    while let Some(Ok(message)) = socket.next().await {
        let answer = match message {
            Message::Text(text) => {
                seen.texts.push(name(&text));
                match Uplink::decode(&text).unwrap() {
                    Uplink::Hello(_) => {
                        let audio_params = AudioParams::opus(24_000, 60);
                        say(&mut socket, Downlink::Hello(ServerHello { audio_params, mcp: false }))
                            .await;
                        false
                    }
                    Uplink::ListenStop => true,
                    _ => false,
                }
            }
            Message::Binary(binary) => {
                let quiet = framing.decode(&binary).unwrap().opus.len() < SILENT_BYTES;
                seen.packets += usize::from(seen.answers == 0);
                silent = if quiet { silent + 1 } else { 0 };
                spoken += usize::from(!quiet);
                spoken > 0 && silent >= SILENT_PACKETS
            }
            _ => false,
        };
        if answer {
            (silent, spoken) = (0, 0);
            seen.sent_while_answering += reply(&mut socket, framing, transcript).await;
            seen.answers += 1;
        }
    }
    seen
}

fn name(text: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(text).unwrap();
    ["type", "state", "mode"].iter().filter_map(|f| json[*f].as_str()).collect::<Vec<_>>().join(" ")
}

async fn say(socket: &mut Socket, message: Downlink) {
    socket.send(Message::text(message.encode(&SessionId::new("s")))).await.unwrap();
}

/// Sends one answer at the pace of speech. Returns the number of audio packets that came meanwhile,
/// without those that were in flight when it started.
async fn reply(socket: &mut Socket, framing: Framing, transcript: &str) -> usize {
    say(socket, Downlink::Stt { text: transcript.into() }).await;
    say(socket, Downlink::TtsStart).await;
    say(socket, Downlink::SentenceStart { text: SENTENCE.into() }).await;
    let mut encoder = Encoder::new(24_000, 24_000, 5).unwrap();
    let hum = pcm::tone(300.0, 24_000 / 1_000 * 60, 24_000);
    let begin = Instant::now() + PACKET;
    let mut came = Vec::new();
    for n in 0..PACKETS {
        listen_until(socket, begin + PACKET * n, &mut came).await;
        let opus = encoder.encode(&hum).unwrap();
        let packet = framing.encode(&AudioPacket { opus, timestamp_ms: 0 });
        socket.send(Message::Binary(packet)).await.unwrap();
    }
    listen_until(socket, begin + PACKET * (PACKETS + 1), &mut came).await;
    say(socket, Downlink::SentenceEnd { text: SENTENCE.into() }).await;
    say(socket, Downlink::TtsStop).await;
    came.iter().filter(|at| **at > begin).count()
}

async fn listen_until(socket: &mut Socket, deadline: Instant, came: &mut Vec<Instant>) {
    loop {
        tokio::select! {
            message = socket.next() => match message {
                Some(Ok(Message::Binary(_))) => came.push(Instant::now()),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return sleep_until(deadline).await,
            },
            () = sleep_until(deadline) => return,
        }
    }
}

/// Starts a recognition service for one utterance; returns its address.
pub(super) async fn recogniser(hears: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = accept_async(stream).await.unwrap();
        let mut samples = 0;
        while let Some(Ok(message)) = socket.next().await {
            match message {
                Message::Binary(pcm) => samples += Bytes::len(&pcm) as u64 / 2,
                Message::Text(text) if AsrCommand::decode(&text) == Ok(AsrCommand::BatchEnd) => {
                    assert!(samples > 4_000, "{samples} samples came");
                    let text = hears.to_owned();
                    let result =
                        AsrEvent::BatchResult { text, duration: 0.0, samples, timestamp: 0 };
                    socket.send(Message::text(result.encode())).await.unwrap();
                }
                _ => {}
            }
        }
    });
    url
}
