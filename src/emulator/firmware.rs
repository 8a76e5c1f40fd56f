//! The device's rules as a pure state machine: no sockets, no clock. Events and the time go in,
//! messages to send and observed facts come out. Not for what versions do differently
//! ([`super::profile`]) nor for sockets ([`super::socket`]).
//!
//! - Downlink audio is taken only while speaking; at any other time it is dropped in silence.
//! - `tts start` clears the decode queue, but only one turn of the main loop later.
//! - The microphone is closed while speaking, except in realtime mode.
//! - In auto mode `listen start` follows `tts stop`, once everything has been played.
//!
//! Rules as read in 78/xiaozhi-esp32, `main/application.cc` and `main/device_state_machine.cc`.

use std::time::Duration;

use bytes::Bytes;
use hearken_proto::device::{AudioParams, ListenMode};
use serde_json::{Value, json};

use super::playback::Playback;
use super::profile::Profile;

/// From `tts start` to the clearing of the queue: one turn of the firmware's main loop.
pub const LOOP_TURN: Duration = Duration::from_millis(10);
/// The device gives up when no hello comes back within this time.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// After this time without a message the socket counts as closed, when next needed.
pub const CHANNEL_IDLE: Duration = Duration::from_secs(120);

/// State of the device, as its screen would show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Waits for a wake word or a button.
    Idle,
    /// Opens the socket and waits for the server's hello.
    Connecting,
    /// The microphone is open.
    Listening,
    /// The loudspeaker plays.
    Speaking,
}

/// What happens to the device.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A person says the wake word (auto and realtime), with the text that firmware reports.
    Wake {
        /// Sent as `listen detect` where present.
        word: Option<String>,
    },
    /// A person presses the button: starts, interrupts or ends a conversation.
    Button,
    /// A person presses the push-to-talk button (manual).
    TalkPressed,
    /// A person lets go of the push-to-talk button.
    TalkReleased,
    /// The microphone has heard this packet.
    Microphone(Bytes),
    /// The socket is open.
    SocketOpen,
    /// The socket is gone.
    SocketClosed,
    /// A text frame from the server.
    Text(String),
    /// A packet from the server, without its header.
    Audio(Bytes),
    /// Nothing but that time has passed.
    Nothing,
}

/// What the device wants done, or what a watcher may want to know.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Open the socket.
    Connect,
    /// Drop the socket without a close frame, as firmware does.
    Disconnect,
    /// Send this JSON.
    Send(Value),
    /// Send this packet.
    SendAudio(Bytes),
    /// Something was observed.
    Note(Note),
}

/// A fact and when it was so.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// Time on the device's clock.
    pub at: Duration,
    /// The fact.
    pub fact: Fact,
}

/// What can be observed.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// The device changed its state.
    State(State),
    /// The server's hello came; the shape of its audio.
    Hello(AudioParams),
    /// No hello in time.
    HelloMissing,
    /// A text message came; the `type`, with the `state` of a `tts`, and its text if any.
    Message {
        /// For example `stt` or `tts start`.
        kind: String,
        /// Transcript, subtitle or emotion.
        text: Option<String>,
    },
    /// A packet came, whatever became of it.
    PacketReceived,
    /// A packet began to play.
    PacketPlayed {
        /// The packet.
        opus: Bytes,
        /// How long it plays.
        length: Duration,
    },
    /// A packet was never played.
    PacketLost(Loss),
    /// A packet was cut while it played.
    PacketCut {
        /// The part that nobody heard.
        unplayed: Duration,
    },
    /// The loudspeaker ran dry and played on only after this time.
    Gap {
        /// Length of the silence.
        length: Duration,
    },
    /// Nothing is left to play.
    PlaybackEmpty,
    /// The microphone opened.
    MicrophoneOpen,
    /// The message would have crashed or confused firmware.
    Offence(&'static str),
}

/// Why a packet was never played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The device was not speaking.
    NotSpeaking,
    /// The decode queue was full.
    QueueFull,
    /// It came in the same instant as `tts start`.
    ClearedAtStart,
    /// `tts stop` came before it was played.
    TailCut,
    /// Longer than the hello announced, so the decoder had no room.
    TooLong,
    /// The socket closed.
    SocketClosed,
}

/// One virtual device.
#[derive(Debug)]
pub struct Firmware {
    profile: Profile,
    mode: ListenMode,
    hello: Value,
    state: State,
    socket_open: bool,
    session_id: String,
    wake_word: Option<String>,
    hello_deadline: Option<Duration>,
    last_incoming: Duration,
    clear_at: Option<Duration>,
    /// `tts stop` came in auto mode; listening starts when all is played.
    listen_when_empty: bool,
    playback: Playback,
}

