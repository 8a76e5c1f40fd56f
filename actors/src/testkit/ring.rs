//! One device's whole ring on scripted ports, in virtual time: the real socket actor fed with
//! WebSocket bytes from memory. At the end it proves that no actor outlived its connection.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_http::ws::{Codec, Frame, Message};
use actix_web::error::PayloadError;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use hearken_proto::device::{AudioPacket, Framing};
use hearken_proto::ids::DeviceId;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::codec::{Decoder as _, Encoder as _};
use tokio_util::sync::CancellationToken;

use super::scripted::{Script, ScriptedAsr, ScriptedLlm, ScriptedTts};
use super::sound::PACKET_MS;
use crate::device::Visitor;
use crate::pipeline::{AudioPool, Pipeline, Ports};
use crate::ports::ToolSource;
use crate::roster::Roster;
use crate::settings::PipelineSettings;
use crate::tools::Vision;
use crate::ws_link;

/// Longest wait for anything, in virtual time.
const PATIENCE: Duration = Duration::from_secs(400);

/// Something that the server sent, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct Down {
    /// Since the ring was started.
    pub at: Duration,
    /// What it was.
    pub what: Told,
}

/// What a server can send.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// A JSON message.
    Text(serde_json::Value),
    /// An Opus packet.
    Audio(Bytes),
    /// A Close frame with this code.
    Closed(u16),
    /// The end of the bytes.
    Gone,
}

impl Told {
    /// In short: `tts/start`, `stt`, `audio`, `closed 1000`.
    pub fn name(&self) -> String {
        match self {
            Self::Text(json) => {
                let kind = json["type"].as_str().unwrap_or("?");
                match json["state"].as_str() {
                    Some(state) => format!("{kind}/{state}"),
                    None => kind.to_owned(),
                }
            }
            Self::Audio(_) => "audio".into(),
            Self::Closed(code) => format!("closed {code}"),
            Self::Gone => "gone".into(),
        }
    }

    /// The `text` of a JSON message.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(json) => json["text"].as_str().unwrap_or(""),
            _ => "",
        }
    }
}

/// One device's ring and its socket.
pub struct Ring {
    /// What the ports do, and were asked.
    pub script: Arc<Script>,
    /// Ends the server.
    pub process: CancellationToken,
    /// Everything that came so far.
    pub log: Vec<Down>,
    epoch: Instant,
    framing: Framing,
    up: Option<mpsc::UnboundedSender<Result<Bytes, PayloadError>>>,
    down: mpsc::UnboundedReceiver<Down>,
    server: Rc<Server>,
}

/// What the connections of one server share.
struct Server {
    pipeline: Pipeline,
    ports: Ports,
    /// How often each port is held when nobody is connected.
    held: [usize; 3],
}

impl Server {
    fn held(&self) -> [usize; 3] {
        [
            Arc::strong_count(&self.ports.asr),
            Arc::strong_count(&self.ports.llm),
            Arc::strong_count(&self.ports.tts),
        ]
    }
}

impl Ring {
    /// A connected device that has not said hello. Needs an actix system and a paused clock.
    pub fn connect(settings: PipelineSettings) -> Self {
        Self::connect_with(settings, Vec::new())
    }

    /// As [`Ring::connect`], at a server that has these tools.
    pub fn connect_with(settings: PipelineSettings, tools: Vec<Arc<dyn ToolSource>>) -> Self {
        let script = Arc::<Script>::default();
        let (told, clock) = (Arc::clone(&script), Arc::clone(&script));
        let ports = Ports {
            asr: Arc::new(ScriptedAsr(Arc::clone(&script))),
            llm: Arc::new(ScriptedLlm(Arc::clone(&script))),
            tts: Arc::new(ScriptedTts(Arc::clone(&script))),
            tools: Arc::new(move |_| tools.clone()),
            vision: Some(Arc::new(|device| Vision {
                url: "http://vision.example/explain".into(),
                token: format!("token of {device}"),
            })),
            manner: Arc::new(move |_| told.manner()),
            now: Arc::new(move || clock.now()),
        };
        let process = CancellationToken::new();
        let audio = AudioPool::current_thread();
        let pipeline = Pipeline::new(ports.clone(), settings, audio, process.clone());
        let mut server = Server { pipeline, ports, held: [0; 3] };
        server.held = server.held();
        Self::enter(Rc::new(server), script, process, None)
    }

    /// Another socket of the same device at the same server, beside this one; it has not said
    /// hello.
    pub fn again(&self) -> Self {
        self.again_with(None)
    }

    /// As [`Ring::again`], by a visitor who may hear nothing but this notice.
    pub fn again_with(&self, notice: Option<String>) -> Self {
        let (script, process) = (Arc::clone(&self.script), self.process.clone());
        Self::enter(Rc::clone(&self.server), script, process, notice)
    }

    /// The devices connected to the server.
    pub fn roster(&self) -> &Roster {
        self.server.pipeline.roster()
    }

