//! Rules of the device as a pure state machine without sockets and clock: events and times are
//! inputs, messages to send and observed facts are outputs. Not for the differences between
//! versions ([`super::profile`]), for the wording of messages (`uplink.rs`), nor for sockets
//! ([`super::socket`]).
//!
//! - Downlink audio is accepted only while speaking; at any other time it is dropped silently.
//! - `tts start` clears the decode queue, but only one turn of the main loop later.
//! - The microphone is closed while speaking, except in realtime mode.
//! - In auto mode `listen start` follows `tts stop`, once everything has been played.
//! - A wake word in idle sends the last two seconds heard, `listen detect` and `listen start`.
//!
//! Stricter than the boards: there, two decoded packets and the one in the loudspeaker's driver are
//! not affected by clearing the queue; here they are dropped and cut.
//!
//! Source of the rules: 78/xiaozhi-esp32, `main/application.cc` and `main/device_state_machine.cc`.

mod messages;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use hearken_proto::device::{AudioPacket, AudioParams, Framing, ListenMode};

use super::events::note;
pub use super::events::{DeviceState, Event, Fact, Loss, Note, Output};
use super::outbox::Outbox;
use super::playback::Playback;
use super::profile::{Build, Profile, Tools};
use super::tool_server::{Deferred, DeviceToolServer, Outcome};
use super::toolbox::{Board, Toolbox};
use super::uplink;

/// Delay between `tts start` and the clearing of the queue: one turn of the firmware's main loop.
pub const LOOP_TURN: Duration = Duration::from_millis(10);
/// Longest wait for the server's hello.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without a message after which the socket counts as closed, when it is needed next.
pub const CHANNEL_IDLE: Duration = Duration::from_secs(120);
/// Duration of a reboot; a guess.
pub const REBOOT: Duration = Duration::from_secs(5);
/// Number of packets of 60 ms that are stored while idle: two seconds before the wake word.
pub const PRE_WAKE_PACKETS: usize = 33;

/// One virtual device.
#[derive(Debug)]
pub struct Firmware {
    pub(super) profile: Profile,
    pub(super) build: Build,
    pub(super) mode: ListenMode,
    framing: Framing,
    hello: String,
    pub(super) state: DeviceState,
    pub(super) socket_open: bool,
    pub(super) session_id: String,
    pub(super) wake_word: Option<String>,
    /// Audio recorded while idle, for the next wake word.
    pub(super) pre_wake: VecDeque<Bytes>,
    hello_deadline: Option<Duration>,
    pub(super) last_incoming: Duration,
    clear_at: Option<Duration>,
    /// Set after `tts stop` in auto mode: listening starts when everything was played.
    pub(super) listen_when_empty: bool,
    /// Set after an interruption, until a new reply starts.
    pub(super) interrupted: bool,
    booted_at: Duration,
    playback: Playback,
    pub(super) outbox: Outbox,
    pub(super) serving: DeviceToolServer,
}

impl Firmware {
    /// Creates a device that has just booted. `framing` is the wanted version of the binary header;
    /// old firmware supports only 1.
    pub fn new(profile: Profile, mode: ListenMode, framing: u32, uplink: &AudioParams) -> Self {
        Self::built(profile, Build::default(), mode, framing, uplink)
    }

    /// Creates a device with these build options.
    pub fn built(
        profile: Profile,
        build: Build,
        mode: ListenMode,
        framing: u32,
        audio: &AudioParams,
    ) -> Self {
        let tools = build.tools.unwrap_or(profile.tools);
        let framing = framing.min(profile.newest_framing);
        let hello = uplink::hello(&profile, &build, tools, framing, audio);
        let longest = Duration::from_millis(60);
        Self {
            playback: Playback::new(profile.decode_queue_packets, longest),
            outbox: Outbox::new(profile.send_queue_packets, profile.send_queue_drops),
            serving: DeviceToolServer::new(&profile, tools, Toolbox::default()),
            profile,
            build,
            mode,
            framing: Framing::from_version(framing),
            hello,
            state: DeviceState::Idle,
            socket_open: false,
            session_id: String::new(),
            wake_word: None,
            pre_wake: VecDeque::new(),
            hello_deadline: None,
            last_incoming: Duration::ZERO,
            clear_at: None,
            listen_when_empty: false,
            interrupted: false,
            booted_at: Duration::ZERO,
        }
    }

