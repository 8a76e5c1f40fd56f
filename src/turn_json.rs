//! A turn as JSON, the same for turns in progress and for stored ones. Not for requesting them.

use std::borrow::Cow;
use std::time::Duration;

use hearken_dialogue::turn_trace::{Stage, TracedTurn};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::words;

/// Word of a fixed set.
type Word = Cow<'static, str>;

/// A turn. Times are in milliseconds since its start.
#[derive(Debug, Serialize, ToSchema)]
pub struct TurnJson {
    /// Id of the turn, which is also in the log.
    pub id: String,
    /// Id of the turn's OpenTelemetry trace: the turn's id without hyphens.
    pub trace_id: String,
    /// Kind of client.
    #[schema(value_type = words::TurnKind)]
    pub kind: Word,
    /// Id of the device or session.
    pub client: String,
    /// Start time, RFC 3339.
    pub began: String,
    /// Current state.
    #[schema(value_type = words::TurnState)]
    pub state: Word,
    /// Outcome; null until the turn has ended.
    #[schema(value_type = Option<words::TurnOutcome>, required)]
    pub outcome: Option<Word>,
    /// Transcript of the user's words; null if words are not stored.
    #[schema(required)]
    pub heard: Option<String>,
    /// Text of the answer; null if words are not stored.
    #[schema(required)]
    pub said: Option<String>,
    /// Times of stages and events.
    #[serde(flatten)]
    pub timing: Timing,
}

/// Times of a turn's stages and events, with its device's firmware and the unspoken remainder of its answer.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Timing {
    /// Firmware version of the device; null if unknown.
    #[schema(required)]
    firmware: Option<String>,
    /// Unspoken remainder of the answer, if it was cut off; null if it was played completely, or if
    /// words are not stored.
    #[schema(required)]
    cut_off: Option<String>,
    /// Response latency, in milliseconds: from the end of speech, or from the arrival of a text, to
    /// the first audio packet or word. Null if there was no answer.
    #[schema(required)]
    wait_ms: Option<f64>,
    /// Stages of the turn.
    spans: Vec<Span>,
    /// Events of the turn.
    events: Vec<Event>,
}

/// Time span of a stage.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
struct Span {
    /// Name of the stage.
    #[schema(value_type = String)]
    name: Word,
    /// Detail of the stage, such as the name of a tool; null for none.
    #[schema(required)]
    detail: Option<String>,
    /// Start, in milliseconds since the start of the turn.
    start_ms: f64,
    /// End, in milliseconds since the start of the turn; null while the stage is in progress.
    #[schema(required)]
    end_ms: Option<f64>,
}

/// Event of a turn.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = TurnEvent)]
struct Event {
    /// Name of the event.
    #[schema(value_type = String)]
    name: Word,
    /// Time, in milliseconds since the start of the turn.
    at_ms: f64,
}

/// Returns a time in milliseconds, rounded to hundredths.
fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 100_000.0).round() / 100.0
}

/// Returns the id of a turn's trace.
pub fn trace_id(turn_id: &Uuid) -> String {
    turn_id.simple().to_string()
}

impl Timing {
    /// Returns when the user finished speaking, in milliseconds since the start of the turn; `None`
    /// if they did not speak.
    pub fn speech_end_ms(&self) -> Option<f64> {
        self.spans.iter().find(|span| span.name == Stage::Speech.name())?.end_ms
    }
}

impl From<&TracedTurn> for Timing {
    fn from(turn: &TracedTurn) -> Self {
        let spans = turn.spans.iter().map(|span| Span {
            name: span.stage.name().into(),
            detail: span.detail.clone(),
            start_ms: ms(span.start),
            end_ms: span.end.map(ms),
        });
        let events = turn.events.iter();
        let events = events.map(|(event, at)| Event { name: event.name().into(), at_ms: ms(*at) });
        Self {
            firmware: turn.firmware.as_ref().map(ToString::to_string),
            cut_off: turn.cut_off.clone(),
            wait_ms: turn.wait().map(ms),
            spans: spans.collect(),
            events: events.collect(),
        }
    }
}

impl From<TracedTurn> for TurnJson {
    fn from(turn: TracedTurn) -> Self {
        Self {
            id: turn.id.to_string(),
            trace_id: trace_id(&turn.id),
            kind: turn.kind.name().into(),
            timing: Timing::from(&turn),
            client: turn.client,
            began: turn.began.to_string(),
            state: turn.state.name().into(),
            outcome: turn.outcome.map(|outcome| outcome.name().into()),
            heard: turn.heard,
            said: turn.said,
        }
    }
}
