//! Complete pipeline of one device on scripted ports, in virtual time: the real socket actor, fed
//! with WebSocket bytes from memory. At the end it checks that no actor outlived its connection.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_http::ws::Message;
use bytes::Bytes;
use hearken_audio::sound::PACKET_MS;
use hearken_base::reloadable::Reloadable;
use hearken_base::slots::Slots;
use hearken_dialogue::DialogueSettings;
use hearken_dialogue::admission::Admission;
use hearken_dialogue::people::People;
use hearken_dialogue::testkit::scripted::{
    Script, ScriptedAsr, ScriptedLlm, ScriptedTts, ScriptedTurnDetector,
};
use hearken_dialogue::tools::Vision;
use hearken_dialogue::turn_rate::TurnRates;
use hearken_dialogue::turn_trace::TurnJournal;
use hearken_ports::{ImageDescriber, ToolSource};
use hearken_proto::device::{AudioPacket, Framing};
use hearken_proto::ids::DeviceId;
use hearken_socket::testkit::{Down, MemorySocket};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::device::DeviceConnection;
use crate::device_registry::DeviceRegistry;
use crate::pipeline::{AudioPool, Pipeline, Ports};
use crate::settings::PipelineSettings;

/// Maximum wait for any event, in virtual time.
const PATIENCE: Duration = Duration::from_secs(400);

/// Pipeline of one device, and its socket.
pub struct TestPipeline {
    /// Behaviour of the ports, and their requests.
    pub script: Arc<Script>,
    /// Token that ends the server.
    pub process: CancellationToken,
    /// All messages received so far.
    pub log: Vec<Down>,
    framing: Framing,
    socket: MemorySocket,
    server: Rc<Server>,
}

/// State that the connections of one server share.
struct Server {
    pipeline: Pipeline,
    ports: Ports,
    /// Reference counts of the ports (recogniser, model, synthesiser) without connections.
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

impl TestPipeline {
    /// Connects a device that has not said hello. Needs an actix system and a paused clock.
    pub fn connect(settings: PipelineSettings) -> Self {
        Self::connect_with(settings, Vec::new())
    }

    /// Connects a device as [`TestPipeline::connect`] does, to a server with these tools.
    pub fn connect_with(settings: PipelineSettings, tools: Vec<Arc<dyn ToolSource>>) -> Self {
        Self::connect_seeing(settings, tools, None)
    }

    /// Connects a device as [`TestPipeline::connect_with`] does, to a server that describes
    /// pictures.
    pub fn connect_seeing(
        settings: PipelineSettings,
        tools: Vec<Arc<dyn ToolSource>>,
        describer: Option<Arc<dyn ImageDescriber>>,
    ) -> Self {
        Self::connect_among(settings, tools, describer, None, TurnRates::default())
    }

    /// Connects a device as [`TestPipeline::connect`] does, to a server that knows these people.
    pub fn connect_knowing(settings: PipelineSettings, people: People) -> Self {
        Self::connect_among(settings, Vec::new(), None, Some(people), TurnRates::default())
    }

    /// Connects a device as [`TestPipeline::connect`] does, to a server with these rate limits of
    /// turns. Its address is limited, too.
    pub fn connect_at(settings: PipelineSettings, rates: TurnRates) -> Self {
        Self::connect_among(settings, Vec::new(), None, None, rates)
    }

    fn connect_among(
        settings: PipelineSettings,
        tools: Vec<Arc<dyn ToolSource>>,
        describer: Option<Arc<dyn ImageDescriber>>,
        people: Option<People>,
        rates: TurnRates,
    ) -> Self {
        let script = Arc::<Script>::default();
        let style_script = Arc::clone(&script);
        let clock = Arc::clone(&script);
        let ports = Ports {
            asr: Arc::new(ScriptedAsr(Arc::clone(&script))),
            llm: Arc::new(ScriptedLlm(Arc::clone(&script))),
            tts: Arc::new(ScriptedTts(Arc::clone(&script))),
            turn_detector: Some(Arc::new(ScriptedTurnDetector(Arc::clone(&script)))),
            people,
            tools: Arc::new(move |_, _| {
                let tools = tools.clone();
                Arc::new(move || tools.clone())
            }),
            vision: Some(Arc::new(|device| Vision {
                url: "http://vision.example/explain".into(),
                token: format!("token of {device}"),
            })),
            style: Arc::new(move |_| style_script.style()),
            roles: Arc::new(|_| None),
            now: Arc::new(move || clock.now()),
            describer,
        };
        let process = CancellationToken::new();
        let audio = AudioPool::current_thread();
        let pipeline = Pipeline::new(ports.clone(), settings, audio, process.clone());
        let pipeline = pipeline.at_rates(rates);
        let mut server = Server { pipeline, ports, held: [0; 3] };
        server.held = server.held();
        Self::enter(Rc::new(server), script, process, None)
    }

    /// Opens another socket of the same device to the same server, in addition to this one; it has
    /// not said hello.
    pub fn again(&self) -> Self {
        self.again_with(None)
    }