    /// Sets the tools.
    #[must_use]
    pub fn with_tools(mut self, toolbox: Toolbox) -> Self {
        self.serving = DeviceToolServer::new(&self.profile, self.tools(), toolbox);
        self
    }

    /// Returns the state of the board, which tools change.
    pub fn board(&self) -> &Board {
        &self.serving.board
    }

    /// Returns the state after the last event.
    pub fn state(&self) -> DeviceState {
        self.state
    }

    /// Returns the side that decides when the person has finished.
    pub fn mode(&self) -> ListenMode {
        self.mode
    }

    /// Returns the layout of the binary frames.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Returns the protocol by which it offers its tools.
    pub fn tools(&self) -> Tools {
        self.build.tools.unwrap_or(self.profile.tools)
    }

    /// Returns the number of accepted packets whose playback has not started.
    pub fn waiting(&self) -> usize {
        self.playback.waiting()
    }

    /// Returns true while its socket is open.
    pub fn is_connected(&self) -> bool {
        self.socket_open
    }

    /// Returns true while packets of the microphone are sent.
    pub fn microphone_open(&self) -> bool {
        match self.state {
            DeviceState::Listening => !self.listen_when_empty,
            DeviceState::Speaking => self.mode == ListenMode::Realtime,
            DeviceState::Idle | DeviceState::Connecting => false,
        }
    }

    /// Returns the next time at which the state changes without an event.
    pub fn due(&self) -> Option<Duration> {
        let dues = [self.playback.due(), self.clear_at, self.hello_deadline, self.serving.due()];
        dues.into_iter().flatten().min()
    }

    /// Advances the time to `now`, then processes the event.
    pub fn step(&mut self, now: Duration, event: Event) -> Vec<Output> {
        let mut out = Vec::new();
        self.pass_time(now, &mut out);
        if event.waits_for_main_loop() && self.serving.busy() {
            self.serving.defer(event);
        } else {
            self.happen(now, event, &mut out);
        }
        self.work(now, &mut out);
        out
    }

    fn happen(&mut self, now: Duration, event: Event, out: &mut Vec<Output>) {
        let asleep = now < self.booted_at;
        match event {
            Event::Wake { word } if !asleep => self.wake(now, word, out),
            Event::Button if !asleep => self.button(now, out),
            Event::TalkPressed if !asleep => self.talk_pressed(now, out),
            Event::TalkReleased if self.state == DeviceState::Listening => {
                let stop = uplink::listen_stop(&self.session_id);
                self.send(now, stop, out);
                self.enter(now, DeviceState::Idle, out);
            }
            Event::Microphone(opus) => self.hear(now, opus, out),
            Event::SocketOpen => self.socket_opened(now, out),
            Event::SocketClosed => self.socket_closed(now, out),
            Event::SocketBlocked => self.outbox.block(),
            Event::SocketReady => self.outbox.unblock(out),
            Event::Text(text) => {
                self.last_incoming = now;
                messages::receive(self, now, &text, out);
            }
            Event::Binary(frame) => {
                self.last_incoming = now;
                self.audio(now, &frame, out);
            }
            Event::Uploaded(answer) => self.serving.uploaded(now, answer),
            Event::Wake { .. }
            | Event::Button
            | Event::TalkPressed
            | Event::TalkReleased
            | Event::Nothing => {}
        }
    }

