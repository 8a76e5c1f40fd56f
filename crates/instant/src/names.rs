//! The names that are data: rooms, devices, scenes, colours, cities, units and holidays. Not for names that tools bring, which are
//! in `bindings`.

use std::sync::LazyLock;

use hearken_base::language::{Language, is_han};
use serde::Deserialize;

use crate::calendar::{Holiday, Holidays};
use crate::exact::Fraction;
use crate::normalise::words_of;

/// Names that mean the same, of which the first of each language is spoken.
#[derive(Debug, Clone, Default)]
pub(crate) struct Group {
    names: Vec<(String, Vec<String>)>,
}

/// Kind of device.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    /// Word by which rules know the kind.
    pub(crate) key: String,
    /// Word of the kind that this one is a sort of: a floor lamp is a light.
    pub(crate) of: Option<String>,
    /// Word of Home Assistant for the kind.
    pub(crate) domain: String,
    pub(crate) group: Group,
}

/// What words name: kinds of device, and other things of a household.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Things {
    pub(crate) kinds: Vec<usize>,
    pub(crate) others: Vec<Vec<String>>,
}

/// City or country, with its time zone.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) zone: String,
    pub(crate) group: Group,
}

/// Unit of a dimension.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    pub(crate) dimension: String,
    /// Size in the basic unit of the dimension.
    pub(crate) size: Fraction,
    pub(crate) group: Group,
    /// English name of one.
    pub(crate) singular: String,
}

/// The names of the crate's files, which a test reads.
pub(crate) static NAMES: LazyLock<Names> = LazyLock::new(|| Names::builtin().unwrap_or_default());

