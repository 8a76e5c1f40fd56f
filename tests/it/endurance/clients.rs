//! A device, a text client and an application that have turns in a loop and report the outcome of
//! each. Not for their number.

use std::sync::Arc;
use std::time::Duration;

use futures_util::SinkExt as _;
use hearken_dialogue::Phrases;
use hearken_proto::device::{AudioParams, ListenMode};
use hearken_test_support::socket::{Socket, frame};
use hearken_virtual_device::clock::Drift;
use hearken_virtual_device::events::{DeviceState, Event, Fact};
use hearken_virtual_device::firmware::Firmware;
use hearken_virtual_device::observer::{Observation, Observer};
use hearken_virtual_device::profile::Profile;
use hearken_virtual_device::socket::{Device, Endpoint};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use super::outcomes::{Kind, Outcome, Outcomes};
use crate::cluster::load::kept;
use crate::faults::APOLOGIES;
use crate::server::voices::SPEECH;
use crate::support::app::HEARD;

/// Time limit of a turn.
pub(super) const TURN_WITHIN: Duration = Duration::from_secs(40);
/// Interval between microphone packets.
const PACKET: Duration = Duration::from_millis(60);
/// Number of packets of [`SPEECH`] with voice.
const VOICED: usize = 15;
/// Maximum number of messages in a session of an application.
const MOST_IN_A_SESSION: usize = 100;

/// Outcome of a turn, and the waiting time of the client: for a device, until playback of the answer starts.
pub(super) type Came = (Outcome, Duration);

/// A client that has turns.
pub(super) trait Client: Send + Sized + 'static {
    const KIND: Kind;

    /// Runs one turn. Fails if it did not end in a way that the client understands.
    fn turn(&mut self) -> impl Future<Output = Result<Came, String>> + Send;

    /// Drops the connection, if any.
    fn leave(&mut self);

    /// Runs one turn with the time limit.
    fn turn_in_time(&mut self) -> impl Future<Output = Result<Came, String>> + Send {
        async {
            let late = || Err(format!("no end within {TURN_WITHIN:?}"));
            timeout(TURN_WITHIN, self.turn()).await.unwrap_or_else(|_| late())
        }
    }

    /// Has turns until `end`, with pauses of this mean length. Leaves its turn on each notification.
    fn talk(
        mut self,
        pause: Duration,
        mut dice: fastrand::Rng,
        leave: Arc<Notify>,
        outcomes: Arc<Outcomes>,
        end: CancellationToken,
    ) -> impl Future<Output = Self> + Send {
        async move {
            while end.run_until_cancelled(sleep(pause.mul_f64(2.0 * dice.f64()))).await.is_some() {
                let came = tokio::select! {
                    came = self.turn_in_time() => came,
                    () = leave.notified() => {
                        self.leave();
                        outcomes.add(Self::KIND, Outcome::Left, None);
                        continue;
                    }
                };
                match came {
                    Ok((outcome, wait)) => outcomes.add(Self::KIND, outcome, Some(wait)),
                    Err(why) => {
                        self.leave();
                        outcomes.lose(Self::KIND, &why);
                    }
                }
            }
            self
        }
    }
}

/// Observations of one turn, of constant size.
#[derive(Default)]
struct Screen {
    /// Start of playback.
    began: Option<Instant>,
    stops: usize,
    sentence: String,
    packets: usize,
    offence: Option<&'static str>,
}

impl Observer for Screen {
    fn observe(&mut self, _: Duration, what: Observation) {
        match what {
            Observation::Noticed(Fact::Message { kind, text }) => match kind.as_str() {
                "tts start" => _ = self.began.get_or_insert_with(Instant::now),
                "tts stop" => self.stops += 1,
                "tts sentence_start" => self.sentence = text.unwrap_or_default(),
                _ => {}
            },
            Observation::Noticed(Fact::PacketReceived) => self.packets += 1,
            Observation::Noticed(Fact::Offence(offence)) => self.offence = Some(offence),
            _ => {}
        }
    }
}

