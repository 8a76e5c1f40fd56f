//! Commands among other words: an utterance that matches no sentence is a command if it mentions one target and one change, and
//! each of its other words is a filler. Only for a small model, which is wrong more often. Not for finding the mentions.

mod acts;
mod alarm;
mod frames;
mod left;

use hearken_base::language::Language;

use crate::calendar::{Day, date_of, days_between};
use crate::exact::Fraction;
use crate::mentions::{Mention, Mentions, What};
use crate::names::NAMES;
use crate::rules::Setting;
use crate::slots::Reader;
use crate::template::Slots;
use crate::value::{Room, Value};

/// Most mentions.
const MOST_MENTIONS: usize = 24;

/// Rule and slots of a command.
pub(crate) type Frame = (&'static str, Slots);

/// Command with the words that it does not explain: only the name of an entity may have them.
#[derive(Debug)]
pub(crate) struct Understood {
    pub(crate) frame: Frame,
    pub(crate) left: Vec<String>,
}

/// The values that a command has, of each kind at most one.
#[derive(Debug, Default)]
struct Values {
    devices: Vec<usize>,
    rooms: Vec<Vec<Room>>,
    scenes: Vec<Value>,
    levels: Vec<(Fraction, bool)>,
    durations: Vec<Value>,
    clocks: Vec<Value>,
    days: Vec<Day>,
}

/// The utterance says the verb of another act, too, or is about what is there and not about what is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OtherAct;

/// Leaves out what was said before a correction of the same kind: `ninety no make that seventy`. `None` if nothing was: then the
/// words of the correction negate what follows (`with no lights on`), or what was said is called wrong (`the lamp on no wait`).
fn after_correction(words: &[String], mentions: &Mentions) -> Option<Mentions> {
    let is_correction = |at: usize| mentions.all.get(at).is_some_and(|one| one.is("correction"));
    let Some(last) = mentions.places("correction").last() else { return Some(mentions.clone()) };
    let first = (0..=last).rev().take_while(|at| is_correction(*at)).last().unwrap_or(last);
    let correction = mentions.part(first, last + 1);
    let after = mentions.part(last + 1, mentions.all.len());
    let mut all: Vec<Mention> = mentions.part(0, first).all;
    let count = all.len();
    all.retain(|before| !after.all.iter().any(|one| is_same_kind(before, one)));
    if all.len() == count
        || all.iter().any(|one| one.is("correction"))
        || negates(words, &correction.all, after.all.first())
    {
        return None;
    }
    all.extend(after.all);
    Some(Mentions { all, left: mentions.left.clone() })
}

/// Reports whether words of a correction may negate the mention behind them: 八十不是六十, `off no lights on`.
fn negates(words: &[String], correction: &[Mention], next: Option<&Mention>) -> bool {
    let said = correction.iter().filter_map(|one| words.get(one.from..one.to));
    let said: Vec<&str> = said.flatten().map(String::as_str).collect();
    match said.as_slice() {
        ["不", "是"] => true,
        ["no"] => next.is_some_and(|next| matches!(next.what, What::Slot(Value::Device(_)))),
        _ => false,
    }
}

fn is_same_kind(a: &Mention, b: &Mention) -> bool {
    match (&a.what, &b.what) {
        (What::Slot(a), What::Slot(b)) => match (a, b) {
            (Value::Level(..) | Value::Number(_), Value::Level(..) | Value::Number(_)) => true,
            _ => std::mem::discriminant(a) == std::mem::discriminant(b),
        },
        (What::Words(a), What::Words(b)) => {
            let polar = |lists: &[&str]| {
                lists.iter().any(|list| matches!(*list, "on" | "off" | "start" | "stop"))
            };
            polar(a) && polar(b)
        }
        _ => false,
    }
}

impl Values {
    fn of(mentions: &Mentions) -> Self {
        let mut all = Self::default();
        for mention in &mentions.all {
            let What::Slot(value) = &mention.what else { continue };
            match value {
                Value::Device(kind) if !all.devices.contains(kind) => all.devices.push(*kind),
                Value::Rooms(rooms) if !all.rooms.contains(rooms) => all.rooms.push(rooms.clone()),
                Value::Scene(_) => all.scenes.push(value.clone()),
                // 一 is more often an article than a number.
                Value::Level(level, false) | Value::Number(level)
                    if *level < Fraction::whole(2) => {}
                Value::Level(level, is_share) => all.levels.push((*level, *is_share)),
                Value::Number(number) => all.levels.push((*number, false)),
                Value::Duration(_) => all.durations.push(value.clone()),
                Value::Clock(_) => all.clocks.push(value.clone()),
                Value::Day(day) if !all.days.contains(day) => all.days.push(*day),
                _ => {}
            }
        }
        all
    }

    /// Returns the one device; `Some(None)` if there is none.
    fn device(&self) -> Option<Option<usize>> {
        match self.devices.as_slice() {
            [] => Some(None),
            [one] => Some(Some(*one)),
            _ => None,
        }
    }
}

/// Reports whether the first verb of English words is an infinitive that asks for nothing: `nobody has to turn`, `it is silly to
/// turn`. Those of requests are `I want you to turn`, `we need to turn`, `time to turn`. For the words as they were said: readings
/// without their beginning no longer show it.
pub(crate) fn is_told_of(words: &[String], setting: &Setting<'_>, reader: &Reader<'_>) -> bool {
    if setting.language != Language::English {
        return false;
    }
    let mentions = Mentions::of(words, setting.language, reader);
    const VERBS: [&str; 9] =
        ["verb", "start", "stop", "open", "close", "pause", "next", "wake", "mute"];
    let wishes = |word: &str| matches!(word, "want" | "need" | "like" | "love");
    let is_verb = |one: &&Mention| {
        VERBS.iter().any(|list| one.is(list))
            && !words.get(one.from).is_some_and(|word| wishes(word) || word == "have")
    };
    let Some(first) = mentions.all.iter().find(is_verb) else { return false };
    let Some(before) = words.get(..first.from) else { return false };
    let Some((to, before)) = before.split_last() else { return false };
    if to != "to" || before.is_empty() {
        return false;
    }
    let ends = |word: &str| before.last().is_some_and(|last| last == word);
    let mut rest = before.iter().rev().map(String::as_str);
    let is_wish = rest.next().is_some_and(wishes);
    let subject = rest.find(|word| !matches!(*word, "would" | "really" | "just" | "do" | "only"));
    let is_own = is_wish && matches!(subject, Some("i" | "we"));
    !(is_own || ["you", "time", "able", "as", "enough", "remember"].into_iter().any(ends))
}

/// Returns a word without the endings of English.
pub(crate) fn stem(word: &str) -> &str {
    let word = word.strip_suffix("ing").filter(|stem| stem.len() > 3).unwrap_or(word);
    word.strip_suffix('s').filter(|stem| stem.len() > 2).unwrap_or(word)
}

/// Utterance with what it mentions.
pub(crate) struct Command<'a> {
    pub(crate) words: &'a [String],
    mentions: Mentions,
    values: Values,
    /// True if a value was corrected: `eighty no make that sixty`.
    is_corrected: bool,
    pub(crate) setting: &'a Setting<'a>,
}

