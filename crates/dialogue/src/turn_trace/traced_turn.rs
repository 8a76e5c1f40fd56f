//! A turn as it is known: its client, its times, its words, what became of it. Not for who writes it.

use std::sync::Arc;
use std::time::Duration;

use hearken_ports::usage::Used;
use jiff::Timestamp;
use uuid::Uuid;

use super::vocabulary::{ClientKind, Outcome, Stage, TraceEvent, TurnState};

/// Time that a stage took, from the beginning of its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The stage.
    pub stage: Stage,
    /// Which of several: the names of tools, whether a speculation was used.
    pub detail: Option<String>,
    /// When it began.
    pub start: Duration,
    /// When it ended; `None` while it lasts.
    pub end: Option<Duration>,
    /// Number of the speculation that it is part of, from 1; 0 for none.
    pub(super) speculation: u32,
}

/// A turn as it is known now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedTurn {
    /// Id of the turn among all turns of all servers, and of its trace.
    pub id: Uuid,
    /// Kind of its client.
    pub kind: ClientKind,
    /// Id of its device or session.
    pub client: String,
    /// Version of its device's firmware, if that is known.
    pub firmware: Option<Arc<str>>,
    /// When it began.
    pub began: Timestamp,
    /// What it is doing.
    pub state: TurnState,
    /// What became of it, once it has ended.
    pub outcome: Option<Outcome>,
    /// What the person said.
    pub heard: Option<String>,
    /// What was answered.
    pub said: Option<String>,
    /// The end of it that the person did not hear.
    pub cut_off: Option<String>,
    /// Times of its stages, in the order in which they began.
    pub spans: Vec<Span>,
    /// Its events, in order, and when they were.
    pub events: Vec<(TraceEvent, Duration)>,
    /// What it has used.
    pub used: Used,
}

impl TracedTurn {
    /// Returns how long the person has waited: from the end of their speech to the first packet.
    pub fn wait(&self) -> Option<Duration> {
        let (_, first) = self.events.iter().find(|(event, _)| *event == TraceEvent::FirstPacket)?;
        let speech = self.spans.iter().find(|span| span.stage == Stage::Speech);
        let spoken = speech.map_or(Some(Duration::ZERO), |speech| speech.end)?;
        Some(first.saturating_sub(spoken))
    }
}
