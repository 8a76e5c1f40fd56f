//! Simulated device at the real pipeline: executes events, answers requests for its tools, and
//! records all messages. Not for judging it.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use hearken_actors::messages::DeviceOrder;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::admission::TurnPermit;
use hearken_ports::Devices as _;
use hearken_proto::device::{Downlink, Emotion, SystemCommand};
use hearken_proto::fault::Fault;
use hearken_proto::ids::DeviceId;
use hearken_socket::testkit::{Down, Received};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::events::{Event, Handling, Hears, Life, Mode, ODD, Step};
use super::judge;
use super::outside::{Outside, ServerTools, question};
use super::server::{self, PLACES, TurnTaking};
use super::table::Event as Row;
use super::trace::{Seen, Trace};
use crate::ms;

/// Resolution of the times at which a turn is cut, in milliseconds.
const STEP_MS: u64 = 10;
/// Silence after which nothing more of a turn follows.
const QUIET: Duration = ms(12_000);

static VOICE: LazyLock<Vec<Bytes>> = LazyLock::new(|| sound::voice(360));
static SILENCE: LazyLock<Vec<Bytes>> = LazyLock::new(|| sound::silence(420));

/// Device and its connections.
pub(crate) struct Device {
    pipeline: TestPipeline,
    pub(crate) turn_taking: TurnTaking,
    /// Time at which the connection's socket was opened.
    opened: Duration,
    connection: usize,
    /// Earlier connections, which the device did not close itself.
    before: Vec<TestPipeline>,
    /// Number of servers so far.
    servers: usize,
    /// True once the device sends nothing any more.
    silent: bool,
    mcp: bool,
    mode: Option<Mode>,
    /// True while the last packet was voice.
    voice: bool,
    /// True if the voice was aborted: the rest of that speech counts for nothing.
    aborted: bool,
    ended: bool,
    pushed: usize,
    told: usize,
    held: Vec<TurnPermit>,
    outside: Arc<Outside>,
    tools: Arc<ServerTools>,
    pub(crate) trace: Arc<Trace>,
}

impl Device {
    /// Connects a device and says hello.
    pub(crate) async fn connect(mcp: bool, turn_taking: TurnTaking) -> Self {
        let trace = Arc::new(Trace::new());
        let tools = Arc::new(ServerTools(Arc::clone(&trace)));
        let outside = Arc::new(Outside::new(Arc::clone(&trace)));
        let pipeline = server::starts(turn_taking, &tools, &outside);
        let mut device = Self {
            pipeline,
            turn_taking,
            opened: trace.now(),
            connection: 0,
            before: Vec::new(),
            servers: 1,
            silent: false,
            mcp,
            mode: None,
            voice: false,
            aborted: false,
            ended: false,
            pushed: 0,
            told: 0,
            held: Vec::new(),
            outside,
            tools,
            trace,
        };
        device.connected();
        device.hello();
        device.pass(ms(20)).await;
        device
    }

    fn connected(&mut self) {
        self.connection = self.trace.connects();
        self.opened = self.trace.now() - self.pipeline.now();
        (self.mode, self.ended, self.silent) = (None, false, false);
        (self.voice, self.aborted) = (false, false);
        self.trace.note(Seen::Connected);
        self.trace.note(Seen::Busy(!self.held.is_empty()));
    }

    /// Records an event that the device or the server causes.
    fn does(&self, row: Row) {
        self.trace.note(Seen::Event(row));
    }