impl<'a> Command<'a> {
    /// Finds what is mentioned; `None` if something speaks against a command.
    pub(crate) fn of(
        words: &'a [String],
        setting: &'a Setting<'a>,
        reader: &Reader<'_>,
    ) -> Option<Self> {
        let mentions = Mentions::of(words, setting.language, reader);
        let is_corrected = mentions.has("correction");
        let mentions = after_correction(words, &mentions)?;
        // The name of a tool or a piece of music could explain them.
        if mentions.has("never") || mentions.all.len() > MOST_MENTIONS {
            return None;
        }
        let is_clock = |one: &Mention| {
            let before =
                one.from.checked_sub(1).and_then(|at| words.get(at)).map_or("", String::as_str);
            let behind = words.get(one.to).map_or("", String::as_str);
            let is_plain =
                matches!(one.what, What::Slot(Value::Level(_, false) | Value::Number(_)));
            is_plain && before == "at" && !matches!(behind, "degrees" | "percent" | "degree")
        };
        if setting.language == Language::English && mentions.all.iter().any(is_clock) {
            return None;
        }
        let values = Values::of(&mentions);
        Some(Self { words, mentions, values, is_corrected, setting })
    }

    /// Reports whether a word is said, also in another number.
    pub(crate) fn says(&self, word: &str) -> bool {
        self.words.iter().any(|said| stem(said) == stem(word))
    }