impl Firmware {
    /// A device that has just booted. `framing` is the version of the binary header.
    pub fn new(profile: Profile, mode: ListenMode, framing: u32, uplink: &AudioParams) -> Self {
        let hello = json!({
            "type": "hello", "version": framing, "transport": "websocket", "features": {},
            "audio_params": uplink,
        });
        let playback = Playback::new(profile.decode_queue_packets, Duration::from_millis(60));
        Self {
            profile,
            mode,
            hello,
            state: State::Idle,
            socket_open: false,
            session_id: String::new(),
            wake_word: None,
            hello_deadline: None,
            last_incoming: Duration::ZERO,
            clear_at: None,
            listen_when_empty: false,
            playback,
        }
    }

    /// The state as of the last event.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether packets of the microphone go out.
    pub fn microphone_open(&self) -> bool {
        match self.state {
            State::Listening => !self.listen_when_empty,
            State::Speaking => self.mode == ListenMode::Realtime,
            State::Idle | State::Connecting => false,
        }
    }

    /// When time alone will change something.
    pub fn due(&self) -> Option<Duration> {
        [self.playback.due(), self.clear_at, self.hello_deadline].into_iter().flatten().min()
    }

    /// Lets time pass to `now`, then lets the event happen.
    pub fn step(&mut self, now: Duration, event: Event) -> Vec<Output> {
        let mut out = Vec::new();
        self.pass_time(now, &mut out);
        match event {
            Event::Wake { word } => self.wake(now, word, &mut out),
            Event::Button => self.button(now, &mut out),
            Event::TalkPressed => self.talk_pressed(now, &mut out),
            Event::TalkReleased => {
                if self.state == State::Listening {
                    self.send(&mut out, json!({"type": "listen", "state": "stop"}));
                    self.enter(now, State::Idle, &mut out);
                }
            }
            Event::Microphone(opus) => {
                if self.microphone_open() {
                    out.push(Output::SendAudio(opus));
                }
            }
            Event::SocketOpen => {
                self.socket_open = true;
                self.last_incoming = now;
                self.hello_deadline = Some(now + HELLO_TIMEOUT);
                out.push(Output::Send(self.hello.clone()));
            }
            Event::SocketClosed => self.socket_closed(now, &mut out),
            Event::Text(text) => {
                self.last_incoming = now;
                super::messages::receive(self, now, &text, &mut out);
            }
            Event::Audio(opus) => {
                self.last_incoming = now;
                self.audio(now, opus, &mut out);
            }
            Event::Nothing => {}
        }
        out
    }

    fn pass_time(&mut self, now: Duration, out: &mut Vec<Output>) {
        let mut notes = Vec::new();
        if let Some(at) = self.clear_at.filter(|at| *at <= now) {
            self.clear_at = None;
            self.playback.advance(at, &mut notes);
            self.playback.clear(at, Loss::ClearedAtStart, &mut notes);
        }
        self.playback.advance(now, &mut notes);
        out.extend(notes.into_iter().map(Output::Note));
        if self.listen_when_empty && self.playback.is_empty() {
            self.listen_when_empty = false;
            self.open_microphone(now, out);
        }
        if self.hello_deadline.is_some_and(|at| at <= now) {
            self.hello_deadline = None;
            note(out, now, Fact::HelloMissing);
            out.push(Output::Disconnect);
            self.socket_closed(now, out);
        }
    }

    fn wake(&mut self, now: Duration, word: Option<String>, out: &mut Vec<Output>) {
        match self.state {
            State::Idle => {
                self.wake_word = word;
                self.start(now, out);
            }
            State::Connecting => {}
            State::Listening | State::Speaking => {
                self.send(out, json!({"type": "abort", "reason": "wake_word_detected"}));
                self.listen_at_once(now, out);
            }
        }
    }

    fn button(&mut self, now: Duration, out: &mut Vec<Output>) {
        match self.state {
            State::Idle => self.start(now, out),
            State::Connecting => {}
            State::Speaking => self.send(out, json!({"type": "abort"})),
            State::Listening => {
                out.push(Output::Disconnect);
                self.socket_closed(now, out);
            }
        }
    }

    fn talk_pressed(&mut self, now: Duration, out: &mut Vec<Output>) {
        match self.state {
            State::Idle => self.start(now, out),
            State::Speaking => {
                self.send(out, json!({"type": "abort"}));
                self.listen_at_once(now, out);
            }
            State::Connecting | State::Listening => {}
        }
    }

    /// From idle: over the open socket where it is still good, else over a new one.
    fn start(&mut self, now: Duration, out: &mut Vec<Output>) {
        if self.socket_open && now.saturating_sub(self.last_incoming) <= CHANNEL_IDLE {
            self.begin_listening(now, out);
            return;
        }
        if self.socket_open {
            self.socket_open = false;
            out.push(Output::Disconnect);
        }
        self.enter(now, State::Connecting, out);
        out.push(Output::Connect);
    }

