//! Every message between actors: sender, receiver, transport and rate. No behaviour. Control
//! messages go through mailboxes. Data goes through bounded channels ("lanes"), so that it cannot
//! delay control messages.
//!
//! ```text
//! DeviceActor --UplinkItem--> VadActor -OpenUtterance-> AsrActor --SpeculativeTranscript, UtteranceRecognised--> SessionActor
//!      ^ ^\______StartTurn, PlaybackEnded____________________________________________/|   |
//!      | |__________________________________ Transcribed, NothingRecognised, Interrupted|   |
//!      |________________________ PlaybackItem _____________ TtsActor <---StartSpeaking---|
//!
//! AsrActor --PartialTranscript--> DeviceActor
//! DeviceActor --DeviceToolMessage--> McpHostActor --DeviceOrder--> DeviceActor
//!                             McpHostActor --ToolsListed--> SessionActor
//! ```

use std::sync::Arc;

use actix::Message;
use bytes::Bytes;
use hearken_audio::echo::SentPackets;
use hearken_audio::playout::PlayedBack as HeardPart;
use hearken_base::language::Language;
use hearken_base::memory_pool::Reserved;
use hearken_dialogue::{Turn, TurnEvent, TurnInput};
use hearken_ports::{ProviderError, Transcript};
use hearken_proto::device::{Downlink, Emotion, Features, IotReport, ListenMode};
use hearken_proto::fault::Fault;
use hearken_proto::ids::TurnId;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::utterance_channel::AudioReceiver;

/// Audio packet or listening order of a device. DeviceActor -> VadActor, data lane, up to 50 a
/// second. Both share one channel, so that no order overtakes the audio that it concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UplinkItem {
    /// One Opus packet, header stripped.
    Packet {
        /// The packet.
        opus: Bytes,
        /// Stamp of our packet that the device has played, if it leaves its echo to the server;
        /// else 0.
        played: u32,
    },
    /// The device leaves its echo to the server, and is sent these packets.
    CancelEcho(SentPackets),
    /// The device does not report which of these packets it has played, and may pick up their echo.
    GuardEcho(SentPackets),
    /// The microphone opened.
    ListenStart(ListenMode),
    /// The microphone closed.
    ListenStop,
    /// Discard the audio received so far: it was a wake word, or our own speech.
    Forget,
    /// The same, and the rest of the speech that it belongs to: the person has cancelled it.
    ForgetSpeech,
    /// Our own speech plays from here on (true), or has ended (false), while the microphone is
    /// open.
    Speaking(bool),
}

/// Notice that an utterance has started. VadActor -> DeviceActor, control, once per utterance.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct SpeechStarted {
    /// Turn that starts with this utterance.
    pub turn: Turn,
    /// Number of [`UplinkItem::Forget`] and [`UplinkItem::ForgetSpeech`] received before it. One
    /// that is still on its way discards this utterance too.
    pub forgets: u64,
}

/// Notice that an utterance has ended. VadActor -> DeviceActor, control, once per utterance.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct SpeechEnded {
    /// Turn of the utterance.
    pub turn: TurnId,
}

/// Start of an utterance, with the channel of its audio. VadActor -> AsrActor, control, once per
/// utterance.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct OpenUtterance {
    /// Turn of the utterance; cutting the turn abandons it.
    pub turn: Turn,
    /// Audio, 16 kHz mono; the channel is closed when the person has finished.
    pub audio: AudioReceiver,
}

/// Result of recognising an utterance. AsrActor -> SessionActor, control, once per utterance.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct UtteranceRecognised {
    /// Turn of the utterance.
    pub turn: Turn,
    /// Transcript; its text is empty if there were no words.
    pub outcome: Result<Transcript, RecognitionFailure>,
}

/// Words of the person in case they have finished with the current pause. AsrActor -> SessionActor,
/// control, up to twice in each pause of an utterance with a speculative answer.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct SpeculativeTranscript {
    /// Turn of the utterance.
    pub turn: Turn,
    /// Words until now; `None` if the person goes on, which makes the earlier words void.
    pub transcript: Option<Transcript>,
}

/// Reason for which an utterance has no transcript.
#[derive(Debug)]
pub enum RecognitionFailure {
    /// Admission control refused the turn.
    Busy,
    /// The recogniser failed.
    Failed(ProviderError),
}

