//! The kinds of slots and their values. Not for reading them from words, which is in `slots`.

use crate::calendar::Day;
use crate::exact::Fraction;
use crate::facts::{FACTS, Fact};
use crate::length::Length;
use crate::times::Clock;

/// Kind of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Number,
    Level,
    Expression,
    /// Expression that is more than digits with `-` or `/`, which may be a date, a score or a name.
    Sum,
    Duration,
    Clock,
    Day,
    Zone,
    Unit,
    Room,
    Rooms,
    Device,
    Scene,
    Color,
    Text,
    /// One word.
    Word,
    /// Name of a city, known or not.
    City,
    /// Names of a column of the facts, by its place.
    Fact(usize),
}

const KINDS: [(&str, Kind); 17] = [
    ("number", Kind::Number),
    ("level", Kind::Level),
    ("expression", Kind::Expression),
    ("sum", Kind::Sum),
    ("duration", Kind::Duration),
    ("clock", Kind::Clock),
    ("day", Kind::Day),
    ("zone", Kind::Zone),
    ("unit", Kind::Unit),
    ("room", Kind::Room),
    ("rooms", Kind::Rooms),
    ("device", Kind::Device),
    ("scene", Kind::Scene),
    ("color", Kind::Color),
    ("text", Kind::Text),
    ("word", Kind::Word),
    ("city", Kind::City),
];

impl Kind {
    /// Returns the kind that templates call so.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let kind = KINDS.iter().find(|kind| kind.0 == name).map(|kind| kind.1);
        kind.or_else(|| FACTS.slot(name).map(Self::Fact))
    }

    /// Returns the names of all kinds, for messages.
    pub(crate) fn names() -> String {
        KINDS.iter().map(|kind| kind.0).chain(FACTS.slots()).collect::<Vec<_>>().join(", ")
    }
}

/// Room as it was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Room {
    /// The words, as they are written.
    pub(crate) said: String,
    /// The words, as they are compared.
    pub(crate) words: Vec<String>,
    /// Place of the group of rooms with this name; `None` if only a tool knows it.
    pub(crate) group: Option<usize>,
}

/// Name as it was said, and the place of its group, if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) words: Vec<String>,
    pub(crate) group: Option<usize>,
}

/// Value of a slot.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Words that a template sets, or of an open slot.
    Text(String),
    Number(Fraction),
    /// Number of 0 to 100, and whether it was said to be a share of the whole, such as a percent.
    Level(Fraction, bool),
    /// Result of an expression; `None` if it has none, as a division by 0.
    Result(Option<Fraction>),
    Duration(Length),
    Clock(Clock),
    Day(Day),
    Zone(usize),
    Unit(usize),
    Rooms(Vec<Room>),
    Device(usize),
    Scene(Named),
    Color(usize),
    Fact(Fact),
}

/// Returns words as they are written: without spaces in Chinese.
pub(crate) fn written(words: &[String]) -> String {
    let mut text = String::new();
    for word in words {
        let is_latin = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        if is_latin(text.chars().last()) && is_latin(word.chars().next()) {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}