    fn hello(&self) {
        self.does(Row::Hello);
        let features = if self.mcp { r#"{"mcp":true}"# } else { "{}" };
        self.pipeline.text(&format!(r#"{{"type":"hello","version":1,"features":{features}}}"#));
    }

    /// Lets time pass, answers messages and records them.
    pub(crate) async fn pass(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        while let Some(down) = self.next_by(deadline).await {
            self.take(down);
        }
    }

    async fn next_by(&mut self, deadline: Instant) -> Option<Down> {
        if self.ended {
            tokio::time::sleep_until(deadline).await;
            return None;
        }
        self.pipeline.next_by(deadline).await
    }

    fn take(&mut self, down: Down) {
        self.told += 1;
        self.ended |= down.what == Received::Gone;
        if let Received::Text(json) = &down.what
            && json["type"] == "mcp"
            && !self.silent
        {
            self.answer(&json["payload"]);
        }
        self.trace.told(self.connection, self.opened + down.at, down.what);
    }

    /// Answers as the board's MCP server; one of its tools never answers.
    fn answer(&self, request: &Value) {
        let tool = |name: &str| {
            json!({"name": name, "description": "Does it.", "inputSchema": {
            "type": "object", "properties": {"volume": {"type": "integer"}}}})
        };
        let method = request["method"].as_str();
        let tool_name = request["params"]["name"].as_str();
        if let (Some("tools/call"), Some(name)) = (method, tool_name) {
            self.trace.note(Seen::Called(name.to_owned()));
        }
        let result = match (method, tool_name) {
            (Some("initialize"), _) => json!({"protocolVersion": "2024-11-05",
                "capabilities": {"tools": {}}, "serverInfo": {"name": "board", "version": "2"}}),
            (Some("tools/list"), _) => json!({"tools": [tool("self.volume"), tool("self.mute")]}),
            (Some("tools/call"), Some("self.volume")) => {
                json!({"content": [{"type": "text", "text": "true"}], "isError": false})
            }
            _ => return,
        };
        let payload = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        self.pipeline.text(&json!({"type": "mcp", "payload": payload}).to_string());
    }

    /// Waits until nothing more arrives for a long time.
    pub(crate) async fn settle(&mut self) {
        let longest = Instant::now() + ms(90_000);
        while let Some(down) = self.next_by((Instant::now() + QUIET).min(longest)).await {
            self.take(down);
        }
    }

    /// Ends speech that was aborted, before other sound.
    async fn ends_aborted_speech(&mut self) {
        if std::mem::take(&mut self.aborted) {
            self.stream(&SILENCE, false).await;
        }
    }

    async fn stream(&mut self, packets: &[Bytes], voice: bool) {
        self.voice = voice;
        for packet in packets {
            self.packet(packet, voice);
            self.pass(ms(sound::PACKET_MS)).await;
        }
    }

    fn packet(&self, packet: &Bytes, voice: bool) {
        self.trace.note(Seen::Packet { voice });
        self.pipeline.packet(packet.clone());
    }

    pub(crate) fn listen(&mut self, mode: Mode) {
        if mode == Mode::Manual {
            self.trace.note(Seen::Cut);
        }
        self.mode = Some(mode);
        self.aborted = false;
        self.does(Row::ListenStart(mode));
        let mode = format!("{mode:?}").to_lowercase();
        self.pipeline.text(&format!(r#"{{"type":"listen","state":"start","mode":"{mode}"}}"#));
    }

    fn listen_stop(&mut self) {
        self.mode = None;
        self.does(Row::ListenStop);
        self.pipeline.text(r#"{"type":"listen","state":"stop"}"#);
    }

    pub(crate) async fn begins_to_speak(&mut self, handling: Handling) {
        self.ends_aborted_speech().await;
        let number = self.outside.asks(handling);
        if self.mode.is_none() {
            self.listen(Mode::Auto);
        }
        self.outside.speaks(number);
        self.stream(&VOICE, true).await;
    }

    /// Sends sound without words.
    async fn is_heard(&mut self, noise: &[Bytes], voice: bool) {
        self.ends_aborted_speech().await;
        let number = self.outside.asks(Handling { hears: Hears::Nothing, ..Handling::ORDINARY });
        self.outside.speaks(number);
        self.stream(noise, voice).await;
    }

    /// Says something and waits for the answer, or for the end of the turn.
    pub(crate) async fn speaks(&mut self, handling: Handling) {
        self.begins_to_speak(handling).await;
        if self.mode == Some(Mode::Manual) {
            self.listen_stop();
        } else {
            self.stream(&SILENCE, false).await;
        }
    }

    fn detect(&self, text: &str) {
        self.pipeline.text(&json!({"type": "listen", "state": "detect", "text": text}).to_string());
    }

    pub(crate) async fn live(&mut self, life: &Life) {
        for Step { event, then_ms } in &life.steps {
            self.stays_connected().await;
            self.meets(*event).await;
            self.pass(ms(*then_ms)).await;
        }
        self.busy(false);
    }

    pub(crate) async fn meets(&mut self, event: Event) {
        match event {
            Event::Hello { mcp } => {
                self.mcp = mcp;
                self.hello();
            }
            Event::ListenStart(mode) => self.listen(mode),
            Event::ListenStop => self.listen_stop(),
            Event::WakeWord => {
                self.trace.note(Seen::Cut);
                self.does(Row::WakeWord);
                self.detect("hey hearken");
            }
            Event::Types(handling) => self.types(handling),
            Event::Abort => {
                self.trace.note(Seen::Aborted);
                self.does(Row::Abort);
                self.pipeline.text(r#"{"type":"abort"}"#);
                self.aborted = self.voice;
            }
            Event::Speaks(handling) => self.speaks(handling).await,
            Event::BeginsToSpeak(handling) => self.begins_to_speak(handling).await,
            Event::Silence => self.is_heard(&SILENCE, false).await,
            Event::Cough => self.is_heard(&VOICE[..1], true).await,
            Event::Say => self.push(),
            Event::Notice => {
                self.does(Row::Nothing);
                let status = "a".into();
                let message = "b".into();
                let notice = Downlink::Alert { status, message, emotion: Emotion::Happy };
                self.order(DeviceOrder::Send(notice));
            }
            Event::Busy(busy) => self.busy(busy),
            Event::SettingsReloaded => {
                self.does(Row::Nothing);
                let settings = self.pipeline.dialogue_settings();
                let mut next = (*settings.get()).clone();
                next.system_prompt.push('!');
                settings.set(next);
            }
            Event::SecondSocket => self.connects_again().await,
            Event::SocketLost => self.loses_socket().await,
            Event::LongSilence => self.long_silence().await,
            Event::Goodbye => self.leaves(r#"{"type":"goodbye"}"#),
            Event::Odd(which) => {
                self.does(Row::Nothing);
                self.pipeline.text(ODD[which]);
            }
            Event::Reboot => self.reboots().await,
            Event::SentAway => {
                self.trace.note(Seen::Cut);
                self.does(Row::ServerStops);
                self.order(DeviceOrder::Leave(Fault::GoingAway));
            }
            Event::ServerStops => self.server_stops().await,
            Event::FallsSilent => self.falls_silent().await,
            Event::NoHello => self.says_no_hello().await,
        }
    }

    fn types(&self, handling: Handling) {
        let number = self.outside.asks(handling);
        self.trace.note(Seen::Cut);
        self.trace.note(Seen::Typed(number));
        self.does(Row::Types { room: true });
        self.detect(question(number));
    }

    async fn reboots(&mut self) {
        self.order(DeviceOrder::Send(Downlink::System { command: SystemCommand::Reboot }));
        self.loses_socket().await;
    }

    async fn loses_socket(&mut self) {
        self.trace.note(Seen::Cut);
        self.does(Row::SocketLost);
        self.pipeline.lose();
        self.connects_again().await;
    }

    fn leaves(&self, goodbye: &str) {
        self.trace.note(Seen::Cut);
        self.does(Row::Goodbye);
        self.pipeline.text(goodbye);
    }

    /// Stops the server as at the end of its process, whatever is going on.
    async fn server_stops(&mut self) {
        self.trace.note(Seen::Cut);
        self.does(Row::ServerStops);
        self.busy(false);
        self.pipeline.process.cancel();
        self.pass(ms(20)).await;
        let next = server::starts(self.turn_taking, &self.tools, &self.outside);
        self.before.push(std::mem::replace(&mut self.pipeline, next));
        self.servers += 1;
        self.connected();
        self.hello();
        self.pass(ms(20)).await;
    }

    /// Falls silent, and waits until the server closes the connection.
    async fn falls_silent(&mut self) {
        self.trace.note(Seen::FellSilent);
        self.silent = true;
        self.pipeline.fall_silent();
        self.pass(ms(65_000)).await;
        assert!(self.ended, "a silent device is disconnected after a minute");
    }

    fn order(&self, order: DeviceOrder) -> bool {
        self.pipeline.device_registry().order(&DeviceId::new("pipeline"), order).is_ok()
    }

    fn push(&mut self) {
        self.pushed += 1;
        let text = format!("Message {} is **here** 😊", self.pushed);
        self.does(Row::Says);
        if self.order(DeviceOrder::Say(text)) {
            self.trace.note(Seen::Pushed(format!("Message {} is", self.pushed)));
        }
    }

    fn busy(&mut self, busy: bool) {
        self.held.clear();
        self.trace.note(Seen::Busy(busy));
        while busy && let Some(place) = self.pipeline.admission().try_acquire() {
            self.held.push(place);
        }
    }

    /// Waits until the farewell starts, or the connection ends.
    async fn long_silence(&mut self) {
        let longest = Instant::now() + ms(125_000);
        while let Some(down) = self.next_by(longest).await {
            let text = down.what.text().to_owned();
            self.take(down);
            if text.contains("Goodbye") || text.contains("再见") {
                return;
            }
        }
    }

    async fn connects_again(&mut self) {
        self.connects().await;
        self.hello();
        self.pass(ms(20)).await;
    }

    /// Connects without a hello, and waits until the server closes the connection.
    async fn says_no_hello(&mut self) {
        self.connects().await;
        self.pass(ms(12_000)).await;
        assert!(self.ended, "a device without hello is disconnected after 10 s");
    }

    async fn connects(&mut self) {
        self.trace.note(Seen::Cut);
        self.does(Row::SecondSocket);
        let next = self.pipeline.again();
        // Messages that the previous connection still gets belong to it.
        self.pass(ms(20)).await;
        self.before.push(std::mem::replace(&mut self.pipeline, next));
        self.connected();
    }

    /// Releases the button if it is pressed.
    pub(crate) fn releases_the_button(&mut self) {
        if self.mode == Some(Mode::Manual) && !self.ended {
            self.listen_stop();
        }
    }

    /// Connects again if the server has closed the connection.
    pub(crate) async fn stays_connected(&mut self) {
        if self.ended {
            self.connects_again().await;
        }
    }

    /// Waits until this message arrives, or nothing more.
    pub(crate) async fn until(&mut self, name: &str) {
        while let Some(down) = self.next_by(Instant::now() + QUIET).await {
            let found = down.what.name() == name;
            self.take(down);
            if found {
                return;
            }
        }
    }

    /// Returns the number of messages received.
    pub(crate) fn told(&self) -> usize {
        self.told
    }

    /// Says something and waits for the answer until this condition holds.
    pub(crate) async fn speaks_until(&mut self, handling: Handling, holds: impl Fn(&Self) -> bool) {
        let number = self.outside.asks(handling);
        self.listen(Mode::Auto);
        self.outside.speaks(number);
        for (n, packet) in VOICE.iter().chain(&*SILENCE).enumerate() {
            if holds(self) {
                return;
            }
            self.packet(packet, n < VOICE.len());
            for _ in 0..sound::PACKET_MS / STEP_MS {
                if holds(self) {
                    return;
                }
                self.pass(ms(STEP_MS)).await;
            }
        }
        let longest = Instant::now() + QUIET;
        while !holds(self) && Instant::now() < longest {
            if let Some(down) = self.next_by(Instant::now() + ms(STEP_MS)).await {
                self.take(down);
            }
        }
    }

    /// Asks an ordinary question after all events, and waits for its answer.
    pub(crate) async fn asks_at_last(&mut self) {
        self.releases_the_button();
        self.settle().await;
        self.stays_connected().await;
        self.pass(ms(100)).await;
        self.listen(Mode::Auto);
        self.trace.note(Seen::Settled);
        self.speaks(Handling::ORDINARY).await;
        self.settle().await;
    }

    pub(crate) fn outside(&self) -> &Outside {
        &self.outside
    }

    /// Returns all faults of its life.
    pub(crate) fn faults(&self) -> Vec<judge::Fault> {
        judge::faults(&self.trace.entries(), &self.outside, self.turn_taking)
    }

    /// Ends everything; returns an error for whatever does not end.
    pub(crate) async fn end(mut self, server_stops: bool) -> Result<(), String> {
        if server_stops {
            self.pipeline.process.cancel();
        } else {
            self.pipeline.lose();
        }
        self.pass(ms(4_000)).await;
        for before in &mut self.before {
            before.pass(ms(1)).await;
        }
        if !self.before.iter().chain([&self.pipeline]).all(TestPipeline::is_deserted) {
            return Err("actors outlived their connection".into());
        }
        if !self.pipeline.device_registry().connected().is_empty() {
            return Err("a device that is gone is still known as connected".into());
        }
        let places: Vec<_> =
            (0..PLACES).map_while(|_| self.pipeline.admission().try_acquire()).collect();
        if places.len() < PLACES {
            return Err("a turn that is over still takes up a place".into());
        }
        drop(places);
        // The servers and this test hold one each.
        let held = Arc::strong_count(&self.tools);
        if held > self.servers + 1 {
            return Err(format!("a call outlived its connection: {held} hold the tools"));
        }
        Ok(())
    }
}
