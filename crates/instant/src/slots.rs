//! The slots of templates: which words each of them accepts at a place in a sentence, and the value that they have. Not for what
//! rules do with the values.

use std::cell::RefCell;
use std::collections::HashMap;

use hearken_base::language::Language;

use crate::arithmetic;
use crate::bindings::Bindings;
use crate::exact::Fraction;
use crate::facts::FACTS;
use crate::names::{self, Group, Names, longest};
use crate::numbers::{is_within_zh_approximate, numbers};
use crate::template::ReadSlot;
use crate::times::{clock, day, length};
use crate::value::{Kind, Named, Room, Value, written};

/// Slots that were read: for each kind and place the lengths and values.
type Known = HashMap<(Kind, usize), Vec<(usize, Value)>>;

/// Reports whether a slot begins with a number.
fn is_counted(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Number
            | Kind::Level
            | Kind::Expression
            | Kind::Sum
            | Kind::Duration
            | Kind::Clock
            | Kind::Day
    )
}

/// Reads slots of one sentence.
pub(crate) struct Reader<'a> {
    words: &'a [String],
    language: Language,
    names: &'a Names,
    bindings: &'a Bindings,
    last: Option<Fraction>,
    known: RefCell<Known>,
}

impl<'a> Reader<'a> {
    /// Creates a reader; `last` is the number with which a calculation may go on.
    pub(crate) fn new(
        words: &'a [String],
        language: Language,
        names: &'a Names,
        bindings: &'a Bindings,
        last: Option<Fraction>,
    ) -> Self {
        Self { words, language, names, bindings, last, known: RefCell::default() }
    }

