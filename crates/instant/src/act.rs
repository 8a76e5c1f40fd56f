//! The parts of a plan, as rules make them. Not for carrying them out, which is in `plan`.

use crate::bindings::Bound;
use crate::exact::Fraction;
use crate::forecast::Asked;
use crate::phrases::Subject;
use crate::referent::{Call, Change, Referent};
use crate::value::Room;

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Volume,
    Screen,
    Dim,
    Theme,
    Battery,
    Charging,
    Network,
    Temperature,
    Target,
    Humidity,
    Timers,
    /// What is playing.
    Playing,
    /// Whether something is playing.
    Music,
    /// Whether devices of a kind are on, or open.
    Device(usize),
}

/// Question about a state.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) what: What,
    pub(crate) room: Option<Room>,
    /// True if the result is of the room alone.
    pub(crate) is_of_room: bool,
    /// For a question that yes or no answers: what yes means.
    pub(crate) expected: Option<bool>,
}

/// Entity that an utterance means.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Target {
    /// Kind of device; `None` if only its name is said.
    pub(crate) kind: Option<usize>,
    pub(crate) room: Option<Room>,
    /// Words of the utterance, in which the name of the entity may be.
    pub(crate) said: Vec<String>,
}

/// Part of a plan.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Says a text.
    Say { text: String, referent: Option<Referent> },
    /// Makes a call.
    Do { call: Call, subject: Subject, referent: Option<Referent> },
    /// Makes a call whose result is the answer.
    Ask { call: Call, asked: Asked },
    /// Reads the state, then sets a value that is computed from it.
    Change { read: Call, bound: Bound, change: Change, subject: Subject, referent: Referent },
    /// Reads the entities, then calls with the name of the one that is meant.
    Entity {
        read: Call,
        bound: Bound,
        target: Target,
        value: Option<Fraction>,
        subject: Subject,
        referent: Referent,
        /// Words that nothing but the name of the entity explains.
        left: Vec<String>,
    },
    /// Reads a state, and says what was asked of it.
    Query { read: Call, question: Question },
    /// Says that a state could not be read.
    Fail { text: String },
}
