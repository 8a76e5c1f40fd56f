//! Every message between actors: from, to, lane, how often. No behaviour. Control messages go
//! through mailboxes; data goes through bounded lanes, so that it cannot bury control.
//!
//! ```text
//! DeviceActor --UplinkItem--> VadActor --OpenUtterance--> AsrActor --Heard--> SessionActor
//!      ^  \______StartTurn, PlaybackEnded___________________________________/    |
//!      |________________________ PlaybackItem _____ TtsActor <---StartSpeaking---|
//!
//! DeviceActor --DeviceSaid--> McpHostActor --DeviceOrder--> DeviceActor
//!                             McpHostActor --ToolsKnown--> SessionActor
//! ```

use actix::Message;
use bytes::Bytes;
use hearken_proto::device::{Downlink, Emotion, Features, IotReport, ListenMode};
use hearken_proto::fault::Fault;
use hearken_proto::ids::TurnId;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::audio::playout::PlayedBack as HeardPart;
use crate::dialogue::phrases::Language;
use crate::dialogue::{Turn, TurnEvent, TurnInput};
use crate::ports::{ProviderError, Transcript};
use crate::utterance_channel::PieceReceiver;

/// DeviceActor -> VadActor, data lane, up to 50 a second. Listening orders travel among the
/// packets, so that none is overtaken by the audio that it concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UplinkItem {
    /// One Opus packet, header stripped.
    Packet(Bytes),
    /// The microphone opened.
    ListenStart(ListenMode),
    /// The microphone closed.
    ListenStop,
    /// What was heard so far is not for us (wake word, our own voice).
    Forget,
    /// Our own voice plays from here on, or has ended, while the microphone is open.
    Speaking(bool),
}

/// VadActor -> DeviceActor, control, once an utterance.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct SpeechStarted {
    /// The turn that begins with this utterance.
    pub turn: Turn,
    /// How many [`UplinkItem::Forget`] came before it: one that is under way concerns it too.
    pub forgets: u64,
}

/// VadActor -> DeviceActor, control, once an utterance.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct SpeechEnded {
    /// The turn whose utterance ended.
    pub turn: TurnId,
}

/// VadActor -> AsrActor, control, once an utterance.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct OpenUtterance {
    /// Whose utterance it is; cut means abandoned.
    pub turn: Turn,
    /// Its audio, 16 kHz mono; closed when the person has finished.
    pub audio: PieceReceiver,
}

/// AsrActor -> SessionActor, control, once an utterance.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct UtterancePlayed {
    /// Whose utterance it was.
    pub turn: Turn,
    /// What was said; an empty text where there were no words.
    pub outcome: Result<Transcript, RecognitionFailure>,
}

/// Why it is not known what was said.
#[derive(Debug)]
pub enum RecognitionFailure {
    /// There is no time to answer it.
    Busy,
    /// The recogniser failed.
    Failed(ProviderError),
}

/// SessionActor -> DeviceActor, control, at most once a turn.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Transcribed {
    /// The turn; live, or continued by the live one.
    pub turn: Turn,
    /// What the person said.
    pub text: String,
}

/// SessionActor -> DeviceActor, control: the turn ended without anything to answer.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct NothingRecognised {
    /// The turn.
    pub turn: TurnId,
}

/// DeviceActor -> SessionActor, control: begin a turn that did not come from speech.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct StartTurn {
    /// The turn.
    pub turn: Turn,
    /// What it answers.
    pub input: TurnInput,
}

/// Roster or McpHostActor -> DeviceActor, control: something from outside the conversation. Sent by
/// `try_send`, so that the mailbox bounds it.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub enum DeviceOrder {
    /// Send this message; never one of `tts`, which belong to turns.
    Send(Downlink),
    /// Speak this when no turn is live.
    Say(String),
    /// Tell the device why, and close.
    Leave(Fault),
}

/// DeviceActor -> McpHostActor, control: what concerns the device's tools. Sent by `try_send`, so
/// that the mailbox bounds it.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub enum DeviceSaid {
    /// It has said hello, and what it can do.
    Hello(Features),
    /// A JSON-RPC message of its MCP server.
    Mcp(Value),
    /// Things that it has, or how they are.
    Iot(IotReport),
}

/// McpHostActor -> SessionActor, control: the device has told its tools, so that what its prompts
/// begin with is known.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct ToolsKnown;

/// SessionActor -> TtsActor, control, once a turn.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct StartSpeaking {
    /// The turn.
    pub turn: Turn,
    /// What to say, as it is thought of.
    pub events: mpsc::Receiver<TurnEvent>,
    /// The language of an apology.
    pub language: Language,
}

/// TtsActor -> DeviceActor, data lane, about 17 a second while speaking.
#[derive(Debug, Clone)]
pub struct PlaybackItem {
    /// Whose playback; items of a turn that is no longer live are dropped.
    pub turn: TurnId,
    /// When it was to leave.
    pub due: Instant,
    /// What happens.
    pub step: PlaybackStep,
}

/// One step of a turn's playback, in the order of the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaybackStep {
    /// The face to show.
    Emotion(Emotion),
    /// The device goes to speaking.
    Start,
    /// A sentence's audio follows.
    SentenceStart(String),
    /// One Opus packet, due now.
    Packet(Bytes),
    /// All packets of the sentence have been sent.
    SentenceEnd(String),
    /// No more packets of the sentence come: its synthesis failed.
    SentenceBroken(String),
    /// The rest of the answer is given up: sentences that follow are none of it.
    GivenUp,
    /// Everything has been played.
    Stop,
}

/// DeviceActor -> SessionActor, control, once a turn that was answered.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct PlaybackEnded {
    /// The turn.
    pub turn: TurnId,
    /// How much was heard.
    pub heard: HeardPart,
    /// The person went on speaking before anything was heard: the words of this turn will be
    /// answered together with what comes. Otherwise no words up to this turn are to be answered
    /// any more.
    pub continued: bool,
}