    /// Opens a socket as [`TestPipeline::again`] does, for a device that only receives this notice.
    pub fn again_with(&self, notice: Option<String>) -> Self {
        let script = Arc::clone(&self.script);
        let process = self.process.clone();
        Self::enter(Rc::clone(&self.server), script, process, notice)
    }

    /// Returns the registry of the devices connected to the server.
    pub fn device_registry(&self) -> &DeviceRegistry {
        self.server.pipeline.device_registry()
    }

    /// Returns the journal of the server's turns.
    pub fn turn_journal(&self) -> &TurnJournal {
        self.server.pipeline.turn_journal()
    }

    /// Returns the dialogue settings of the server, which may be replaced.
    pub fn dialogue_settings(&self) -> &Reloadable<DialogueSettings> {
        self.server.pipeline.dialogue_settings()
    }

    /// Returns the admission control of the server.
    pub fn admission(&self) -> &Admission {
        self.server.pipeline.admission()
    }

    fn enter(
        server: Rc<Server>,
        script: Arc<Script>,
        process: CancellationToken,
        notice: Option<String>,
    ) -> Self {
        let device_id = DeviceId::new("pipeline");
        let slot = Slots::new(1, 1).take(Some("203.0.113.1")).ok();
        let connection =
            DeviceConnection { notice, slot, ..DeviceConnection::new(device_id, Framing::V1) };
        let socket = MemorySocket::open(server.pipeline.device(connection), true);
        Self { script, process, log: Vec::new(), framing: Framing::V1, socket, server }
    }

    /// Connects a device that has said hello with this protocol version.
    pub async fn greeted(settings: PipelineSettings, version: u32) -> Self {
        let mut pipeline = Self::connect(settings);
        pipeline.greet(version).await;
        pipeline
    }

    /// Says hello with this protocol version and waits for the answer.
    pub async fn greet(&mut self, version: u32) {
        self.greet_with(version, "{}").await;
    }

    /// Says hello as [`TestPipeline::greet`] does, with these features as JSON.
    ///
    /// # Panics
    /// Panics if time is not virtual: a test would take as long as people do.
    pub async fn greet_with(&mut self, version: u32, features: &str) {
        tokio::time::advance(Duration::ZERO).await;
        self.framing = Framing::from_version(version);
        self.text(&format!(
            r#"{{"type":"hello","version":{version},"features":{features},"transport":"websocket"}}"#
        ));
        self.until("hello").await;
    }

    /// Returns the time since the start.
    pub fn now(&self) -> Duration {
        self.socket.now()
    }

    fn send(&self, message: Message) {
        self.socket.send(message);
    }

    /// Sends bytes that need not be a frame.
    pub fn raw(&self, bytes: Bytes) {
        self.socket.send_bytes(bytes);
    }

    /// Sends a text frame.
    pub fn text(&self, json: &str) {
        self.send(Message::Text(json.to_owned().into()));
    }

    /// Sends a binary frame unchanged.
    pub fn binary(&self, bytes: Bytes) {
        self.send(Message::Binary(bytes));
    }

    /// Sends one Opus packet in the device's framing.
    pub fn packet(&self, opus: Bytes) {
        self.packet_played(opus, 0);
    }

    /// Sends one Opus packet as [`TestPipeline::packet`] does, with the stamp of a packet that was played.
    pub fn packet_played(&self, opus: Bytes, timestamp_ms: u32) {
        self.binary(self.framing.encode(&AudioPacket { opus, timestamp_ms }));
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
    /// Panics if it does not arrive within 400 s of virtual time.
    pub async fn until(&mut self, name: &str) -> Down {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let Some(down) = self.next_by(deadline).await else {
                panic!("no {name} came; so far: {:#?}", self.names());
            };
            if down.what.name() == name {
                return down;
            }
        }
    }

    /// Returns the next message, if one arrives before the deadline, and adds it to the log.
    pub async fn next_by(&mut self, deadline: Instant) -> Option<Down> {
        let down = self.socket.next_by(deadline).await?;
        self.log.push(down.clone());
        Some(down)
    }

    /// Lets this much time pass and adds the messages that arrive to the log.
    pub async fn pass(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        while self.next_by(deadline).await.is_some() {}
    }

    /// Returns the names of all messages that arrived, with consecutive audio as one.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.log.iter().map(|d| d.what.name()).collect();
        names.dedup_by(|a, b| a == b && a == "audio");
        names
    }

    /// Clears the log.
    pub fn forget(&mut self) {
        self.log.clear();
    }

    /// Drops the connection without a Close, as firmware does, and checks that all its actors have
    /// ended.
    ///
    /// # Panics
    /// Panics if an actor still holds its port 2 s later.
    pub async fn hang_up(mut self) {
        self.lose();
        self.pass(Duration::from_secs(2)).await;
        assert!(self.is_deserted(), "actors outlived their connection");
    }

    /// Drops the connection without a Close, as firmware does.
    pub fn lose(&mut self) {
        self.socket.drop_connection();
    }

    /// Stops answering, even pings, while the connection stays open.
    pub fn fall_silent(&self) {
        self.socket.fall_silent();
    }

    /// Returns true if no actor of any connection to the server holds its port.
    pub fn is_deserted(&self) -> bool {
        self.server.held() == self.server.held
    }
}
