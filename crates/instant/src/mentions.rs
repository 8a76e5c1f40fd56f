//! What an utterance mentions: words of the crate's list, rooms, devices, scenes, numbers and times, each with its place. Not for
//! what is done with them, see `lenient`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use hearken_base::language::Language;
use serde::Deserialize;

use crate::bindings::Bindings;
use crate::calendar::Day;
use crate::names::NAMES;
use crate::normalise::words_of;
use crate::slots::Reader;
use crate::template::ReadSlot as _;
use crate::value::{Kind, Value};

/// The words of the crate's file, which a test reads.
static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| Lexicon::builtin().unwrap_or_default());

/// Words of one language: name of a list, and the words of each entry.
type Lists = Vec<(String, Vec<Vec<String>>)>;

#[derive(Debug, Default)]
struct Lexicon {
    zh: Lists,
    en: Lists,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LexiconFile {
    zh: BTreeMap<String, Vec<String>>,
    en: BTreeMap<String, Vec<String>>,
}

impl Lexicon {
    fn builtin() -> Result<Self, String> {
        let file: LexiconFile = toml::from_str(include_str!("../templates/mentions.toml"))
            .map_err(|error| error.to_string())?;
        let lists = |lists: BTreeMap<String, Vec<String>>| {
            let entry = |(name, texts): (String, Vec<String>)| {
                (name, texts.iter().map(|text| words_of(text).words).collect())
            };
            lists.into_iter().map(entry).collect()
        };
        Ok(Self { zh: lists(file.zh), en: lists(file.en) })
    }

    fn of(&self, language: Language) -> &Lists {
        if language == Language::Chinese { &self.zh } else { &self.en }
    }
}

/// Lists of words that say what a command changes, or how.
const CHANGES: [&str; 30] = [
    "on",
    "off",
    "start",
    "stop",
    "open",
    "close",
    "volume",
    "screen",
    "brightness",
    "heat",
    "louder",
    "quieter",
    "brighter",
    "darker",
    "warmer",
    "cooler",
    "mute",
    "next",
    "pause",
    "music",
    "timer",
    "wake",
    "it",
    "also",
    "lamp",
    "halt",
    "play",
    "cancel",
    "up",
    "down",
];

/// Returns the words that speak against a command that is done now: negations, conditions, reports and times.
pub(crate) fn against(language: Language) -> Vec<Vec<String>> {
    let lists = LEXICON.of(language).iter();
    let against = lists.filter(|list| matches!(list.0.as_str(), "never" | "later"));
    against.flat_map(|list| list.1.clone()).collect()
}

/// What is mentioned.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
    /// Lists of the file that have these words.
    Words(Vec<&'static str>),
    Slot(Value),
}

/// Mention, and its place in the words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mention {
    pub(crate) what: What,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// Kinds of slots that are looked for; of equally long ones the first counts.
const SLOTS: [Kind; 8] = [
    Kind::Level,
    Kind::Number,
    Kind::Duration,
    Kind::Clock,
    Kind::Device,
    Kind::Rooms,
    Kind::Scene,
    Kind::Day,
];

/// Mentions of an utterance, in order. None of them overlap.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mentions {
    pub(crate) all: Vec<Mention>,
    /// Places of the words that belong to no mention.
    pub(crate) left: Vec<usize>,
}

impl Mentions {
    /// Finds the mentions in words, of those that begin at a word the longest.
    pub(crate) fn of(words: &[String], language: Language, reader: &Reader<'_>) -> Self {
        let mut found = Self::default();
        let mut at = 0;
        while at < words.len() {
            match longest(words, at, language, reader) {
                Some(mention) => {
                    at = mention.to;
                    found.all.push(mention);
                }
                None => {
                    // A thing that no command knows is left over as a whole: its last word is no other thing.
                    let rest = words.get(at..).unwrap_or_default();
                    let end = at + NAMES.other_at(rest).max(1);
                    found.left.extend(at..end);
                    at = end;
                }
            }
        }
        found
    }

    /// Returns the places of the mentions that are in a list.
    pub(crate) fn places<'a>(&'a self, list: &'a str) -> impl Iterator<Item = usize> + 'a {
        (0..self.all.len()).filter(move |at| self.all.get(*at).is_some_and(|one| one.is(list)))
    }

    /// Reports whether a word of the list is mentioned.
    pub(crate) fn has(&self, list: &str) -> bool {
        self.places(list).next().is_some()
    }

    /// Returns the mentions between two places.
    pub(crate) fn part(&self, from: usize, to: usize) -> Self {
        let all = self.all.get(from..to).unwrap_or_default().to_vec();
        Self { all, left: self.left.clone() }
    }
}

impl Mention {
    /// Reports whether it is in a list of the file.
    pub(crate) fn is(&self, list: &str) -> bool {
        matches!(&self.what, What::Words(lists) if lists.contains(&list))
    }
}

/// Reports whether a text mentions what a command may change: a device, a room, a scene, or a word
/// such as "off". Whether it is a command depends on its other words.
pub fn mentions_change(text: &str) -> bool {
    let language = Language::from_key(text).unwrap_or_default();
    let said = words_of(text);
    let bindings = Bindings::default();
    let reader = Reader::new(&said.words, language, &NAMES, &bindings, None);
    let is_change = |mention: &Mention| match &mention.what {
        What::Words(lists) => lists.iter().any(|list| CHANGES.contains(list)),
        What::Slot(value) => {
            matches!(value, Value::Device(_) | Value::Rooms(_) | Value::Scene(_))
        }
    };
    Mentions::of(&said.words, language, &reader).all.iter().any(is_change)
}

fn longest(
    words: &[String],
    at: usize,
    language: Language,
    reader: &Reader<'_>,
) -> Option<Mention> {
    let rest = words.get(at..).unwrap_or_default();
    let mut best: Option<Mention> = None;
    let mut take = |what: What, length: usize| {
        let is_longer = best.as_ref().is_none_or(|best| best.to - at < length);
        if length > 0 && is_longer {
            best = Some(Mention { what, from: at, to: at + length });
        }
    };
    // `the christmas lights` are on no other day.
    let is_name = |value: &Value| matches!(value, Value::Day(Day::Holiday(_)));
    for kind in SLOTS {
        let read = reader.read(kind, at).into_iter().filter(|read| !is_name(&read.1));
        if let Some((length, value)) = read.max_by_key(|read| read.0) {
            take(What::Slot(value), length);
        }
    }
    let lists = LEXICON.of(language);
    let length_in = |entries: &Vec<Vec<String>>| {
        entries.iter().filter(|entry| rest.starts_with(entry)).map(Vec::len).max().unwrap_or(0)
    };
    let most = lists.iter().map(|list| length_in(&list.1)).max().unwrap_or(0);
    if most > 0 {
        let named: Vec<&'static str> = lists
            .iter()
            .filter(|list| length_in(&list.1) == most)
            .map(|list| list.0.as_str())
            .collect();
        take(What::Words(named), most);
    }
    // The mention may be a piece of the name of another thing: `car heater`.
    let other = NAMES.other_at(rest);
    best.filter(|best| other <= best.to - at || matches!(best.what, What::Slot(Value::Rooms(_))))
}
