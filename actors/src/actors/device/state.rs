//! What a device's socket knows: who connected, the ends of the ring that it holds, how the talk
//! stands and which turn is live. No decisions.

use std::collections::VecDeque;

use actix::{Addr, Recipient};
use hearken_proto::device::{Framing, ListenMode};
use hearken_proto::ids::DeviceId;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;

use super::DeviceActor;
use crate::actors::messages::{DeviceSaid, PlaybackEnded, PlaybackItem, StartTurn, UplinkItem};
use crate::admission::Admission;
use crate::audio::playout::{PlayedBack, Playout};
use crate::device_registry::DeviceRegistry;
use crate::dialogue::Turn;
use crate::ports::RecordingSink;
use crate::settings::{DeviceSettings, SpeakingSettings};

/// The ends of the ring that a socket holds, tied by the pipeline once the actor has an address.
pub struct PipelineHandles {
    /// To the VadActor.
    pub uplink: mpsc::Sender<UplinkItem>,
    /// To the SessionActor.
    pub start_turn: Recipient<StartTurn>,
    /// To the SessionActor.
    pub playback_ended: Recipient<PlaybackEnded>,
    /// To the McpHostActor.
    pub said: Recipient<DeviceSaid>,
    /// From the TtsActor.
    pub playback: mpsc::Receiver<PlaybackItem>,
}

/// Starts the other actors of a connection, given the address of its socket.
pub type StartPipeline = Box<dyn FnOnce(&Addr<DeviceActor>) -> PipelineHandles>;

/// Who connected, and what watches it.
pub struct DeviceConnection {
    /// From the handshake, or made up where absent.
    pub device_id: DeviceId,
    /// The handshake's `Protocol-Version`.
    pub framing: Framing,
    /// Sees every frame, where recording is on.
    pub sink: Option<Box<dyn RecordingSink>>,
    /// The one thing that this visitor may hear: it is not listened to, and told this instead.
    pub notice: Option<String>,
    /// Its place among the connections; given back when the actor is dropped.
    pub place: Option<OwnedSemaphorePermit>,
}

/// What a socket needs to know.
#[derive(Clone)]
pub struct DeviceRules {
    /// Timers and wake words.
    pub device: DeviceSettings,
    /// Shape and pace of the downlink.
    pub speaking: SpeakingSettings,
    /// Where connected devices are known by their ids.
    pub device_registry: DeviceRegistry,
    /// How many turns may run.
    pub admission: Admission,
}

pub(super) struct PipelineLinks {
    pub(super) uplink: mpsc::Sender<UplinkItem>,
    pub(super) start_turn: Recipient<StartTurn>,
    pub(super) playback_ended: Recipient<PlaybackEnded>,
    pub(super) said: Recipient<DeviceSaid>,
}

pub(super) struct ConnectionState {
    pub(super) since: Instant,
    pub(super) greeted: bool,
    pub(super) mode: Option<ListenMode>,
    /// Its microphone is open, by what it has told.
    pub(super) microphone_open: bool,
    pub(super) last_inbound: Instant,
    pub(super) last_ping: Instant,
    pub(super) last_voice: Instant,
    pub(super) dropped_in_a_row: u32,
    /// The farewell is said; not any more once somebody cuts that short.
    pub(super) leaving: bool,
    /// Orders to forget that were given.
    pub(super) forgets: u64,
    /// Messages that wait for the end of a turn.
    pub(super) to_say: VecDeque<String>,
    pub(super) notice_given: bool,
}

pub(super) struct LiveTurn {
    pub(super) turn: Turn,
    /// The message that it speaks, where it does.
    pub(super) message: Option<String>,
    /// Its utterance is still being spoken.
    pub(super) hearing: bool,
    /// `tts start` has been sent.
    pub(super) speaking: bool,
    /// When the person had finished speaking.
    pub(super) heard_at: Option<Instant>,
    pub(super) epoch: Instant,
    pub(super) playout: Playout,
}

impl LiveTurn {
    /// How much of it was heard by now.
    pub(super) fn heard(&self) -> PlayedBack {
        self.playout.heard(self.epoch.elapsed())
    }
}
