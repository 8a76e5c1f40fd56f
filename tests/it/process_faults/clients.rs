//! Clients that go on when the server is killed and comes back: a text client, a watcher of events
//! and a device. Each checks what it is told. Not for chat clients: see `cluster::load`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use hearken_proto::device::{AudioParams, ListenMode};
use hearken_proto::recording::{Content, Recording};
use hearken_test_support::socket::Socket;
use hearken_virtual_device::events::{DeviceState, Event};
use hearken_virtual_device::firmware::{Fact, Firmware};
use hearken_virtual_device::profile::Profile;
use hearken_virtual_device::report::Report;
use hearken_virtual_device::socket::{Device, Endpoint, SocketError};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use crate::cluster::load::words;

/// The ids of the device.
pub(super) const DEVICE_ID: &str = "02:00:00:00:00:77";
pub(super) const CLIENT_ID: &str = "00000000-0000-4000-8000-000000000001";
/// Longest wait for anything from a server that runs, on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Wait before a client whose connection broke comes again.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Packets of a microphone come this often: six times as fast as in life.
const PACE: Duration = Duration::from_millis(10);

/// Connects again and again.
pub(super) async fn connect(url: &str) -> Socket {
    let connecting = async {
        loop {
            if let Ok((socket, _)) = Box::pin(connect_async(url)).await {
                return socket;
            }
            sleep(AGAIN_AFTER).await;
        }
    };
    timeout(PATIENCE, connecting).await.expect("the server comes back")
}

/// The next message; none where the connection broke.
pub(super) async fn next(socket: &mut Socket) -> Option<Value> {
    loop {
        match timeout(PATIENCE, socket.next()).await.expect("the server says something") {
            Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
            Some(Ok(_)) => {}
        }
    }
}

/// A text client that says one text after the other, and goes on with its session.
pub(super) struct TextClient {
    url: String,
    /// Its session, once a turn of it was acknowledged.
    pub(super) session: Option<String>,
    /// What was said in the session, and whether that was acknowledged.
    pub(super) said: Vec<(String, bool)>,
    /// Turns that were acknowledged, in all.
    pub(super) answered: Arc<AtomicUsize>,
    count: usize,
    socket: Option<Socket>,
}

impl TextClient {
    pub(super) fn new(url: String) -> Self {
        let answered = Arc::default();
        Self { url, session: None, said: Vec::new(), answered, count: 0, socket: None }
    }

    /// Talks until the end.
    pub(super) async fn talk(&mut self, end: &CancellationToken) {
        while !end.is_cancelled() {
            self.say().await;
        }
    }