    fn read_new(&self, kind: Kind, at: usize) -> Vec<(usize, Value)> {
        let words = self.words.get(at..).unwrap_or_default();
        if words.is_empty() || is_counted(kind) && is_within_zh_approximate(self.words, at) {
            return Vec::new();
        }
        let in_groups = |groups: &mut dyn Iterator<Item = &Group>, value: fn(usize) -> Value| {
            longest(groups, words)
                .map(|(length, at)| (length, value(at)))
                .into_iter()
                .collect::<Vec<_>>()
        };
        match kind {
            Kind::Number => self
                .numbers(words)
                .into_iter()
                .map(|read| (read.0, Value::Number(read.1)))
                .collect(),
            Kind::Level => self.levels(words),
            Kind::Expression => arithmetic::expressions(words, self.language, self.last),
            Kind::Sum => {
                let mut found = arithmetic::expressions(words, self.language, self.last);
                let is_plain = |word: &String| {
                    word.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | '/'))
                };
                found.retain(|read| !words.iter().take(read.0).all(is_plain));
                found
            }
            Kind::Duration => length(words, self.language)
                .map(|read| (read.0, Value::Duration(read.1)))
                .into_iter()
                .collect(),
            Kind::Clock => clock(words, self.language)
                .map(|read| (read.0, Value::Clock(read.1)))
                .into_iter()
                .collect(),
            Kind::Day => {
                let days = day(words, self.language, &self.names.holidays);
                days.into_iter().map(|read| (read.0, Value::Day(read.1))).collect()
            }
            Kind::Zone => {
                in_groups(&mut self.names.places.iter().map(|place| &place.group), Value::Zone)
            }
            Kind::Unit => {
                in_groups(&mut self.names.units.iter().map(|unit| &unit.group), Value::Unit)
            }
            Kind::Device => self
                .names
                .device_at(words)
                .map(|(length, kind)| (length, Value::Device(kind)))
                .into_iter()
                .collect(),
            Kind::Color => in_groups(&mut self.names.colors.iter(), Value::Color),
            Kind::Room => self
                .room(words)
                .map(|(length, room)| (length, Value::Rooms(vec![room])))
                .into_iter()
                .collect(),
            Kind::Rooms => self.rooms(words),
            Kind::Scene => self.scene(words),
            Kind::Word => {
                words.first().map(|word| (1, Value::Text(word.clone()))).into_iter().collect()
            }
            Kind::City => self.cities(words),
            Kind::Fact(slot) => FACTS
                .read(slot, words)
                .map(|read| (read.0, Value::Fact(read.1)))
                .into_iter()
                .collect(),
            Kind::Text => (1..=words.len())
                .rev()
                .map(|length| {
                    (length, Value::Text(written(words.get(..length).unwrap_or_default())))
                })
                .collect(),
        }
    }

    /// Reads a known place, or up to four words (six characters) that may be the name of one.
    fn cities(&self, words: &[String]) -> Vec<(usize, Value)> {
        let is_zh = self.language == Language::Chinese;
        let known = longest(self.names.places.iter().map(|place| &place.group), words);
        let mut lengths: Vec<usize> = known.iter().map(|known| known.0).collect();
        let (least, most) = if is_zh { (2, 6) } else { (1, 4) };
        for length in least..=most.min(words.len()) {
            let part = words.get(..length).unwrap_or_default();
            let is_room = self.room(part).is_some_and(|room| room.0 == length)
                || longest(self.names.devices.iter().map(|device| &device.group), part).is_some();
            if names::may_be_city(part, is_zh) && !is_room && !lengths.contains(&length) {
                lengths.push(length);
            }
        }
        lengths
            .into_iter()
            .map(|length| (length, Value::Text(written(words.get(..length).unwrap_or_default()))))
            .collect()
    }

    fn numbers(&self, words: &[String]) -> Vec<(usize, Fraction)> {
        numbers(words, self.language)
    }

    /// Reads 百分之三十, `30%`, `thirty percent`, `30` and `half`.
    fn levels(&self, words: &[String]) -> Vec<(usize, Value)> {
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        let in_range = |value: Fraction| value >= Fraction::ZERO && value <= Fraction::whole(100);
        let level_of = |length: usize, value: Fraction, is_share: bool| {
            in_range(value).then_some((length, Value::Level(value, is_share)))
        };
        let level = |length: usize, value: Fraction| level_of(length, value, true);
        if word(0) == "百" && word(1) == "分" && word(2) == "之" {
            let reads = self.numbers(words.get(3..).unwrap_or_default());
            return reads
                .into_iter()
                .filter_map(|(length, value)| level(3 + length, value))
                .collect();
        }
        if word(0) == "一" && word(1) == "半" {
            return level(2, Fraction::whole(50)).into_iter().collect();
        }
        if word(0) == "half" {
            return level(1, Fraction::whole(50)).into_iter().collect();
        }
        if word(0) == "a" && word(1) == "quarter" {
            return level(2, Fraction::whole(25)).into_iter().collect();
        }
        let mut found = Vec::new();
        for (length, value) in self.numbers(words) {
            if value.as_whole().is_none() {
                continue;
            }
            if matches!(word(length), "%" | "percent") {
                found.extend(level(length + 1, value));
            } else if word(length) == "成" {
                found.extend(
                    value.times(Fraction::whole(10)).and_then(|tenths| level(length + 1, tenths)),
                );
            } else {
                found.extend(level_of(length, value, false));
            }
        }
        found
    }

    /// Reads a room: the names of tools first, then those of everyday speech.
    fn room(&self, words: &[String]) -> Option<(usize, Room)> {
        let the = usize::from(
            self.language == Language::English
                && matches!(words.first().map(String::as_str), Some("the" | "my" | "our")),
        );
        let words = words.get(the..).unwrap_or_default();
        let of_tools = self
            .bindings
            .rooms()
            .filter(|name| words.get(..name.len()).is_some_and(|start| start == *name))
            .map(<[String]>::len)
            .max();
        let of_speech = longest(self.names.rooms.iter(), words);
        let length = of_tools.into_iter().chain(of_speech.map(|found| found.0)).max()?;
        let said = words.get(..length)?.to_vec();
        Some((
            the + length,
            Room { said: written(&said), group: self.names.room(&said), words: said },
        ))
    }

    fn rooms(&self, words: &[String]) -> Vec<(usize, Value)> {
        let Some((mut at, room)) = self.room(words) else { return Vec::new() };
        let mut rooms = vec![room];
        let mut found = vec![(at, Value::Rooms(rooms.clone()))];
        loop {
            let is_link = words.get(at).is_some_and(|word| {
                matches!(word.as_str(), "and" | "和" | "跟" | "与" | "还" | "以")
            });
            let pair = usize::from(
                words.get(at + 1).is_some_and(|word| matches!(word.as_str(), "有" | "及")),
            );
            let link = usize::from(is_link) + if is_link { pair } else { 0 };
            let Some((more, room)) = self.room(words.get(at + link..).unwrap_or_default()) else {
                break;
            };
            at += link + more;
            rooms.push(room);
            found.push((at, Value::Rooms(rooms.clone())));
        }
        found.reverse();
        found
    }

    fn scene(&self, words: &[String]) -> Vec<(usize, Value)> {
        let of_tools = self
            .bindings
            .scenes()
            .filter(|name| words.get(..name.len()).is_some_and(|start| start == *name))
            .map(<[String]>::len)
            .max();
        let of_speech = longest(self.names.scenes.iter(), words);
        let Some(length) = of_tools.into_iter().chain(of_speech.map(|found| found.0)).max() else {
            return Vec::new();
        };
        let said = words.get(..length).unwrap_or_default().to_vec();
        let group = self.names.scenes.iter().position(|group| group.has(&said));
        vec![(length, Value::Scene(Named { words: said, group }))]
    }
}

impl ReadSlot for Reader<'_> {
    fn read(&self, kind: Kind, at: usize) -> Vec<(usize, Value)> {
        if let Some(known) = self.known.borrow().get(&(kind, at)) {
            return known.clone();
        }
        let read = self.read_new(kind, at);
        self.known.borrow_mut().insert((kind, at), read.clone());
        read
    }
}
