//! Interface between the virtual device and its driver: events, outputs and observed facts. Not for
//! the rules, which are in [`super::firmware`].

use std::time::Duration;

use bytes::Bytes;
use hearken_proto::device::AudioParams;
use serde_json::{Map, Value};

/// State of the device, as shown on its screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceState {
    /// Waits for a wake word or a button.
    Idle,
    /// Opens the socket and waits for the server's hello.
    Connecting,
    /// The microphone is open.
    Listening,
    /// The loudspeaker plays.
    Speaking,
}

/// Event of the device.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A person says the wake word (auto and realtime).
    Wake {
        /// Word reported by `listen detect`, after the audio from before it; `None` for builds
        /// without `CONFIG_SEND_WAKE_WORD_DATA`, which only start to listen.
        word: Option<String>,
    },
    /// A person presses the button: starts, interrupts or ends a conversation.
    Button,
    /// A person presses the push-to-talk button (manual).
    TalkPressed,
    /// A person lets go of the push-to-talk button.
    TalkReleased,
    /// The microphone recorded this Opus packet.
    Microphone(Bytes),
    /// The socket is open.
    SocketOpen,
    /// The socket was closed.
    SocketClosed,
    /// The socket accepts no more data for now: the device queues its messages.
    SocketBlocked,
    /// The socket accepts messages again.
    SocketReady,
    /// A text frame from the server.
    Text(String),
    /// A binary frame from the server, with its header.
    Binary(Bytes),
    /// An upload ended, with the body of the response or the reason of its failure.
    Uploaded(Result<String, String>),
    /// Only time has passed.
    Nothing,
}

impl Event {
    /// Returns true if the event is processed only when the main loop is free.
    pub(super) fn waits_for_main_loop(&self) -> bool {
        matches!(self, Self::Wake { .. } | Self::Button | Self::TalkPressed | Self::TalkReleased)
    }
}

/// Picture to upload: a POST with a question and a JPEG file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// URL from the `initialize` request.
    pub url: String,
    /// Bearer token from the `initialize` request.
    pub token: Option<String>,
    /// Question about the picture.
    pub question: String,
}

/// Output of the device: an action to perform, or an observation.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Open the socket.
    Connect,
    /// Drop the socket without a close frame, as firmware does.
    Disconnect,
    /// Send this text frame. Not always JSON: firmware does not escape its strings.
    Text(String),
    /// Send this binary frame, header included.
    Binary(Bytes),
    /// Send a picture, then report [`Event::Uploaded`].
    Upload(Upload),
    /// Something was observed.
    Note(Note),
}

/// Fact with its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// Time on the device's clock.
    pub at: Duration,
    /// The fact.
    pub fact: Fact,
}

/// Observed fact.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// The device changed its state.
    State(DeviceState),
    /// The server's hello was received, with its audio format.
    Hello(AudioParams),
    /// No hello was received in time.
    HelloMissing,
    /// A text message was received.
    Message {
        /// Its `type`, with the `state` of a `tts` message: for example `stt` or `tts start`.
        kind: String,
        /// Transcript, subtitle or emotion.
        text: Option<String>,
    },
    /// A packet was received.
    PacketReceived,
    /// The playback of a packet started.
    PacketPlayed {
        /// The packet.
        opus: Bytes,
        /// Its playback time.
        length: Duration,
    },
    /// A packet was dropped without being played.
    PacketLost(Loss),
    /// A packet was cut during playback.
    PacketCut {
        /// Length of the part that was not played.
        unplayed: Duration,
        /// Reason of the loss.
        loss: Loss,
    },
    /// The playback queue was empty, and playback continued only after this time.
    Gap {
        /// Length of the silence.
        length: Duration,
    },
    /// The playback queue is empty.
    PlaybackEmpty,
    /// The microphone opened.
    MicrophoneOpen,
    /// The device reported an interruption to the server.
    Aborted,
    /// A microphone packet was dropped: the send queue was full.
    UplinkDropped,
    /// A wake word was ignored, because of a defect of this firmware.
    WakeLost,
    /// A tool of the device was called.
    ToolCalled(ToolUse),
    /// The device restarts.
    Rebooting,
    /// A message would have crashed or confused firmware.
    Offence(&'static str),
}

/// A call of one of the device's tools.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolUse {
    /// Name of the tool.
    pub name: String,
    /// Arguments as parsed by the device: checked, with defaults filled in.
    pub arguments: Map<String, Value>,
}

/// Reason why a packet was not played, or not to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The device was not speaking.
    NotSpeaking,
    /// The decode queue was full.
    QueueFull,
    /// It arrived in the same instant as `tts start`.
    ClearedAtStart,
    /// `tts stop` came before it was played.
    TailCut,
    /// The person had interrupted.
    Interrupted,
    /// It is longer than the hello announced, and the decoder had no room.
    TooLong,
    /// Its header does not match its length.
    Malformed,
    /// The socket closed.
    SocketClosed,
}

/// Adds a fact to the outputs.
pub(super) fn note(out: &mut Vec<Output>, at: Duration, fact: Fact) {
    out.push(Output::Note(Note { at, fact }));
}