    /// Reports whether these words are said one after the other.
    pub(crate) fn names(&self, words: &[String]) -> bool {
        !words.is_empty() && self.words.windows(words.len()).any(|part| part == words)
    }

    /// Reports whether a text is said.
    pub(crate) fn says_phrase(&self, text: &str) -> bool {
        self.names(&crate::normalise::words_of(text).words)
    }

    /// Reports whether a room is said, by whatever name.
    pub(crate) fn has_room(&self, words: &[String]) -> bool {
        let group = NAMES.room(words);
        let mut rooms = self.values.rooms.iter().flatten();
        group.is_some() && rooms.any(|room| NAMES.room(&room.words) == group)
    }

    /// Returns the number of numbers and lengths of time.
    pub(crate) fn numbers(&self) -> usize {
        self.values.levels.len() + self.values.durations.len() + self.values.clocks.len()
    }

    /// Returns the lengths of time.
    pub(crate) fn durations(&self) -> &[Value] {
        &self.values.durations
    }

    fn has(&self, list: &str) -> bool {
        self.mentions.has(list)
    }

    /// Reports whether the only device, if there is one, is of one of these kinds or a sort of it.
    fn is_kind(&self, keys: &[&str]) -> bool {
        let is_of = |kind: usize| {
            let general = NAMES.devices.get(NAMES.general(kind));
            general.is_some_and(|device| keys.contains(&device.key.as_str()))
        };
        matches!(self.values.device(), Some(Some(kind)) if is_of(kind))
    }

    /// Reports whether another day or a later time is named.
    pub(crate) fn is_later(&self) -> bool {
        self.has("later") || self.values.days.iter().any(|day| self.days_until(*day) != Some(0))
    }

    /// Returns the days from today to a day; `None` if its date is not known.
    fn days_until(&self, day: Day) -> Option<i64> {
        let today = self.setting.context.now.date();
        days_between(today, date_of(day, today, &NAMES.holidays)?)
    }

    /// Returns slots with the rooms; `None` if more than one place is named.
    fn slots(&self) -> Option<Slots> {
        let mut slots = Slots::default();
        match self.values.rooms.as_slice() {
            [] => {}
            [rooms] => slots.push("rooms", Value::Rooms(rooms.clone())),
            _ => return None,
        }
        Some(slots)
    }

    /// Returns the one level.
    pub(crate) fn level(&self) -> Option<(Fraction, bool)> {
        match self.values.levels.as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }

    /// Reports whether the mention at a place, `on` or `off`, says what is done. In English they are prepositions, too: then no verb,
    /// device or end of the sentence is beside them.
    fn is_particle(&self, at: usize) -> bool {
        if self.setting.language == Language::Chinese {
            return true;
        }
        let all = &self.mentions.all;
        let is_target = |one: &Mention| {
            one.is("it")
                || one.is("degrees")
                || matches!(one.what, What::Slot(Value::Device(_) | Value::Rooms(_)))
        };
        let before = self.before(at);
        before.zip(all.get(at)).is_some_and(|(before, here)| {
            let next = self.words.get(here.to).map_or("", String::as_str);
            let is_place =
                matches!(next, "the" | "a" | "an" | "my" | "your" | "our" | "with" | "it" | "top");
            before.is("verb") && next != "with" || is_target(before) && !is_place
        })
    }

    /// Returns whether the command switches on or off; `None` if it says neither, or both.
    pub(crate) fn state(&self) -> Option<bool> {
        let on = self.mentions.places("on").any(|at| self.is_particle(at)) || self.has("start");
        let off = self.mentions.places("off").any(|at| self.is_particle(at)) || self.has("stop");
        match (on, off) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        }
    }
}