    /// Says something new, and returns what ended that; none where the connection broke.
    pub(super) async fn say(&mut self) -> Option<Value> {
        let mut socket = match self.socket.take() {
            Some(socket) => socket,
            None => self.come_back().await?,
        };
        let text = format!("text {}", self.count);
        self.count += 1;
        self.said.push((text.clone(), false));
        let asked = json!({"type": "text_input", "text": text}).to_string();
        socket.send(Message::text(asked)).await.ok()?;
        let last = loop {
            let told = next(&mut socket).await?;
            if told["type"] == "llm_response" || told["type"] == "error" {
                break told;
            }
        };
        self.socket = Some(socket);
        if last["stored"] != false && last["type"] == "llm_response" {
            assert_eq!(last["content"], format!("You said {text}"));
            self.said.last_mut().unwrap().1 = true;
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
        Some(last)
    }

    /// Connects, and goes on with the session that has acknowledged turns.
    async fn come_back(&mut self) -> Option<Socket> {
        let mut socket = connect(&self.url).await;
        let mut told = next(&mut socket).await?;
        if self.said.iter().any(|(_, acknowledged)| *acknowledged) {
            let session = self.session.as_deref().unwrap();
            let wanted = json!({"type": "start_session", "session_id": session}).to_string();
            socket.send(Message::text(wanted)).await.ok()?;
            told = next(&mut socket).await?;
            if told["code"] == "INTERNAL_ERROR" {
                // The store did not answer in time, on a busy machine.
                return None;
            }
            assert_eq!(told["data"]["session_id"], session, "an answered session is lost: {told}");
        } else {
            self.said.clear();
        }
        self.session = Some(told["data"]["session_id"].as_str().unwrap().to_owned());
        Some(socket)
    }

    /// Drops its connection.
    pub(super) fn hang_up(&mut self) {
        self.socket = None;
    }

    /// What the store has of its session is what was said, in order, each text once and with its
    /// answer; of what was not acknowledged, some.
    pub(super) fn check(&self, state: &str) {
        let state: Value = serde_json::from_str(state).unwrap();
        let kept: Vec<&str> = state["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["content"].as_str().unwrap())
            .collect();
        let mut said = self.said.iter().rev();
        for pair in kept.rchunks(2) {
            let [text, answer] = pair else { panic!("half a turn is stored: {kept:?}") };
            assert_eq!(*answer, format!("You said {text}"), "{kept:?}");
            let found = said.by_ref().find(|(said, acknowledged)| {
                assert!(said == text || !acknowledged, "{said} is lost or moved: {kept:?}");
                said == text
            });
            assert!(found.is_some(), "{text} was never said, or is there twice: {kept:?}");
        }
        assert!(!kept.is_empty());
    }
}

/// What somebody hears who watches a chat session in which [`words`] are said.
pub(super) struct Watcher {
    url: String,
    socket: Option<Socket>,
    last_id: Option<String>,
    /// Ids of the events by the number of their message.
    pub(super) told: HashMap<usize, String>,
    /// Number of the message that is to be told next.
    next: usize,
    /// Connections that were told that events may be missing.
    pub(super) incomplete: usize,
    /// Whether events may be missing, or come again, on this connection.
    loose: bool,
}

impl Watcher {
    /// Watches the first session of a load.
    pub(super) fn new(url: String) -> Self {
        let told = HashMap::new();
        let next = 0;
        Self { url, socket: None, last_id: None, told, next, incomplete: 0, loose: false }
    }

    /// Watches until the end.
    pub(super) async fn watch(&mut self, end: &CancellationToken) {
        while !end.is_cancelled() {
            end.run_until_cancelled(Box::pin(self.one())).await;
        }
    }

    /// Watches until this message was told.
    pub(super) async fn until(&mut self, message: usize) {
        while self.next <= message {
            timeout(PATIENCE, self.one()).await.expect("the message is told");
        }
    }

    /// Reads one event, or connects.
    async fn one(&mut self) {
        if self.socket.is_none() {
            return self.come_back().await;
        }
        // Not taken out of its place: this may be dropped while it waits.
        let Some(socket) = &mut self.socket else { return };
        let told = loop {
            match socket.next().await {
                Some(Ok(Message::Text(text))) => break Some(text),
                Some(Ok(Message::Close(_)) | Err(_)) | None => break None,
                Some(Ok(_)) => {}
            }
        };
        let Some(text) = told else {
            self.socket = None;
            return;
        };
        let told: Value = serde_json::from_str(&text).unwrap();
        let event = &told["event"];
        if event["type"] == "chat.answered" {
            let message = event["data"]["message"].as_str().unwrap();
            self.heard(message, event["id"].as_str().unwrap());
        }
    }

    fn heard(&mut self, message: &str, id: &str) {
        let number = message.split(' ').nth(1).unwrap().parse().unwrap();
        assert_eq!(message, words(0, number), "an event of another session");
        let known = self.told.insert(number, id.to_owned());
        if number < self.next {
            assert_eq!(known.as_deref(), Some(id), "message {number} has two events");
            assert!(self.loose, "message {number} was told twice");
            return;
        }
        assert!(number == self.next || self.loose, "{number} was told instead of {}", self.next);
        assert_eq!(known, None);
        (self.next, self.last_id) = (number + 1, Some(id.to_owned()));
    }

    async fn come_back(&mut self) {
        let query = self.last_id.as_ref().map(|id| format!("?last_event_id={id}"));
        let mut socket = connect(&format!("{}{}", self.url, query.unwrap_or_default())).await;
        let Some(connected) = next(&mut socket).await else { return };
        assert_eq!(connected["type"], "connected", "{connected}");
        self.loose = connected["complete"] != true;
        self.incomplete += usize::from(self.loose);
        self.socket = Some(socket);
    }
}

/// A person who says recorded words to a device, again and again.
pub(super) struct Speaker {
    endpoint: Endpoint,
    words: Vec<Bytes>,
    device: Device,
    /// Turns that were answered.
    pub(super) answered: Arc<AtomicUsize>,
}

fn device(endpoint: &Endpoint) -> Device {
    let audio = AudioParams::default();
    let firmware = Firmware::new(Profile::default(), ListenMode::Auto, endpoint.framing, &audio);
    Device::new(endpoint.clone(), firmware)
}

fn stops(report: &Report) -> usize {
    report.messages("tts stop").count()
}

impl Speaker {
    /// Somebody at this address who says what a recording has.
    pub(super) fn new(url: String, token: Option<String>) -> Self {
        let file = hearken_test_support::repository().join("fixtures/audio/en_go_forward.jsonl");
        let recorded = Recording::parse(&std::fs::read_to_string(file).unwrap()).unwrap();
        let words = recorded.frames.into_iter().filter_map(|frame| match frame.content {
            Content::UpAudio(packet) => Some(packet),
            _ => None,
        });
        let endpoint = Endpoint {
            url,
            device_id: DEVICE_ID.into(),
            client_id: CLIENT_ID.into(),
            token,
            framing: 1,
        };
        let device = device(&endpoint);
        Self { endpoint, words: words.collect(), device, answered: Arc::default() }
    }

    /// Talks until the end.
    pub(super) async fn talk(&mut self, end: &CancellationToken) {
        while !end.is_cancelled() {
            if !self.turn().await {
                sleep(AGAIN_AFTER).await;
            }
        }
    }

    /// Has one turn. Returns false where the server went away meanwhile.
    pub(super) async fn turn(&mut self) -> bool {
        let answered = self.try_turn().await.unwrap_or(false);
        for (_, fact) in self.device.report().facts() {
            assert!(!matches!(fact, Fact::Offence(_)), "the server offends: {fact:?}");
        }
        if answered {
            self.answered.fetch_add(1, Ordering::Relaxed);
        } else {
            // Begins a new report, too: it would grow for ever.
            self.device = device(&self.endpoint);
        }
        answered
    }

    async fn try_turn(&mut self) -> Result<bool, SocketError> {
        let device = &mut self.device;
        if !device.firmware().microphone_open() {
            if device.firmware().state() == DeviceState::Idle {
                device.handle(Event::Wake { word: None }).await?;
            }
            let open = |_: &Report, f: &Firmware| f.microphone_open() || !f.is_connected();
            device.run_until(Instant::now() + PATIENCE, open).await?;
        }
        let before = stops(device.report());
        let mut due = Instant::now();
        for packet in &self.words {
            device.handle(Event::Microphone(packet.clone())).await?;
            due += PACE;
            device.run_until(due, |_, _| false).await?;
        }
        // Firmware plays on for a moment and only then listens again.
        let over = move |report: &Report, firmware: &Firmware| {
            !firmware.is_connected() || (stops(report) > before && firmware.due().is_none())
        };
        device.run_until(Instant::now() + PATIENCE, over).await?;
        let gone = !device.firmware().is_connected();
        assert!(gone || stops(device.report()) > before, "{:?}", device.report().entries());
        Ok(!gone)
    }

    /// Drops its connection.
    pub(super) fn hang_up(&mut self) {
        self.device = device(&self.endpoint);
    }

    /// What was shown last.
    pub(super) fn last_sentence(&self) -> String {
        let shown = self.device.report().messages("tts sentence_start").last();
        shown.map(|(_, text)| text.to_owned()).unwrap_or_default()
    }
}