/// All names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    pub(crate) rooms: Vec<Group>,
    pub(crate) scenes: Vec<Group>,
    pub(crate) colors: Vec<Group>,
    pub(crate) devices: Vec<Device>,
    /// Other things of a household.
    others: Group,
    pub(crate) places: Vec<Place>,
    pub(crate) units: Vec<Unit>,
    pub(crate) holidays: Holidays,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamesFile {
    rooms: Vec<Vec<String>>,
    scenes: Vec<Vec<String>>,
    colors: Vec<Vec<String>>,
    things: Vec<String>,
    devices: Vec<DeviceEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceEntry {
    key: String,
    of: Option<String>,
    domain: String,
    zh: Vec<String>,
    en: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlacesFile {
    places: Vec<PlaceEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceEntry {
    zone: String,
    zh: Vec<String>,
    en: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnitsFile {
    units: Vec<UnitEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnitEntry {
    dimension: String,
    size: String,
    zh: Vec<String>,
    en: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HolidaysFile {
    holidays: Vec<Holiday>,
}

/// English words that no name of a city has.
const NO_CITY: [&str; 106] = [
    "today",
    "tomorrow",
    "yesterday",
    "tonight",
    "now",
    "right",
    "this",
    "that",
    "next",
    "last",
    "on",
    "at",
    "in",
    "for",
    "the",
    "a",
    "an",
    "my",
    "your",
    "our",
    "his",
    "her",
    "their",
    "it",
    "is",
    "be",
    "will",
    "week",
    "weekend",
    "morning",
    "afternoon",
    "evening",
    "night",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "day",
    "days",
    "hour",
    "hours",
    "here",
    "there",
    "outside",
    "inside",
    "celsius",
    "fahrenheit",
    "degrees",
    "general",
    "space",
    "mars",
    "moon",
    "venus",
    "jupiter",
    "winter",
    "summer",
    "autumn",
    "fall",
    "june",
    "july",
    "august",
    "december",
    "like",
    "going",
    "work",
    "me",
    "us",
    "again",
    "you",
    "house",
    "car",
    "fridge",
    "oven",
    "and",
    "or",
    "but",
    "if",
    "when",
    "because",
    "what",
    "how",
    "fahrenheits",
    "kelvin",
    "hell",
    "bed",
    "school",
    "home",
    "heaven",
    "about",
    "month",
    "months",
    "year",
    "years",
    "minute",
    "minutes",
    "weeks",
    "while",
    "case",
    "moment",
    "which",
    "love",
    "like",
    "hate",
];
/// Characters that no name of a city has.
const NO_CITY_CHARS: &str = "我你您他她它的了吗么什怎哪谁这那不没想觉说讲问听会可能要请帮还就再几时候早晚午年月周星期今明昨前度别查注爱喜是否有在给把";
/// Words that no name of a city has.
const NO_CITY_WORDS: [&str; 22] = [
    "天气", "后天", "室内", "室外", "外面", "户外", "家里", "屋里", "房间", "水温", "冰箱", "烤箱",
    "火星", "月球", "太阳", "未来", "最近", "出门", "冬天", "夏天", "为何", "经常",
];

/// Reports whether words may be the name of a city that is not in our list.
pub(crate) fn may_be_city(words: &[String], is_zh: bool) -> bool {
    if is_zh {
        let text = words.concat();
        return text.chars().all(|c| is_han(c) && !NO_CITY_CHARS.contains(c))
            && !NO_CITY_WORDS.iter().any(|word| text.contains(word));
    }
    words
        .iter()
        .all(|word| word.chars().all(char::is_alphabetic) && !NO_CITY.contains(&word.as_str()))
}

impl Group {
    fn new(names: &[String]) -> Self {
        Self { names: names.iter().map(|name| (name.clone(), words_of(name).words)).collect() }
    }

    /// Returns the most words of a name with which `words` begin; 0 if none does.
    pub(crate) fn longest_at(&self, words: &[String]) -> usize {
        let lengths = self
            .names
            .iter()
            .filter(|name| words.get(..name.1.len()).is_some_and(|start| start == name.1));
        lengths.map(|name| name.1.len()).max().unwrap_or(0)
    }

    /// Returns all names.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| name.0.as_str())
    }

    /// Reports whether `words` are one of the names.
    pub(crate) fn has(&self, words: &[String]) -> bool {
        self.names.iter().any(|name| name.1 == words)
    }

    /// Reports whether one of the names is somewhere in `words`.
    pub(crate) fn is_in(&self, words: &[String]) -> bool {
        (0..words.len()).any(|at| self.longest_at(words.get(at..).unwrap_or_default()) > 0)
    }

    /// Returns the name that is spoken.
    pub(crate) fn name(&self, language: Language) -> &str {
        let is_right = |name: &&(String, Vec<String>)| {
            name.0.chars().any(is_han) == (language == Language::Chinese)
        };
        let name = self.names.iter().find(is_right).or_else(|| self.names.first());
        name.map_or("", |name| name.0.as_str())
    }
}

/// Returns the place of the group with the longest name at the beginning of `words`, and the length of the name.
pub(crate) fn longest<'a>(
    groups: impl Iterator<Item = &'a Group>,
    words: &[String],
) -> Option<(usize, usize)> {
    let found = groups
        .enumerate()
        .map(|(at, group)| (group.longest_at(words), at))
        .filter(|found| found.0 > 0);
    found.max_by_key(|found| (found.0, std::cmp::Reverse(found.1)))
}

fn fraction(text: &str) -> Option<Fraction> {
    match text.split_once('/') {
        Some((top, bottom)) => Fraction::from_digits(top)?.over(Fraction::from_digits(bottom)?),
        None => Fraction::from_digits(text),
    }
}

impl Names {
    /// Reads the files of the crate; returns what is wrong with them.
    fn builtin() -> Result<Self, String> {
        let names: NamesFile =
            toml::from_str(include_str!("../templates/names.toml")).map_err(|e| e.to_string())?;
        let places: PlacesFile =
            toml::from_str(include_str!("../templates/places.toml")).map_err(|e| e.to_string())?;
        let units: UnitsFile =
            toml::from_str(include_str!("../templates/units.toml")).map_err(|e| e.to_string())?;
        let holidays: HolidaysFile = toml::from_str(include_str!("../templates/holidays.toml"))
            .map_err(|e| e.to_string())?;
        let groups = |lists: &[Vec<String>]| lists.iter().map(|list| Group::new(list)).collect();
        let both = |zh: &[String], en: &[String]| Group::new(&[zh, en].concat());
        let unit = |unit: &UnitEntry| {
            let size = fraction(&unit.size).ok_or_else(|| {
                format!("`{}` is no size of a unit; write digits or a fraction", unit.size)
            })?;
            let singular = unit.en.get(1).or_else(|| unit.en.first()).cloned().unwrap_or_default();
            Ok::<_, String>(Unit {
                dimension: unit.dimension.clone(),
                size,
                group: both(&unit.zh, &unit.en),
                singular,
            })
        };
        Ok(Self {
            rooms: groups(&names.rooms),
            scenes: groups(&names.scenes),
            colors: groups(&names.colors),
            devices: names
                .devices
                .iter()
                .map(|d| Device {
                    key: d.key.clone(),
                    of: d.of.clone(),
                    domain: d.domain.clone(),
                    group: both(&d.zh, &d.en),
                })
                .collect(),
            others: Group::new(&names.things),
            places: places
                .places
                .iter()
                .map(|p| Place { zone: p.zone.clone(), group: both(&p.zh, &p.en) })
                .collect(),
            units: units.units.iter().map(unit).collect::<Result<_, _>>()?,
            holidays: Holidays::new(holidays.holidays),
        })
    }

    /// Returns the place of a kind of device.
    pub(crate) fn device(&self, key: &str) -> Option<usize> {
        self.devices.iter().position(|device| device.key == key)
    }

    /// Reports whether a kind of device is another one, or a sort of it.
    pub(crate) fn is_a(&self, kind: usize, general: usize) -> bool {
        kind == general || self.general(kind) == general
    }

    /// Returns the kind that a kind of device is a sort of; the kind itself if it is none.
    pub(crate) fn general(&self, kind: usize) -> usize {
        let of = self.devices.get(kind).and_then(|device| device.of.as_deref());
        of.and_then(|of| self.device(of)).unwrap_or(kind)
    }

    /// Returns the length of a name of a device with which `words` begin, and the place of its kind; `None` if there is none, or if
    /// it is a piece of the name of another thing: 空调 of 空调扇.
    pub(crate) fn device_at(&self, words: &[String]) -> Option<(usize, usize)> {
        let found = longest(self.devices.iter().map(|device| &device.group), words)?;
        (self.others.longest_at(words) <= found.0).then_some(found)
    }

    /// Returns the length of the name of another thing with which `words` begin; 0 if there is none.
    pub(crate) fn other_at(&self, words: &[String]) -> usize {
        self.others.longest_at(words)
    }

    /// Returns what words name; of names that begin at the same word, the longest.
    pub(crate) fn things_in(&self, words: &[String]) -> Things {
        let mut found = Things::default();
        let mut rest = words;
        while !rest.is_empty() {
            let room = longest(self.rooms.iter(), rest).map_or(0, |room| room.0);
            let other = self.other_at(rest);
            let length = match self.device_at(rest) {
                Some((length, kind)) if length >= room => {
                    found.kinds.push(kind);
                    length
                }
                _ if other > room => {
                    found.others.extend(rest.get(..other).map(<[String]>::to_vec));
                    other
                }
                _ => room.max(1),
            };
            rest = rest.get(length..).unwrap_or_default();
        }
        found
    }

    /// Reports whether a name is said that is no piece of a longer name which we know: 门 of 门锁.
    pub(crate) fn says(&self, said: &[String], name: &[String]) -> bool {
        let is_at = |at: usize| said.get(at..at + name.len()).is_some_and(|part| part == name);
        let is_piece = |at: usize| {
            (0..=at).any(|from| {
                let rest = said.get(from..).unwrap_or_default();
                let device = self.device_at(rest).map_or(0, |found| found.0);
                let length = device.max(self.other_at(rest));
                length > name.len() && from + length >= at + name.len()
            })
        };
        !name.is_empty() && (0..said.len()).any(|at| is_at(at) && !is_piece(at))
    }

    /// Returns the place of the group of rooms that has a name.
    pub(crate) fn room(&self, words: &[String]) -> Option<usize> {
        self.rooms.iter().position(|group| group.has(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_right_and_all_zones_exist() {
        let names = Names::builtin().unwrap();
        for place in &names.places {
            assert!(jiff::tz::TimeZone::get(&place.zone).is_ok(), "{}", place.zone);
        }
        assert_eq!(
            names.rooms.iter().filter(|group| group.has(&words_of("餐厅").words)).count(),
            1
        );
        for device in &names.devices {
            let general = device.of.as_deref().map(|of| names.device(of));
            assert_ne!(general, Some(None), "{}", device.key);
        }
    }

    #[test]
    fn no_name_of_a_device_or_thing_names_another() {
        let names = Names::builtin().unwrap();
        for (kind, device) in names.devices.iter().enumerate() {
            for name in device.group.all() {
                let words = words_of(name).words;
                assert_eq!(names.device_at(&words), Some((words.len(), kind)), "{name}");
                let things = Things { kinds: vec![kind], others: Vec::new() };
                assert_eq!(names.things_in(&words), things, "{name}");
            }
        }
        for name in names.others.all() {
            let words = words_of(name).words;
            let things = Things { kinds: Vec::new(), others: vec![words.clone()] };
            assert_eq!(names.things_in(&words), things, "{name}");
        }
    }

    #[test]
    fn a_piece_of_a_longer_name_is_not_said() {
        let words = |text: &str| words_of(text).words;
        for (said, name, is_said) in [
            ("打开门", "门", true),
            ("打开门锁", "门", false),
            ("打开灯带", "灯", false),
            ("打开空调扇", "空调", false),
            ("open the garage door", "door", false),
            ("open the door", "door", true),
            ("vacuum the carpet", "car", false),
        ] {
            assert_eq!(NAMES.says(&words(said), &words(name)), is_said, "{said}");
        }
    }
}
