//! Data of a traced turn: its client, its times, its words, its outcome. Not for writing them.

use std::sync::Arc;
use std::time::Duration;

use hearken_ports::usage::Used;
use jiff::Timestamp;
use uuid::Uuid;

use super::vocabulary::{ClientKind, Outcome, Stage, TraceEvent, TurnState};

/// Duration of a stage. Times are relative to the start of its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The stage.
    pub stage: Stage,
    /// Details that identify it: the names of tools, whether a speculation was used.
    pub detail: Option<String>,
    /// Start.
    pub start: Duration,
    /// End; `None` while the stage continues.
    pub end: Option<Duration>,
    /// Number of the speculation that it is part of, from 1; 0 for none.
    pub(super) speculation: u32,
}

/// Current data of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedTurn {
    /// Id of the turn among all turns of all servers, and of its trace.
    pub id: Uuid,
    /// Kind of its client.
    pub kind: ClientKind,
    /// Id of its device or session.
    pub client: String,
    /// Version of its device's firmware, if known.
    pub firmware: Option<Arc<str>>,
    /// Start of the turn.
    pub began: Timestamp,
    /// Current state.
    pub state: TurnState,
    /// Outcome, once it has ended.
    pub outcome: Option<Outcome>,
    /// Words of the person.
    pub heard: Option<String>,
    /// Text of the answer.
    pub said: Option<String>,
    /// Unspoken remainder of the answer.
    pub cut_off: Option<String>,
    /// Times of its stages, in the order of their starts.
    pub spans: Vec<Span>,
    /// Its events, in order, with their times.
    pub events: Vec<(TraceEvent, Duration)>,
    /// Its usage.
    pub used: Used,
}

impl TracedTurn {
    /// Returns the time that the person has waited: from the end of their speech to the first
    /// packet.
    pub fn wait(&self) -> Option<Duration> {
        let (_, first) = self.events.iter().find(|(event, _)| *event == TraceEvent::FirstPacket)?;
        let speech = self.spans.iter().find(|span| span.stage == Stage::Speech);
        let spoken = speech.map_or(Some(Duration::ZERO), |speech| speech.end)?;
        Some(first.saturating_sub(spoken))
    }
}