/// Words of an utterance so far. AsrActor -> DeviceActor, control, after each packet of the
/// utterance that changes them; lost if the mailbox is full.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct PartialTranscript {
    /// Turn of the utterance.
    pub turn: TurnId,
    /// All words so far.
    pub text: String,
}

/// Transcript to send to the device. SessionActor -> DeviceActor, control, at most once per turn.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Transcribed {
    /// Turn of the words; it is live, or continued by the live one.
    pub turn: Turn,
    /// Words of the person.
    pub text: String,
}

/// End of a turn that has nothing to answer. SessionActor -> DeviceActor, control.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct NothingRecognised {
    /// The turn.
    pub turn: TurnId,
    /// True if its voice is ignored.
    pub is_ignored: bool,
}

/// Utterance that was recognised during the reply to another one, and may end it. SessionActor ->
/// DeviceActor, control. The response is true if its turn must start, because the reply ends.
#[derive(Debug, Clone, Message)]
#[rtype(result = "bool")]
pub struct Interrupted {
    /// Turn of the utterance.
    pub turn: Turn,
    /// Input that it answers.
    pub input: TurnInput,
}

/// Start of a turn that did not come from speech. DeviceActor -> SessionActor, control.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct StartTurn {
    /// The turn.
    pub turn: Turn,
    /// Input that the turn answers.
    pub input: TurnInput,
}

/// Order from outside the conversation. Device registry or McpHostActor -> DeviceActor, control.
/// Sent by `try_send`, so that the mailbox bounds it.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub enum DeviceOrder {
    /// Send this message; never one of `tts`, which belong to turns.
    Send(Downlink),
    /// Speak this when no turn is live.
    Say(String),
    /// Close the connection, with this fault as the reason.
    Leave(Fault),
}

/// Message of the device about its own tools. DeviceActor -> McpHostActor, control. Sent by
/// `try_send`, so that the mailbox bounds it.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub enum DeviceToolMessage {
    /// Features from its hello.
    Hello(Features),
    /// JSON-RPC message of its MCP server.
    Mcp(Reserved<Value>),
    /// Descriptions or states of its things.
    Iot(Reserved<IotReport>),
}

/// Notice that the device's tools are listed, so that the start of its prompts is known.
/// McpHostActor -> SessionActor, control.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct ToolsListed;

/// Start of a turn's speech. SessionActor -> TtsActor, control, once per turn.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct StartSpeaking {
    /// The turn.
    pub turn: Turn,
    /// Sentences and emotions, as the model produces them.
    pub events: mpsc::Receiver<TurnEvent>,
    /// Language of an apology.
    pub language: Language,
    /// Name of the voice; empty for the configured one.
    pub voice: Arc<str>,
}

/// Playback step of a turn. TtsActor -> DeviceActor, data lane, about 17 a second while speaking.
#[derive(Debug, Clone)]
pub struct PlaybackItem {
    /// Turn that is played; items of a turn that is no longer live are dropped.
    pub turn: TurnId,
    /// Time at which it was due to be sent.
    pub due: Instant,
    /// Step to carry out.
    pub step: PlaybackStep,
}

/// Step of a turn's playback, in the order of sending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaybackStep {
    /// Emotion to show.
    Emotion(Emotion),
    /// The device switches to speaking (`tts start`).
    Start,
    /// A sentence's audio follows.
    SentenceStart(String),
    /// One Opus packet, due now.
    Packet(Bytes),
    /// All packets of the sentence have been sent.
    SentenceEnd(String),
    /// No further packets of the sentence follow: its synthesis failed.
    SentenceBroken(String),
    /// The rest of the answer is abandoned: sentences that follow are not part of it.
    GivenUp,
    /// Speech goes on after an interruption: all sentences but the first `from` follow again.
    Resumed {
        /// Number of resumptions so far.
        count: u32,
        /// Number of sentences that are not repeated.
        from: usize,
    },
    /// Everything has been played.
    Stop,
}

/// End of a turn's playback. DeviceActor -> SessionActor, control, once per turn, except a turn
/// with nothing to answer.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct PlaybackEnded {
    /// The turn.
    pub turn: TurnId,
    /// Part of the answer that was played.
    pub heard: HeardPart,
    /// True if the person went on speaking before any of the answer was played: the words of this
    /// turn will be answered together with the next ones. Otherwise no words up to this turn are
    /// answered any more.
    pub continued: bool,
}