impl Screen {
    fn outcome(&self) -> Result<Outcome, String> {
        let sentence = self.sentence.as_str();
        if let Some(offence) = self.offence {
            return Err(format!("the server offends: {offence}"));
        }
        if self.packets == 0 || sentence.is_empty() {
            return Err(format!("{} packets, the last sentence {sentence:?}", self.packets));
        }
        Ok(match sentence {
            _ if APOLOGIES.contains(&sentence) => Outcome::Apologised,
            _ if Phrases::default().busy.all().iter().any(|busy| busy == sentence) => Outcome::Busy,
            _ if sentence == format!("You said {HEARD}") => Outcome::Answered,
            _ => Outcome::Damaged,
        })
    }
}

/// A user with a device.
pub(super) struct Person {
    endpoint: Endpoint,
    device: Device<Screen>,
}

fn device(endpoint: &Endpoint) -> Device<Screen> {
    let audio = AudioParams::default();
    let firmware = Firmware::new(Profile::default(), ListenMode::Auto, endpoint.framing, &audio);
    Device::with_observer(endpoint.clone(), firmware, Screen::default(), Drift::default())
}

impl Person {
    pub(super) fn new(url: &str, number: usize) -> Self {
        let device_id = format!("02:00:00:05:{:02x}:{:02x}", number / 256, number % 256);
        let endpoint = Endpoint { device_id, ..Endpoint::new(url) };
        Self { device: device(&endpoint), endpoint }
    }

    /// Waits until the condition holds; fails if the server closes the connection.
    async fn until(&mut self, done: impl Fn(&Screen, &Firmware) -> bool) -> Result<(), String> {
        let done = |screen: &Screen, f: &Firmware| !f.is_connected() || done(screen, f);
        let deadline = Instant::now() + 2 * TURN_WITHIN;
        self.device.run_until(deadline, done).await.map_err(|error| error.to_string())?;
        let connected = self.device.firmware().is_connected();
        connected.then_some(()).ok_or_else(|| "the server hung up".to_owned())
    }
}

impl Client for Person {
    const KIND: Kind = Kind::Device;

    async fn turn(&mut self) -> Result<Came, String> {
        let told = |error: hearken_virtual_device::socket::SocketError| error.to_string();
        if self.device.firmware().state() == DeviceState::Idle {
            self.device.handle(Event::Wake { word: None }).await.map_err(told)?;
        }
        self.until(|_, firmware| firmware.microphone_open()).await?;
        *self.device.observer_mut() = Screen::default();
        let mut due = Instant::now();
        let mut finished = Instant::now();
        for (number, packet) in SPEECH.iter().enumerate() {
            self.device.handle(Event::Microphone(packet.clone())).await.map_err(told)?;
            due += PACKET;
            self.device.run_until(due, |_, _| false).await.map_err(told)?;
            if number < VOICED {
                finished = Instant::now();
            }
        }
        // Firmware plays the rest of its audio before it listens again.
        self.until(|screen, firmware| screen.stops > 0 && firmware.due().is_none()).await?;
        let screen = self.device.report();
        let began = screen.began.ok_or("`tts stop` without a start")?;
        Ok((screen.outcome()?, began.saturating_duration_since(finished)))
    }

    fn leave(&mut self) {
        self.device = device(&self.endpoint);
    }
}

/// A text client that resumes its session.
pub(super) struct TextClient {
    url: String,
    session: Option<String>,
    socket: Option<Socket>,
    said: usize,
}

async fn next(socket: &mut Socket) -> Result<Value, String> {
    let ended = |code| format!("the server hung up with {code:?}");
    frame(socket, 2 * TURN_WITHIN).await.map_err(ended)
}

async fn send(socket: &mut Socket, message: Value) -> Result<(), String> {
    socket.send(Message::text(message.to_string())).await.map_err(|error| error.to_string())
}

impl TextClient {
    pub(super) fn new(url: String) -> Self {
        Self { url, session: None, socket: None, said: 0 }
    }

    async fn connect(&mut self) -> Result<Socket, String> {
        let (mut socket, _) =
            Box::pin(connect_async(&self.url)).await.map_err(|e| e.to_string())?;
        let mut told = next(&mut socket).await?;
        if let Some(session) = &self.session {
            send(&mut socket, json!({"type": "start_session", "session_id": session})).await?;
            told = next(&mut socket).await?;
        }
        // If its session cannot be read, the client continues in that of the new connection.
        if let Some(session) = told["data"]["session_id"].as_str() {
            self.session = Some(session.to_owned());
        }
        Ok(socket)
    }
}

