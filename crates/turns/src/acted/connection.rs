//! One device and its connection in virtual time: emulator, microphone, network and the server's
//! actors. Advances time until a condition holds. The script of the conversation is elsewhere.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actix_http::ws::Message;
use bytes::Bytes;
use hearken_actors::device::DeviceConnection;
use hearken_actors::pipeline::{AudioPool, Pipeline, Ports};
use hearken_actors::settings::PipelineSettings;
use hearken_audio::pcm;
use hearken_proto::device::{AudioParams, Framing, ListenMode};
use hearken_proto::ids::DeviceId;
use hearken_socket::testkit::{MemorySocket, Received};
use hearken_virtual_device::clock::Drift;
use hearken_virtual_device::dice::Dice;
use hearken_virtual_device::firmware::{DeviceState, Event, Firmware};
use hearken_virtual_device::network::Way;
use hearken_virtual_device::sound::UPLINK_RATE_HZ;
use hearken_virtual_device::virtual_device::{LinkAction, VirtualDevice};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::log::{Log, Seen, Sent, Tag};
use super::microphone::Microphone;
use super::{Scene, Sentence};
use crate::device::WAY;
use crate::manifest::Stretch;

/// Time for the actors to end after their connection.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// Message in transit.
struct Waiting<T> {
    at: Duration,
    what: T,
}

/// Connected device.
pub(super) struct Connection {
    epoch: Instant,
    pipeline: Pipeline,
    framing: Framing,
    device: VirtualDevice<Log>,
    microphone: Microphone,
    socket: Option<(Duration, MemorySocket)>,
    up_way: Way,
    down_way: Way,
    up: VecDeque<Waiting<Message>>,
    down: VecDeque<Waiting<(Received, Tag)>>,
    /// Texts of the reply's sentences.
    sentences: Vec<&'static str>,
    /// Tag of the server's next packet.
    next: Tag,
    /// Time of the server's last message, or the end of the last sound.
    last: Duration,
}

