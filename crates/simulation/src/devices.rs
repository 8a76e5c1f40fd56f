//! Devices: each sends its person's speech and plays the answers, over a socket of the real actors.
//! Not for details of firmware, nor for packet timing.

use std::time::Duration;

use hearken_actors::device::DeviceConnection;
use hearken_proto::device::Framing;
use hearken_proto::ids::DeviceId;
use hearken_socket::testkit::Received;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::clients::{Clients, ENDS_WITHIN};
use crate::connection::{Connection, Lost};
use crate::judge::{FIRST_DEVICE, Message};
use crate::speech::{Listener, PACKET_TIME, packets};

/// Number of silent packets after an utterance: more than needed to end it.
const SILENCE: usize = 20;
/// Time limit for an aborted reply to stop.
const STOPS_WITHIN: Duration = Duration::from_secs(5);

/// A device with its person.
pub(crate) struct Device {
    clients: Clients,
    number: usize,
    connection: Option<Connection>,
}

/// Observations of a turn.
struct Seen {
    listener: Listener,
    answer: String,
    began: bool,
}

impl Device {
    pub(crate) fn new(clients: Clients, number: usize) -> Self {
        Self { clients, number, connection: None }
    }

    fn message(&self, number: usize) -> Message {
        let of = |number| u16::try_from(number).unwrap_or_default();
        Message { conversation: FIRST_DEVICE + of(self.number), client: 0, number: of(number) }
    }

    /// Runs a whole conversation.
    pub(crate) async fn converse(mut self) {
        let judge = self.clients.judge.clone();
        for number in 0..judge.throw(3, 8) {
            sleep(judge.pause(100, 12_000)).await;
            if judge.throw(0, 6) == 0 {
                self.connection = None;
            }
            self.say(self.message(number)).await;
        }
    }

    /// Says a message once. Returns true if it was answered.
    pub(crate) async fn say(&mut self, message: Message) -> bool {
        let clients = self.clients.clone();
        let judge = self.clients.judge.clone();
        if self.connection.is_none() {
            clients.connects(message, async || self.connect().await).await;
        }
        let Some(connection) = &self.connection else { return false };
        judge.asks(message, false, connection.number);
        judge.says(message);
        connection.send(&json!({"type": "listen", "state": "start", "mode": "auto"}));
        let aborts = (judge.throw(0, 8) == 0 && !message.is_last()).then(|| judge.pause(10, 1_500));
        let mut seen = Seen { listener: Listener::new(), answer: String::new(), began: false };
        let stopped = self.talk(&mut seen).await && self.until_stop(&mut seen, aborts).await;
        if !stopped {
            judge.unknown(message, "the connection was lost");
            return false;
        }
        if !seen.listener.is_for(self.number) {
            judge.wrong(format!("the device of {message} received an answer to another device"));
        }
        if aborts.is_some() || !seen.answer.contains("re:") {
            judge.unknown(message, "it was aborted, or got an apology");
            return false;
        }
        judge.spoke(message, &seen.answer);
        true
    }

    /// Sends the utterance and silence. Returns false if the connection is lost.
    async fn talk(&mut self, seen: &mut Seen) -> bool {
        let silence = packets(None).iter().cycle().take(SILENCE);
        let mut due = Instant::now();
        for packet in packets(Some(self.number)).iter().chain(silence) {
            let Some(connection) = &self.connection else { return false };
            connection.send_audio(packet.clone());
            due += PACKET_TIME;
            loop {
                match self.next(due).await {
                    Ok(None) => break,
                    Ok(Some(told)) => self.told(&told, seen),
                    Err(Lost) => return false,
                };
            }
            if seen.began {
                break;
            }
        }
        true
    }

    /// Waits for the end of the reply. Returns false if the connection is lost.
    async fn until_stop(&mut self, seen: &mut Seen, aborts: Option<Duration>) -> bool {
        let mut deadline = Instant::now() + ENDS_WITHIN;
        let mut abort = None;
        loop {
            if let (true, None, Some(after)) = (seen.began, abort, aborts) {
                abort = Some(Instant::now() + after);
            }
            let due = abort.filter(|at| *at > Instant::now()).unwrap_or(deadline);
            match self.next(due.min(deadline)).await {
                Ok(Some(told)) if self.told(&told, seen) => return true,
                Ok(Some(_)) => {}
                Ok(None) if due < deadline => {
                    if let Some(connection) = &self.connection {
                        connection.send(&json!({"type": "abort"}));
                    }
                    deadline = Instant::now() + STOPS_WITHIN;
                }
                Ok(None) => {
                    let device = self.number;
                    self.clients.judge.wrong(format!("a turn of device {device} does not end"));
                    self.connection = None;
                    return false;
                }
                Err(Lost) => return false,
            }
        }
    }

    /// Processes a message of the server. Returns true if it ends the turn.
    fn told(&self, told: &Received, seen: &mut Seen) -> bool {
        let judge = &self.clients.judge;
        match (told.name().as_str(), told) {
            ("audio", Received::Audio(packet)) => {
                if !seen.began || !seen.listener.hears(packet) {
                    judge.wrong("a packet outside an answer");
                }
                false
            }
            ("tts/start", _) => {
                seen.began = true;
                false
            }
            ("tts/sentence_start", told) => {
                seen.answer.push_str(told.text());
                false
            }
            ("stt", told) => {
                let own = Message::in_text(told.text());
                if own.is_none_or(|own| own.conversation != self.message(0).conversation) {
                    judge.wrong(format!("device {} receives {:?}", self.number, told.text()));
                }
                false
            }
            ("tts/stop", _) => seen.began,
            _ => false,
        }
    }

    /// The next message of the server, if it arrives by this time.
    async fn next(&mut self, by: Instant) -> Result<Option<Received>, Lost> {
        let connection = self.connection.as_mut().ok_or(Lost)?;
        connection.next(by).await.inspect_err(|Lost| self.connection = None)
    }

    /// Connects to an instance. Returns whether it sends its hello.
    async fn connect(&mut self) -> bool {
        let (number, instance) = self.clients.fleet.pick().await;
        let device_id = DeviceId::new(format!("device-{}", self.number));
        let connection = DeviceConnection::new(device_id, Framing::V1);
        let actor = instance.pipeline.device(connection);
        let connection = Connection::open(number, instance, actor);
        connection.send(&json!({"type": "hello", "version": 1, "transport": "websocket"}));
        self.connection = Some(connection);
        let deadline = Instant::now() + ENDS_WITHIN;
        match self.next(deadline).await {
            Ok(Some(told)) if told.name() == "hello" => true,
            Ok(told) => {
                self.clients.judge.wrong(format!("a device is greeted with {told:?}"));
                self.connection = None;
                false
            }
            Err(Lost) => false,
        }
    }
}