    /// Runs the main loop: jobs of its tools, and then the events that were queued meanwhile.
    fn work(&mut self, now: Duration, out: &mut Vec<Output>) {
        for outcome in self.serving.pass_time(now) {
            match outcome {
                Outcome::Answer(payload) => {
                    self.outbox.release(out);
                    let answer = uplink::mcp(&self.session_id, &payload);
                    self.send(now, answer, out);
                }
                Outcome::Upload(upload) => out.push(Output::Upload(upload)),
                Outcome::Called(call) => note(out, now, Fact::ToolCalled(call)),
                Outcome::Reboot => self.reboot(now, out),
            }
        }
        if self.serving.busy() {
            self.outbox.hold();
            return;
        }
        self.outbox.release(out);
        for waited in self.serving.take_deferred() {
            match waited {
                Deferred::Event(event) => self.happen(now, event, out),
                Deferred::Message(message) => {
                    messages::execute(self, now, &message, out);
                }
            }
        }
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
        self.work(now, out);
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

    pub(super) fn begin_listening(&mut self, now: Duration, out: &mut Vec<Output>) {
        if let Some(word) = self.wake_word.take() {
            for opus in std::mem::take(&mut self.pre_wake) {
                self.send_audio(now, opus, 0, out);
            }
            let detect = uplink::listen_detect(&self.session_id, &word);
            self.send(now, detect, out);
        }
        self.pre_wake.clear();
        self.listen(now, false, out);
    }

    /// Starts to listen. With `reopen`, opens the microphone again even if it is already open.
    pub(super) fn listen(&mut self, now: Duration, reopen: bool, out: &mut Vec<Output>) {
        let open = self.state == DeviceState::Speaking && self.mode == ListenMode::Realtime;
        self.clear_at = None;
        self.listen_when_empty = false;
        self.enter(now, DeviceState::Listening, out);
        if self.profile.takes_audio_always {
            self.drop_audio(now, out);
        }
        if let Some(states) = self.serving.states(&self.session_id) {
            self.send(now, states, out);
        }
        if open && !reopen {
            return;
        }
        let plays_out = self.profile.plays_out_before_listening && self.mode == ListenMode::Auto;
        if plays_out && !self.playback.is_empty() {
            self.listen_when_empty = true;
        } else {
            self.open_microphone(now, out);
        }
    }

    pub(super) fn open_microphone(&mut self, now: Duration, out: &mut Vec<Output>) {
        let start = uplink::listen_start(&self.session_id, self.mode);
        self.send(now, start, out);
        note(out, now, Fact::MicrophoneOpen);
        self.drop_audio(now, out);
    }

    /// Drops the audio that has not been played.
    pub(super) fn drop_audio(&mut self, now: Duration, out: &mut Vec<Output>) {
        let loss = if self.interrupted { Loss::Interrupted } else { Loss::TailCut };
        let mut notes = Vec::new();
        self.playback.clear(now, loss, &mut notes);
        out.extend(notes.into_iter().map(Output::Note));
    }

    fn hear(&mut self, now: Duration, opus: Bytes, out: &mut Vec<Output>) {
        if self.microphone_open() {
            let timestamp_ms =
                if self.build.server_aec { self.playback.next_timestamp() } else { 0 };
            self.send_audio(now, opus, timestamp_ms, out);
        } else if self.state == DeviceState::Idle && now >= self.booted_at {
            if self.pre_wake.len() >= PRE_WAKE_PACKETS {
                self.pre_wake.pop_front();
            }
            self.pre_wake.push_back(opus);
        }
    }

    fn socket_opened(&mut self, now: Duration, out: &mut Vec<Output>) {
        self.socket_open = true;
        self.outbox.reset();
        self.last_incoming = now;
        self.hello_deadline = Some(now + HELLO_TIMEOUT);
        self.send(now, self.hello.clone(), out);
    }

    pub(super) fn socket_closed(&mut self, now: Duration, out: &mut Vec<Output>) {
        let mut notes = Vec::new();
        self.playback.clear(now, Loss::SocketClosed, &mut notes);
        out.extend(notes.into_iter().map(Output::Note));
        self.socket_open = false;
        self.outbox.reset();
        self.wake_word = None;
        self.pre_wake.clear();
        self.hello_deadline = None;
        self.clear_at = None;
        self.listen_when_empty = false;
        self.interrupted = false;
        self.enter(now, DeviceState::Idle, out);
    }

    fn audio(&mut self, now: Duration, frame: &Bytes, out: &mut Vec<Output>) {
        note(out, now, Fact::PacketReceived);
        // Firmware trusts the header's length and ignores its type.
        let Ok(packet) = self.framing.decode(frame) else {
            note(out, now, Fact::Offence("the header of a binary frame and its length disagree"));
            note(out, now, Fact::PacketLost(Loss::Malformed));
            return;
        };
        let mut notes = Vec::new();
        let silenced = self.interrupted && self.profile.abort_silences;
        let taken = match self.state {
            DeviceState::Speaking => true,
            DeviceState::Idle | DeviceState::Connecting => self.profile.takes_audio_always,
            DeviceState::Listening => false,
        };
        if !taken {
            notes.push(Note { at: now, fact: Fact::PacketLost(Loss::NotSpeaking) });
        } else if silenced {
            notes.push(Note { at: now, fact: Fact::PacketLost(Loss::Interrupted) });
        } else {
            self.playback.push(now, packet, &mut notes);
        }
        out.extend(notes.into_iter().map(Output::Note));
    }

    /// Processes the server's hello: the conversation may start.
    pub(super) fn server_hello(
        &mut self,
        now: Duration,
        session_id: Option<&str>,
        audio: &AudioParams,
        out: &mut Vec<Output>,
    ) {
        if let Some(id) = session_id.filter(|_| self.profile.copies_session_id) {
            id.clone_into(&mut self.session_id);
        }
        self.hello_deadline = None;
        self.playback.set_longest(Duration::from_millis(audio.frame_duration.into()));
        note(out, now, Fact::Hello(audio.clone()));
        if self.state == DeviceState::Connecting {
            for thing in self.serving.describe(&self.session_id) {
                self.send(now, thing, out);
            }
            self.begin_listening(now, out);
        }
    }

    /// Processes `tts start`.
    pub(super) fn speak(&mut self, now: Duration, out: &mut Vec<Output>) {
        self.interrupted = false;
        if matches!(self.state, DeviceState::Idle | DeviceState::Listening) {
            self.listen_when_empty = false;
            self.playback.expect_no_more();
            self.clear_at = Some(now + LOOP_TURN);
            self.enter(now, DeviceState::Speaking, out);
        } else if self.state == DeviceState::Connecting {
            note(out, now, Fact::Offence("tts start while connecting is ignored"));
        }
    }

    /// Processes `tts stop`.
    pub(super) fn stop_speaking(&mut self, now: Duration, out: &mut Vec<Output>) {
        if self.state != DeviceState::Speaking {
            return;
        }
        self.playback.expect_no_more();
        match self.mode {
            ListenMode::Manual => self.enter(now, DeviceState::Idle, out),
            ListenMode::Realtime | ListenMode::Auto => self.listen(now, false, out),
        }
    }

    /// Processes a message that crashes firmware of this profile.
    pub(super) fn missing_tts_state(&mut self, now: Duration, out: &mut Vec<Output>) {
        note(out, now, Fact::Offence("a tts message needs `state`"));
        if self.profile.crashes_without_tts_state {
            self.reboot(now, out);
        }
    }

    /// Restarts the device, by order or after a crash: the socket is dropped.
    pub(super) fn reboot(&mut self, now: Duration, out: &mut Vec<Output>) {
        note(out, now, Fact::Rebooting);
        out.push(Output::Disconnect);
        self.socket_closed(now, out);
        self.serving.reset();
        self.session_id.clear();
        self.booted_at = now + REBOOT;
    }

    pub(super) fn enter(&mut self, now: Duration, state: DeviceState, out: &mut Vec<Output>) {
        if self.state != state {
            self.state = state;
            note(out, now, Fact::State(state));
        }
    }

    pub(super) fn send(&mut self, now: Duration, text: String, out: &mut Vec<Output>) {
        if self.socket_open && !self.outbox.text(text, out) {
            note(out, now, Fact::UplinkDropped);
        }
    }

    fn send_audio(&mut self, now: Duration, opus: Bytes, timestamp_ms: u32, out: &mut Vec<Output>) {
        let framed = self.framing.encode(&AudioPacket { opus, timestamp_ms });
        if self.socket_open && !self.outbox.audio(framed, out) {
            note(out, now, Fact::UplinkDropped);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