impl Connection {
    pub(super) fn new(
        scene: &Scene,
        settings: PipelineSettings,
        ports: Ports,
        dice: &mut Dice,
    ) -> Self {
        let audio = AudioParams::opus(UPLINK_RATE_HZ, 60);
        let profile = scene.profile.clone();
        let build = scene.build.clone();
        let firmware = Firmware::built(profile, build, ListenMode::Realtime, scene.framing, &audio);
        let framing = firmware.framing();
        let log = Log::new(scene.keeps_sound || scene.echo.is_some());
        let way = |dice: &mut Dice| Way::new(dice.fork(), WAY, scene.network.jitter);
        Self {
            epoch: Instant::now(),
            pipeline: Pipeline::new(
                ports,
                settings,
                AudioPool::current_thread(),
                CancellationToken::new(),
            ),
            framing,
            device: VirtualDevice::new(firmware, log, Drift::ppm(0)),
            microphone: Microphone::new(
                scene.noise,
                scene.echo.clone(),
                scene.seed,
                scene.keeps_sound,
            ),
            socket: None,
            up_way: way(dice),
            down_way: way(dice),
            up: VecDeque::new(),
            down: VecDeque::new(),
            sentences: scene.reply.iter().map(|Sentence { text, .. }| *text).collect(),
            next: Tag::default(),
            last: Duration::ZERO,
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    pub(super) fn log(&self) -> &Log {
        self.device.observer()
    }

    pub(super) fn state(&self) -> DeviceState {
        self.device.firmware().state()
    }

    pub(super) fn listens(&self) -> bool {
        self.device.firmware().microphone_open()
    }

    /// Returns how long the server has sent nothing and no sound has played.
    pub(super) fn quiet_for(&self) -> Duration {
        self.now().saturating_sub(self.last)
    }

    /// Plays a sound into the microphone from now on, and returns when it starts.
    pub(super) fn hear(&mut self, sound: Arc<[i16]>) -> Duration {
        let now = self.now();
        self.last = now + pcm::duration(sound.len(), UPLINK_RATE_HZ);
        self.microphone.begin(now, sound)
    }

    /// Passes an event to the device.
    pub(super) fn act(&mut self, event: Event) {
        let now = self.now();
        for action in self.device.at(now, event) {
            match action {
                LinkAction::Open => self.open(now),
                LinkAction::Text(text) => self.send(now, Message::Text(text.into())),
                LinkAction::Binary(bytes) => self.send(now, Message::Binary(bytes)),
                LinkAction::Drop => self.socket = None,
                LinkAction::Upload(_) => {}
            }
        }
    }

    fn open(&mut self, now: Duration) {
        let device_id = DeviceId::new("02:00:00:00:00:01");
        let connection = DeviceConnection::new(device_id, self.framing);
        self.socket = Some((now, MemorySocket::open(self.pipeline.device(connection), true)));
        self.act(Event::SocketOpen);
    }

    fn send(&mut self, now: Duration, what: Message) {
        let at = self.up_way.arrival(now);
        if matches!(what, Message::Binary(_)) {
            self.device.observer_mut().seen.heard.push((now, at));
        }
        self.up.push_back(Waiting { at, what });
    }

    /// Advances the time by this much.
    pub(super) async fn pass(&mut self, time: Duration) {
        let deadline = self.now() + time;
        self.until(deadline, |_| false).await;
    }

    /// Advances the time until `done` holds or the deadline is reached; returns whether it holds.
    pub(super) async fn until(&mut self, deadline: Duration, done: impl Fn(&Self) -> bool) -> bool {
        loop {
            self.catch_up();
            if done(self) {
                return true;
            }
            let now = self.now();
            if now >= deadline {
                return false;
            }
            let next = self.epoch + self.due().min(deadline).max(now);
            match &mut self.socket {
                Some((opened, socket)) => {
                    if let Some(sent) = socket.next_by(next).await {
                        let at = *opened + sent.at;
                        self.sent(at, sent.what);
                    }
                }
                None => tokio::time::sleep_until(next).await,
            }
        }
    }

    fn due(&self) -> Duration {
        let up = self.up.front().map(|up| up.at);
        let down = self.down.front().map(|down| down.at);
        let dues = [up, down, self.device.due(), Some(self.microphone.due())];
        dues.into_iter().flatten().min().unwrap_or(Duration::MAX)
    }

    /// Processes everything that is due by now.
    fn catch_up(&mut self) {
        let now = self.now();
        while let Some(up) = self.up.pop_front_if(|up| up.at <= now) {
            if let Some((_, socket)) = &self.socket {
                socket.send(up.what);
            }
        }
        while let Some(Waiting { what: (what, tag), .. }) =
            self.down.pop_front_if(|down| down.at <= now)
        {
            self.arrives(what, tag);
        }
        if self.device.due().is_some_and(|at| at <= now) {
            self.act(Event::Nothing);
        }
        while self.microphone.due() <= now {
            let opus: Bytes = self.microphone.hear(&self.device.observer().seen.sound);
            self.act(Event::Microphone(opus));
        }
    }

    fn arrives(&mut self, what: Received, tag: Tag) {
        match what {
            Received::Text(json) => self.act(Event::Text(json.to_string())),
            Received::Audio(frame) => {
                self.device.observer_mut().arriving = tag;
                self.act(Event::Binary(frame));
                self.device.observer_mut().arrived();
            }
            Received::Closed(_) | Received::Gone => {
                self.socket = None;
                self.act(Event::SocketClosed);
            }
        }
    }

    /// Records what the server has sent.
    fn sent(&mut self, at: Duration, what: Received) {
        self.last = self.last.max(at);
        let sent = match (what.name().as_str(), &what) {
            ("tts/start", _) => {
                self.next = Tag { reply: self.next.reply + 1, ..Tag::default() };
                Some(Sent::Start)
            }
            ("tts/sentence_start", _) => {
                let place = self.sentences.iter().position(|text| *text == what.text());
                self.next.sentence = place.unwrap_or(self.sentences.len());
                self.next.packet = 0;
                Some(Sent::Sentence(what.text().to_owned()))
            }
            ("tts/stop", _) => Some(Sent::Stop),
            ("stt", _) => Some(Sent::Transcript(what.text().to_owned())),
            (_, Received::Audio(_)) => Some(Sent::Packet(self.next)),
            _ => None,
        };
        let tag = self.next;
        self.next.packet += usize::from(matches!(sent, Some(Sent::Packet(_))));
        self.device.observer_mut().seen.sent.extend(sent.map(|sent| (at, sent)));
        let arrives = self.down_way.arrival(at);
        self.down.push_back(Waiting { at: arrives, what: (what, tag) });
    }

    /// Ends the connection, and returns its log.
    pub(super) async fn end(mut self, asked: Stretch, over: Option<Stretch>) -> Seen {
        self.socket = None;
        tokio::time::sleep(ENDS_WITHIN).await;
        let recorded = self.microphone.recorded.unwrap_or_default();
        let seen = self.device.into_observer().seen;
        Seen { asked, over, recorded, ..seen }
    }
}