impl Client for TextClient {
    const KIND: Kind = Kind::Text;

    async fn turn(&mut self) -> Result<Came, String> {
        let begun = Instant::now();
        let mut socket = match self.socket.take() {
            Some(socket) => socket,
            None => self.connect().await?,
        };
        self.said += 1;
        let text = format!("text {}", self.said);
        send(&mut socket, json!({"type": "text_input", "text": text})).await?;
        let outcome = loop {
            let told = next(&mut socket).await?;
            match told["type"].as_str() {
                Some("error") => break Outcome::Apologised,
                Some("llm_response") if told["content"] == format!("You said {text}") => {
                    break Outcome::Answered;
                }
                Some("llm_response") => break Outcome::Damaged,
                _ => {}
            }
        };
        self.socket = Some(socket);
        Ok((outcome, begun.elapsed()))
    }

    fn leave(&mut self) {
        self.socket = None;
    }
}

/// A session of an application, with each message and its answer.
struct Talk {
    session: String,
    answered: Vec<(String, String)>,
}

/// An application that repeats each message with the same key until it is answered.
pub(super) struct Application {
    base: String,
    http: reqwest::Client,
    talks: Vec<Talk>,
    key: String,
}

impl Application {
    pub(super) fn new(base: String) -> Self {
        Self { base, http: reqwest::Client::new(), talks: Vec::new(), key: new_key() }
    }

    /// Sends a request; `None` if it was refused.
    async fn ask(&self, path: &str, body: Value) -> Result<Option<Value>, String> {
        let request = self.http.post(format!("{}{path}", self.base)).json(&body);
        let request = request.header("Idempotency-Key", &self.key);
        let answer = request.send().await.map_err(|error| format!("no answer: {error:?}"))?;
        let status = answer.status().as_u16();
        let body = answer.text().await.map_err(|error| format!("half an answer: {error}"))?;
        match status {
            200 | 201 => serde_json::from_str(&body).map(Some).map_err(|e| format!("{e}: {body}")),
            409 | 429 | 500..=599 => Ok(None),
            _ => Err(format!("status {status}: {body}")),
        }
    }

    /// The number of answered messages.
    pub(super) fn answered(&self) -> usize {
        self.talks.iter().map(|talk| talk.answered.len()).sum()
    }

    /// Checks that the store has each answered message once and in order.
    pub(super) async fn check(&self) {
        for Talk { session, answered } in &self.talks {
            let stored = kept(&self.http, &self.base, session).await;
            let pair = |(said, answer): &(String, String)| {
                [("user".to_owned(), said.clone()), ("assistant".to_owned(), answer.clone())]
            };
            let wanted: Vec<_> = answered.iter().flat_map(pair).collect();
            assert_eq!(stored, wanted, "session {session}");
        }
    }
}

fn new_key() -> String {
    uuid::Uuid::new_v4().to_string()
}

impl Client for Application {
    const KIND: Kind = Kind::Application;

    async fn turn(&mut self) -> Result<Came, String> {
        let begun = Instant::now();
        if self.talks.last().is_none_or(|talk| talk.answered.len() >= MOST_IN_A_SESSION) {
            let wanted = json!({"name": "endurance", "creator_id": "application"});
            let Some(made) = self.ask("/api/sessions", wanted).await? else {
                return Ok((Outcome::Refused, begun.elapsed()));
            };
            let session = made["session_id"].as_str().unwrap().to_owned();
            self.talks.push(Talk { session, answered: Vec::new() });
        }
        let talk = self.talks.last().unwrap();
        let text = format!("message {}", talk.answered.len());
        let path = format!("/api/sessions/{}/chat", talk.session);
        let Some(told) = self.ask(&path, json!({"message": text})).await? else {
            return Ok((Outcome::Refused, begun.elapsed()));
        };
        let answer = told["response"].as_str().unwrap().to_owned();
        let whole = answer == format!("You said {text}");
        self.talks.last_mut().unwrap().answered.push((text, answer));
        self.key = new_key();
        Ok((if whole { Outcome::Answered } else { Outcome::Damaged }, begun.elapsed()))
    }

    fn leave(&mut self) {}
}
