//! Clients that continue after the server was killed and restarted: a text client, a watcher of
//! events and a device. Each checks what it receives. For chat clients see `cluster::load`.

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

/// The MAC address of the device.
pub(super) const DEVICE_ID: &str = "02:00:00:00:00:77";
pub(super) const CLIENT_ID: &str = "00000000-0000-4000-8000-000000000001";
/// Timeout for anything from a running server, on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Pause before a client reconnects.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Interval between microphone packets: six times as fast as real time.
const PACE: Duration = Duration::from_millis(10);

/// Retries until it is connected.
pub(super) async fn connect(url: &str) -> Socket {
    let connecting = async {
        loop {
            if let Ok((socket, _)) = Box::pin(connect_async(url)).await {
                return socket;
            }
            sleep(AGAIN_AFTER).await;
        }
    };
    timeout(PATIENCE, connecting).await.expect("the server is up again")
}

/// The next message; `None` if the connection broke.
pub(super) async fn next(socket: &mut Socket) -> Option<Value> {
    loop {
        match timeout(PATIENCE, socket.next()).await.expect("the server sends something") {
            Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
            Some(Ok(_)) => {}
        }
    }
}

/// A text client that sends one message after the other and resumes its session.
pub(super) struct TextClient {
    url: String,
    /// Its session, once a turn in it was acknowledged.
    pub(super) session: Option<String>,
    /// Messages of the session, and whether each was acknowledged.
    pub(super) said: Vec<(String, bool)>,
    /// Number of acknowledged turns in total.
    pub(super) answered: Arc<AtomicUsize>,
    count: usize,
    socket: Option<Socket>,
}

impl TextClient {
    pub(super) fn new(url: String) -> Self {
        let answered = Arc::default();
        Self { url, session: None, said: Vec::new(), answered, count: 0, socket: None }
    }

    /// Has turns until `end`.
    pub(super) async fn talk(&mut self, end: &CancellationToken) {
        while !end.is_cancelled() {
            self.say().await;
        }
    }

    /// Sends a new message and returns the last reply to it; `None` if the connection broke.
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

    /// Connects and resumes the session that has acknowledged turns.
    async fn come_back(&mut self) -> Option<Socket> {
        let mut socket = connect(&self.url).await;
        let mut told = next(&mut socket).await?;
        if self.said.iter().any(|(_, acknowledged)| *acknowledged) {
            let session = self.session.as_deref().unwrap();
            let wanted = json!({"type": "start_session", "session_id": session}).to_string();
            socket.send(Message::text(wanted)).await.ok()?;
            told = next(&mut socket).await?;
            if told["code"] == "INTERNAL_ERROR" {
                // The store did not respond in time, on a busy machine.
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

    /// Checks that the store has the acknowledged messages of its session in order, each once and
    /// with its answer, and of the others some or none.
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
            assert!(found.is_some(), "{text} was never sent, or is stored twice: {kept:?}");
        }
        assert!(!kept.is_empty());
    }
}

/// A watcher of a chat session with the messages of [`words`].
pub(super) struct Watcher {
    url: String,
    socket: Option<Socket>,
    last_id: Option<String>,
    /// Ids of the events by the number of their message.
    pub(super) told: HashMap<usize, String>,
    /// Number of the next expected message.
    next: usize,
    /// Number of connections for which the server reported that events may be missing.
    pub(super) incomplete: usize,
    /// Whether events may be missing or repeated on this connection.
    loose: bool,
}

impl Watcher {
    /// Watches the first session of a load.
    pub(super) fn new(url: String) -> Self {
        let told = HashMap::new();
        let next = 0;
        Self { url, socket: None, last_id: None, told, next, incomplete: 0, loose: false }
    }

    /// Watches until `end`.
    pub(super) async fn watch(&mut self, end: &CancellationToken) {
        while !end.is_cancelled() {
            end.run_until_cancelled(Box::pin(self.one())).await;
        }
    }

    /// Watches until the event of this message.
    pub(super) async fn until(&mut self, message: usize) {
        while self.next <= message {
            timeout(PATIENCE, self.one()).await.expect("the event of the message");
        }
    }

    /// Reads one event, or connects.
    async fn one(&mut self) {
        if self.socket.is_none() {
            return self.come_back().await;
        }
        // The socket stays in place: this future may be dropped while it waits.
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
            assert!(self.loose, "message {number} has a repeated event");
            return;
        }
        assert!(number == self.next || self.loose, "event of {number} instead of {}", self.next);
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

/// A user who plays recorded speech to a device in a loop.
pub(super) struct Speaker {
    endpoint: Endpoint,
    words: Vec<Bytes>,
    device: Device,
    /// Number of answered turns.
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
    /// A user at this URL who plays the speech of a recording.
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

    /// Has turns until `end`.
    pub(super) async fn talk(&mut self, end: &CancellationToken) {
        while !end.is_cancelled() {
            if !self.turn().await {
                sleep(AGAIN_AFTER).await;
            }
        }
    }

    /// Has one turn. Returns false if the server went away meanwhile.
    pub(super) async fn turn(&mut self) -> bool {
        let answered = self.try_turn().await.unwrap_or(false);
        for (_, fact) in self.device.report().facts() {
            assert!(!matches!(fact, Fact::Offence(_)), "the server offends: {fact:?}");
        }
        if answered {
            self.answered.fetch_add(1, Ordering::Relaxed);
        } else {
            // This also starts a new report, which would otherwise grow without bound.
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
        // Firmware plays the rest of its audio before it listens again.
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

    /// The last sentence on the display.
    pub(super) fn last_sentence(&self) -> String {
        let shown = self.device.report().messages("tts sentence_start").last();
        shown.map(|(_, text)| text.to_owned()).unwrap_or_default()
    }
}
