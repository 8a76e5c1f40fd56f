//! A turn as JSON, the same for turns that happen and for those that are kept. Not for asking for them.

use std::borrow::Cow;
use std::time::Duration;

use hearken_dialogue::turn_trace::{Stage, TracedTurn};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::words;

/// Word of a fixed set.
type Word = Cow<'static, str>;

/// A turn. Times are milliseconds since it began.
#[derive(Debug, Serialize, ToSchema)]
pub struct TurnJson {
    /// Id of the turn, of its trace, and in the log.
    pub id: String,
    /// Id of its OpenTelemetry trace: the same number, without hyphens.
    pub trace_id: String,
    /// Kind of its client.
    #[schema(value_type = words::TurnKind)]
    pub kind: Word,
    /// Id of the device or session.
    pub client: String,
    /// When it began, RFC 3339.
    pub began: String,
    /// What it is doing.
    #[schema(value_type = words::TurnState)]
    pub state: Word,
    /// What became of it, once it has ended.
    #[schema(value_type = Option<words::TurnOutcome>, required)]
    pub outcome: Option<Word>,
    /// What the person said, if that is kept.
    #[schema(required)]
    pub heard: Option<String>,
    /// What was answered, if that is kept.
    #[schema(required)]
    pub said: Option<String>,
    /// When what happened.
    #[serde(flatten)]
    pub timing: Timing,
}

/// When what happened in a turn, on which firmware, and what of its answer was cut off.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Timing {
    /// Version of its device's firmware, if that is known.
    #[schema(required)]
    firmware: Option<String>,
    /// The end of what was answered that the person did not hear, since it was cut off; null if they heard all, and where
    /// words are not kept.
    #[schema(required)]
    cut_off: Option<String>,
    /// Time from the end of speech, or from the beginning of a text, to the first packet or words.
    #[schema(required)]
    wait_ms: Option<f64>,
    /// Times of its stages.
    spans: Vec<Span>,
    /// Its moments.
    events: Vec<Event>,
}

/// Time of a stage.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
struct Span {
    #[schema(value_type = String)]
    name: Word,
    #[schema(required)]
    detail: Option<String>,
    start_ms: f64,
    /// `null` while it lasts.
    #[schema(required)]
    end_ms: Option<f64>,
}

/// Moment of a turn.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = TurnEvent)]
struct Event {
    #[schema(value_type = String)]
    name: Word,
    at_ms: f64,
}

/// Returns a time in milliseconds, to a hundredth.
fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 100_000.0).round() / 100.0
}

/// Returns the id of a turn's trace.
pub fn trace_id(turn_id: &Uuid) -> String {
    turn_id.simple().to_string()
}

impl Timing {
    /// Returns when the person had finished speaking, in milliseconds; `None` if they did not speak.
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
