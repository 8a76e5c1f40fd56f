//! State of a device's socket: the connection, its links to the pipeline, timers and microphone,
//! and the live turn. No decisions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actix::{Addr, Recipient};
use hearken_audio::SpeakingSettings;
use hearken_audio::echo::SentPackets;
use hearken_audio::playout::{PlayedBack, Playout};
use hearken_base::memory_pool::PeerMemory;
use hearken_base::paced_log::PacedLog;
use hearken_base::slots::Slot;
use hearken_dialogue::Turn;
use hearken_dialogue::admission::Admission;
use hearken_dialogue::role::CurrentRole;
use hearken_ports::{RecordingSink, ToolSource};
use hearken_proto::device::{Framing, ListenMode};
use hearken_proto::ids::DeviceId;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::DeviceActor;
use crate::device_registry::DeviceRegistry;
use crate::interruption::InterruptionSettings;
use crate::messages::{DeviceToolMessage, PlaybackEnded, PlaybackItem, StartTurn, UplinkItem};
use crate::settings::DeviceSettings;

/// Channels and recipients that connect a socket to its pipeline, created once the actor has an
/// address.
pub struct PipelineHandles {
    /// To the VadActor.
    pub uplink: mpsc::Sender<UplinkItem>,
    /// To the SessionActor.
    pub start_turn: Recipient<StartTurn>,
    /// To the SessionActor.
    pub playback_ended: Recipient<PlaybackEnded>,
    /// To the McpHostActor.
    pub said: Recipient<DeviceToolMessage>,
    /// From the TtsActor.
    pub playback: mpsc::Receiver<PlaybackItem>,
    /// Tools of the device.
    pub tools: Arc<dyn ToolSource>,
}

/// Function that starts the other actors of a connection, given the address of its socket.
pub type StartPipeline = Box<dyn FnOnce(&Addr<DeviceActor>) -> PipelineHandles>;

/// Identity of a connection, its recording and its notice.
pub struct DeviceConnection {
    /// Id from the handshake, or generated if absent.
    pub device_id: DeviceId,
    /// Framing from the handshake's `Protocol-Version`.
    pub framing: Framing,
    /// Version of its firmware, if known.
    pub firmware: Option<Arc<str>>,
    /// Recorder of every frame, if recording is on.
    pub sink: Option<Box<dyn RecordingSink>>,
    /// Notice to speak instead of a conversation: the audio of a device with a notice is ignored.
    pub notice: Option<String>,
    /// True if the device may use the tools of the household and speaker recognition; otherwise it
    /// only has its own tools.
    pub household: bool,
    /// Connection slot; released when the actor is dropped.
    pub slot: Option<Slot>,
    /// Cancelled when the device is ordered to leave. The order itself reaches the actor only while
    /// the device reads.
    pub ended: CancellationToken,
}

impl DeviceConnection {
    /// Creates a connection that is not recorded and has no notice.
    pub fn new(device_id: DeviceId, framing: Framing) -> Self {
        Self {
            device_id,
            framing,
            firmware: None,
            sink: None,
            notice: None,
            household: true,
            slot: None,
            ended: CancellationToken::new(),
        }
    }

    /// Returns the memory of the device.
    pub(crate) fn memory(&self) -> PeerMemory {
        self.slot.as_ref().map(|slot| slot.memory().clone()).unwrap_or_default()
    }
}

/// Settings and shared parts of a device's socket.
#[derive(Clone)]
pub struct DeviceRules {
    /// Timers and wake words.
    pub device: DeviceSettings,
    /// Packet format and pacing of the downlink.
    pub speaking: SpeakingSettings,
    /// Interruption of replies.
    pub interruption: InterruptionSettings,
    /// Lookup of the device's role.
    pub role: CurrentRole,
    /// Maximum length of an utterance.
    pub max_utterance: Duration,
    /// True if the echo guard is used for devices that do not leave their echo to the server.
    pub guards_echo: bool,
    /// Registry of the connected devices.
    pub device_registry: DeviceRegistry,
    /// Admission control for turns.
    pub admission: Admission,
}

pub(super) struct PipelineLinks {
    pub(super) uplink: mpsc::Sender<UplinkItem>,
    pub(super) start_turn: Recipient<StartTurn>,
    pub(super) playback_ended: Recipient<PlaybackEnded>,
    pub(super) said: Recipient<DeviceToolMessage>,
}

