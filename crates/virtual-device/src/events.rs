//! The words between the virtual device and whoever drives it: what happens to it, what it wants
//! done, what was observed. Not for the rules, which are in [`super::firmware`].

use std::time::Duration;

use bytes::Bytes;
use hearken_proto::device::AudioParams;
use serde_json::{Map, Value};

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
    /// A person says the wake word (auto and realtime).
    Wake {
        /// Reported as `listen detect`, after the sound from before it; None for builds without
        /// `CONFIG_SEND_WAKE_WORD_DATA`, which only start to listen.
        word: Option<String>,
    },
    /// A person presses the button: starts, interrupts or ends a conversation.
    Button,
    /// A person presses the push-to-talk button (manual).
    TalkPressed,
    /// A person lets go of the push-to-talk button.
    TalkReleased,
    /// The microphone has heard this Opus packet.
    Microphone(Bytes),
    /// The socket is open.
    SocketOpen,
    /// The socket is gone.
    SocketClosed,
    /// The socket takes no more for now: what is sent waits in the device.
    SocketBlocked,
    /// The socket takes messages again.
    SocketReady,
    /// A text frame from the server.
    Text(String),
    /// A binary frame from the server, with its header.
    Binary(Bytes),
    /// A picture was sent, with this body as answer, or could not be, for this reason.
    Uploaded(Result<String, String>),
    /// Nothing but that time has passed.
    Nothing,
}

impl Event {
    /// Whether the main loop has to be free for it.
    pub(super) fn waits_for_main_loop(&self) -> bool {
        matches!(self, Self::Wake { .. } | Self::Button | Self::TalkPressed | Self::TalkReleased)
    }
}

/// A picture that the camera wants to send: a POST with a question and a JPEG file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// From the `initialize` request.
    pub url: String,
    /// Bearer token, from the same.
    pub token: Option<String>,
    /// What to say about the picture.
    pub question: String,
}

/// What the device wants done, or what a watcher may want to know.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Open the socket.
    Connect,
    /// Drop the socket without a close frame, as firmware does.
    Disconnect,
    /// Send this text frame. Not always JSON: firmware does not escape its strings.
    Text(String),
    /// Send this binary frame; the header is in it.
    Binary(Bytes),
    /// Send a picture, then report [`Event::Uploaded`].
    Upload(Upload),
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
        /// Why.
        loss: Loss,
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
    /// The device told the server that the person interrupts.
    Aborted,
    /// A packet of the microphone was never sent: the send queue was full.
    UplinkDropped,
    /// The person woke the device, which did nothing, by a fault of this firmware.
    WakeLost,
    /// A tool of the device was called.
    ToolCalled(ToolUse),
    /// The device restarts.
    Rebooting,
    /// The message would have crashed or confused firmware.
    Offence(&'static str),
}

/// A call of one of the device's tools.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolUse {
    /// The tool.
    pub name: String,
    /// As the device understood them: checked, and defaults filled in.
    pub arguments: Map<String, Value>,
}

/// Why a packet was never played, or not to its end.
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
    /// The person had interrupted.
    Interrupted,
    /// Longer than the hello announced, so the decoder had no room.
    TooLong,
    /// Its header and its length disagree.
    Malformed,
    /// The socket closed.
    SocketClosed,
}

/// Notes a fact.
pub(super) fn note(out: &mut Vec<Output>, at: Duration, fact: Fact) {
    out.push(Output::Note(Note { at, fact }));
}