    fn begin_listening(&mut self, now: Duration, out: &mut Vec<Output>) {
        if let Some(word) = self.wake_word.take() {
            self.send(out, json!({"type": "listen", "state": "detect", "text": word}));
        }
        self.enter(now, State::Listening, out);
        self.open_microphone(now, out);
    }

    /// The old reply is thrown away and the microphone opens.
    fn listen_at_once(&mut self, now: Duration, out: &mut Vec<Output>) {
        let mut notes = Vec::new();
        self.playback.clear(now, Loss::TailCut, &mut notes);
        out.extend(notes.into_iter().map(Output::Note));
        self.clear_at = None;
        self.listen_when_empty = false;
        self.enter(now, State::Listening, out);
        self.open_microphone(now, out);
    }

    fn open_microphone(&mut self, now: Duration, out: &mut Vec<Output>) {
        let mode = self.mode.as_str();
        self.send(out, json!({"type": "listen", "state": "start", "mode": mode}));
        note(out, now, Fact::MicrophoneOpen);
    }

    fn socket_closed(&mut self, now: Duration, out: &mut Vec<Output>) {
        let mut notes = Vec::new();
        self.playback.clear(now, Loss::SocketClosed, &mut notes);
        out.extend(notes.into_iter().map(Output::Note));
        self.socket_open = false;
        self.hello_deadline = None;
        self.clear_at = None;
        self.listen_when_empty = false;
        self.enter(now, State::Idle, out);
    }

    fn audio(&mut self, now: Duration, opus: Bytes, out: &mut Vec<Output>) {
        note(out, now, Fact::PacketReceived);
        let mut notes = Vec::new();
        if self.state == State::Speaking {
            self.playback.push(now, opus, &mut notes);
        } else {
            notes.push(Note { at: now, fact: Fact::PacketLost(Loss::NotSpeaking) });
        }
        out.extend(notes.into_iter().map(Output::Note));
    }

    /// The server's hello: the conversation may begin.
    pub(super) fn server_hello(
        &mut self,
        now: Duration,
        session_id: Option<&str>,
        audio: &AudioParams,
        out: &mut Vec<Output>,
    ) {
        if let Some(id) = session_id {
            id.clone_into(&mut self.session_id);
        }
        self.hello_deadline = None;
        self.playback.set_longest(Duration::from_millis(audio.frame_duration.into()));
        note(out, now, Fact::Hello(audio.clone()));
        if self.state == State::Connecting {
            self.begin_listening(now, out);
        }
    }

    /// `tts start`.
    pub(super) fn speak(&mut self, now: Duration, out: &mut Vec<Output>) {
        if matches!(self.state, State::Idle | State::Listening) {
            self.listen_when_empty = false;
            self.clear_at = Some(now + LOOP_TURN);
            self.enter(now, State::Speaking, out);
        } else if self.state == State::Connecting {
            note(out, now, Fact::Offence("tts start while connecting is ignored"));
        }
    }

    /// `tts stop`.
    pub(super) fn stop_speaking(&mut self, now: Duration, out: &mut Vec<Output>) {
        if self.state != State::Speaking {
            return;
        }
        if self.profile.stop_cuts_tail {
            let mut notes = Vec::new();
            self.playback.clear(now, Loss::TailCut, &mut notes);
            out.extend(notes.into_iter().map(Output::Note));
        } else {
            self.playback.expect_no_more();
        }
        match self.mode {
            ListenMode::Manual => self.enter(now, State::Idle, out),
            ListenMode::Realtime => self.enter(now, State::Listening, out),
            ListenMode::Auto => {
                self.enter(now, State::Listening, out);
                if self.playback.is_empty() {
                    self.open_microphone(now, out);
                } else {
                    self.listen_when_empty = true;
                }
            }
        }
    }

    /// A message that firmware of this profile does not survive.
    pub(super) fn missing_tts_state(&mut self, now: Duration, out: &mut Vec<Output>) {
        note(out, now, Fact::Offence("a tts message needs `state`"));
        if self.profile.crashes_without_tts_state {
            self.crash(now, out);
        }
    }

    /// The device reboots: the socket drops.
    pub(super) fn crash(&mut self, now: Duration, out: &mut Vec<Output>) {
        out.push(Output::Disconnect);
        self.socket_closed(now, out);
    }

    fn enter(&mut self, now: Duration, state: State, out: &mut Vec<Output>) {
        if self.state != state {
            self.state = state;
            note(out, now, Fact::State(state));
        }
    }

    /// Sends with the session id, as firmware copies it into each message.
    fn send(&self, out: &mut Vec<Output>, mut message: Value) {
        message["session_id"] = Value::String(self.session_id.clone());
        out.push(Output::Send(message));
    }
}

pub(super) fn note(out: &mut Vec<Output>, at: Duration, fact: Fact) {
    out.push(Output::Note(Note { at, fact }));
}