    fn enter(
        server: Rc<Server>,
        script: Arc<Script>,
        process: CancellationToken,
        notice: Option<String>,
    ) -> Self {
        let device_id = DeviceId::new("ring");
        let visitor = Visitor { device_id, framing: Framing::V1, tap: None, notice, place: None };
        let (up, bytes) = mpsc::unbounded_channel();
        let actor = server.pipeline.device(visitor);
        let out = ws_link::attach(actor, UnboundedReceiverStream::new(bytes));
        let (tell, down) = mpsc::unbounded_channel();
        let pong = up.downgrade();
        let epoch = Instant::now();
        actix::spawn(async move {
            let mut out = std::pin::pin!(out);
            let mut codec = Codec::new().client_mode();
            let mut buffer = BytesMut::new();
            while let Some(Ok(bytes)) = out.next().await {
                buffer.extend_from_slice(&bytes);
                while let Ok(Some(frame)) = codec.decode(&mut buffer) {
                    if let (Frame::Ping(payload), Some(up)) = (&frame, pong.upgrade()) {
                        up.send(Ok(encoded(Message::Pong(payload.clone())))).unwrap_or_default();
                    }
                    if let Some(what) = told(frame)
                        && tell.send(Down { at: epoch.elapsed(), what }).is_err()
                    {
                        return;
                    }
                }
            }
            let gone = Down { at: epoch.elapsed(), what: Told::Gone };
            // The test may have ended already.
            tell.send(gone).unwrap_or_default();
        });
        let framing = Framing::V1;
        Self { script, process, log: Vec::new(), epoch, framing, up: Some(up), down, server }
    }

    /// A device that has said hello with this framing.
    pub async fn greeted(settings: PipelineSettings, version: u32) -> Self {
        let mut ring = Self::connect(settings);
        ring.greet(version).await;
        ring
    }

    /// Says hello with this framing and waits for the answer.
    pub async fn greet(&mut self, version: u32) {
        self.framing = Framing::from_version(version);
        self.text(&format!(r#"{{"type":"hello","version":{version},"transport":"websocket"}}"#));
        self.until("hello").await;
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    fn send(&self, message: Message) {
        if let Some(up) = &self.up {
            // A server that has closed no longer reads, which is no fault of the test.
            up.send(Ok(encoded(message))).unwrap_or_default();
        }
    }

    /// Sends a text frame.
    pub fn text(&self, json: &str) {
        self.send(Message::Text(json.to_owned().into()));
    }

    /// Sends a binary frame as it stands.
    pub fn binary(&self, bytes: Bytes) {
        self.send(Message::Binary(bytes));
    }

    /// Sends one Opus packet in the device's framing.
    pub fn packet(&self, opus: Bytes) {
        self.binary(self.framing.encode(&AudioPacket { opus, timestamp_ms: 0 }));
    }

    /// Sends packets as a microphone does, one every 60 ms.
    pub async fn stream(&self, packets: Vec<Bytes>) {
        for packet in packets {
            self.packet(packet);
            tokio::time::sleep(Duration::from_millis(PACKET_MS)).await;
        }
    }

    /// Waits for a message of this name and returns it.
    ///
    /// # Panics
    /// It does not come in 400 s of virtual time.
    pub async fn until(&mut self, name: &str) -> Down {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let next = tokio::time::timeout_at(deadline, self.down.recv()).await;
            let Ok(Some(down)) = next else {
                panic!("no {name} came; so far: {:#?}", self.names());
            };
            self.log.push(down.clone());
            if down.what.name() == name {
                return down;
            }
        }
    }

    /// Lets this much time pass and notes what comes.
    pub async fn pass(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        while let Ok(Some(down)) = tokio::time::timeout_at(deadline, self.down.recv()).await {
            self.log.push(down);
        }
    }

    /// Names of all that came, runs of audio as one.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.log.iter().map(|d| d.what.name()).collect();
        names.dedup_by(|a, b| a == b && a == "audio");
        names
    }

    /// Forgets what came so far.
    pub fn forget(&mut self) {
        self.log.clear();
    }

    /// Drops the connection without a word, as firmware does, and proves that every actor of it
    /// has ended.
    ///
    /// # Panics
    /// An actor still holds its port 2 s later.
    pub async fn hang_up(mut self) {
        self.up = None;
        self.pass(Duration::from_secs(2)).await;
        let held = self.server.held();
        assert_eq!(held, self.server.held, "actors outlived their connection");
    }
}

fn encoded(message: Message) -> Bytes {
    let mut bytes = BytesMut::new();
    let done = Codec::new().client_mode().encode(message, &mut bytes);
    done.expect("text, binary and pong messages always encode");
    bytes.freeze()
}

fn told(frame: Frame) -> Option<Told> {
    match frame {
        Frame::Text(text) => serde_json::from_slice(&text).ok().map(Told::Text),
        Frame::Binary(bytes) => Some(Told::Audio(bytes)),
        Frame::Close(reason) => Some(Told::Closed(reason.map_or(1005, |r| r.code.into()))),
        _ => None,
    }
}
