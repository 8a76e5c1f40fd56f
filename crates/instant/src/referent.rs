//! Calls, and what they are about, to which the next utterance may refer. Not for what is done with them.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::exact::Fraction;
use crate::length::Length;
use crate::value::Room;

/// How long the last target is remembered.
pub const REMEMBERED: Duration = Duration::from_secs(120);

/// Call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Name of the offered tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

/// What was spoken about.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum About {
    Volume,
    Screen,
    Dim,
    Cover,
    Climate,
    Switch {
        kind: usize,
        is_on: bool,
    },
    Music,
    Timer(Length),
    Number,
    /// The time at a place.
    Time,
}

/// Target and value of the last instant answer, to which the next utterance may refer.
#[derive(Debug, Clone, PartialEq)]
pub struct Referent {
    pub(crate) about: About,
    pub(crate) rooms: Vec<Room>,
    pub(crate) value: Option<Fraction>,
    /// Time since the answer; set by the caller. After [`REMEMBERED`] the referent has no effect.
    pub age: Duration,
}

impl Referent {
    pub(crate) fn new(about: About, rooms: Vec<Room>, value: Option<Fraction>) -> Self {
        Self { about, rooms, value, age: Duration::ZERO }
    }

    /// Returns the number with which a calculation may go on.
    pub(crate) fn number(&self) -> Option<Fraction> {
        self.value.filter(|_| self.about == About::Number)
    }
}

/// Relative change of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    /// Percent, degrees or steps to add.
    pub(crate) by: Fraction,
    /// True if it is a number of steps.
    pub(crate) is_steps: bool,
}