pub(super) struct ConnectionState {
    pub(super) since: Instant,
    pub(super) greeted: bool,
    pub(super) mode: Option<ListenMode>,
    /// True while its microphone is open, according to its messages.
    pub(super) microphone_open: bool,
    pub(super) last_inbound: Instant,
    pub(super) last_ping: Instant,
    pub(super) last_voice: Instant,
    pub(super) dropped_in_a_row: u32,
    /// Start of the current counting interval, and number of text frames in it.
    pub(super) text_frames: TextFrames,
    /// Wake words in the current counting interval.
    pub(super) wake_words: WakeWords,
    pub(super) warnings: PacedLog,
    /// True while the farewell is spoken; interrupting it keeps the connection open.
    pub(super) leaving: bool,
    /// Number of `Forget` and `ForgetSpeech` orders sent.
    pub(super) forgets: u64,
    /// Messages that wait for the end of a turn.
    pub(super) to_say: VecDeque<String>,
    /// Time until which they also wait without a turn.
    pub(super) messages_held_until: Option<Instant>,
    pub(super) notice_given: bool,
    /// True if the client asked for partial transcripts.
    pub(super) wants_partials: bool,
    /// Sent packets, for echo handling on the server.
    pub(super) sent: Option<SentPackets>,
    /// Stamp of the last packet.
    pub(super) last_stamp: u32,
}

impl ConnectionState {
    /// Returns the stamp of a packet that plays at this time: milliseconds of the connection.
    /// Stamps are unique and never 0, which means none.
    pub(super) fn stamp(&mut self, plays_at: Instant) -> u32 {
        let time = plays_at.saturating_duration_since(self.since).as_millis();
        let stamp = u32::try_from(time).unwrap_or(u32::MAX);
        self.last_stamp = stamp.max(self.last_stamp.saturating_add(1));
        self.last_stamp
    }
}

pub(super) struct LiveTurn {
    pub(super) turn: Turn,
    /// Message that the turn speaks, if it speaks one.
    pub(super) message: Option<String>,
    /// True while its utterance is still being spoken.
    pub(super) hearing: bool,
    /// True once `tts start` has been sent.
    pub(super) speaking: bool,
    /// Time at which the person finished speaking.
    pub(super) heard_at: Option<Instant>,
    /// Time since which there was no speech before it, for the case that its voice is ignored.
    pub(super) quiet_since: Instant,
    pub(super) epoch: Instant,
    pub(super) playout: Playout,
    /// Number of sentences that were sent, without those that will be sent again.
    pub(super) sentences: usize,
    /// Index of the last question among them.
    pub(super) question: Option<usize>,
    /// Utterances over it that are not understood yet, oldest first. Each may end it.
    pub(super) interruptions: Vec<Interruption>,
    /// Number of resumptions of its playback, according to the steps received.
    pub(super) resumed: u32,
}

/// Utterance of a person while a reply is played.
pub(super) struct Interruption {
    pub(super) turn: Turn,
    /// Time at which the person finished speaking.
    pub(super) heard_at: Option<Instant>,
    /// True once the reply no longer waits for the words.
    pub(super) late: bool,
}

/// Text frames of a device in the current counting interval.
#[derive(Debug)]
pub(super) struct TextFrames {
    pub(super) since: Instant,
    pub(super) frames: u32,
    pub(super) bytes: usize,
}

/// Wake words of a device in the current counting interval.
#[derive(Debug)]
pub(super) struct WakeWords {
    pub(super) since: Instant,
    pub(super) count: u32,
}

impl Default for WakeWords {
    fn default() -> Self {
        Self { since: Instant::now(), count: 0 }
    }
}

impl Default for TextFrames {
    fn default() -> Self {
        Self { since: Instant::now(), frames: 0, bytes: 0 }
    }
}

impl DeviceActor {
    /// Returns the time since which there is no speech but that of the live turn, whose words are
    /// not known yet.
    pub(super) fn quiet_since(&self) -> Instant {
        match &self.live {
            None => self.state.last_voice,
            Some(live) if live.speaking => Instant::now(),
            Some(live) => live.quiet_since,
        }
    }
}

impl LiveTurn {
    /// Returns the part of it that has been played by now.
    pub(super) fn heard(&self) -> PlayedBack {
        self.playout.heard(self.epoch.elapsed())
    }

    /// Returns true if nothing of it could be heard so far. Sentences without sound may have been
    /// played.
    pub(super) fn is_unheard(&self) -> bool {
        self.heard() == PlayedBack::default() || self.playout.end(Duration::ZERO).is_zero()
    }
}
