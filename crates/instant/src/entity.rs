//! The entities of a list of Home Assistant: reads them, and finds those that an utterance means. An entity is meant only if it is of
//! the kind of thing that is said. Not for other states, see `state`.

use hearken_base::language::is_han;
use serde_json::Value;

use crate::act::Target;
use crate::bindings::words_of_name;
use crate::exact::Fraction;
use crate::names::{NAMES, Things, longest};
use crate::value::{Room, written};

/// Kinds of device that an entity of their domain may be whatever its name.
const OPEN: [&str; 4] = ["light", "fan", "vacuum", "humidifier"];
/// Domains of plugs and the like, through which any kind of device may be switched.
const PLUGS: [&str; 2] = ["switch", "input_boolean"];
/// Domains that are not switched by the name of an entity: they measure, or to switch them off is to unlock.
const NOT_SWITCHED: [&str; 10] = [
    "sensor",
    "binary_sensor",
    "weather",
    "person",
    "device_tracker",
    "sun",
    "zone",
    "calendar",
    "lock",
    "alarm_control_panel",
];
/// Domains of which several entities in a room are meant by one word: the curtains of a room.
const PLURAL: [&str; 3] = ["cover", "fan", "humidifier"];
/// Classes of Home Assistant and the kinds of device that they are; any other class is another thing, such as a garage door.
const CLASSES: [(&str, &str); 10] = [
    ("curtain", "curtain"),
    ("blind", "blind"),
    ("shade", "roller_blind"),
    ("shutter", "shutter"),
    ("tv", "tv"),
    ("speaker", "speaker"),
    ("receiver", "speaker"),
    ("outlet", "socket"),
    ("humidifier", "humidifier"),
    ("dehumidifier", "dehumidifier"),
];
/// Words for numbers in names.
const NUMBERS: [&[&str]; 10] = [
    &["1", "one", "一"],
    &["2", "two", "二", "两"],
    &["3", "three", "三"],
    &["4", "four", "四"],
    &["5", "five", "五"],
    &["6", "six", "六"],
    &["7", "seven", "七"],
    &["8", "eight", "八"],
    &["9", "nine", "九"],
    &["10", "ten", "十"],
];
/// English words beside which a name ends.
const EN_BESIDE: [&str; 52] = [
    "a", "an", "the", "my", "our", "your", "his", "her", "their", "this", "that", "on", "off",
    "in", "at", "to", "up", "down", "out", "back", "turn", "switch", "put", "flip", "flick", "pop",
    "shut", "power", "open", "close", "start", "stop", "set", "get", "kill", "please", "and",
    "now", "then", "just", "again", "for", "also", "too", "would", "could", "can", "will", "you",
    "thanks", "is", "so",
];
/// Chinese characters before which a name ends.
const ZH_AFTER: &str = "开关打启停灭熄亮点给都也吧了调设呢啊呀拉在先再";
/// Chinese characters behind which a name begins.
const ZH_BEFORE: &str = "把将开关掉闭启动上下的里个那这给让请我家亮灭停止盏台了一去来帮";

/// Entity of a list of Home Assistant.
#[derive(Debug, Default, Clone)]
pub(crate) struct Entity {
    pub(crate) names: String,
    pub(crate) domain: String,
    pub(crate) areas: String,
    pub(crate) state: String,
    /// Class of Home Assistant, such as `garage`; empty if it has none.
    class: String,
    pub(crate) values: Vec<(String, Fraction)>,
}

/// Returns the text of a result, which may be wrapped in JSON.
pub(crate) fn inner_text(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(object)) => object
            .get("result")
            .and_then(Value::as_str)
            .map_or_else(|| text.to_owned(), str::to_owned),
        Ok(Value::String(inner)) => inner,
        _ => text.to_owned(),
    }
}

/// Reads a list of entities, as Home Assistant writes it.
pub(crate) fn entities(text: &str) -> Vec<Entity> {
    let mut found: Vec<Entity> = Vec::new();
    for line in inner_text(text).lines() {
        let line = line.trim();
        let is_first = line.starts_with("- ");
        let Some((key, value)) = line.trim_start_matches("- ").split_once(':') else { continue };
        let value = value.trim().trim_matches(['\'', '"']);
        if is_first && key == "names" {
            found.push(Entity { names: value.to_owned(), ..Entity::default() });
            continue;
        }
        let Some(entity) = found.last_mut() else { continue };
        match key {
            "domain" => value.clone_into(&mut entity.domain),
            "areas" => value.clone_into(&mut entity.areas),
            "state" => value.clone_into(&mut entity.state),
            "device_class" => value.clone_into(&mut entity.class),
            _ => entity
                .values
                .extend(Fraction::from_digits(value).map(|number| (key.to_owned(), number))),
        }
    }
    found
}

/// Reports whether a text names a room, and not one with a longer name: the bedroom is no master bedroom.
pub(crate) fn is_room(text: &str, room: &Room) -> bool {
    let words = words_of_name(text);
    let group = room.group.and_then(|at| NAMES.rooms.get(at));
    let mut rest = words.as_slice();
    while !rest.is_empty() {
        let said = if rest.starts_with(&room.words) { room.words.len() } else { 0 };
        let own = said.max(group.map_or(0, |group| group.longest_at(rest)));
        let any = longest(NAMES.rooms.iter(), rest).map_or(0, |found| found.0);
        if own > 0 && own >= any {
            return true;
        }
        rest = rest.get(any.max(1)..).unwrap_or_default();
    }
    false
}

/// Returns the rooms of the crate's list that words name.
fn rooms_in(words: &[String]) -> Vec<Room> {
    let mut found = Vec::new();
    let mut rest = words;
    while !rest.is_empty() {
        let room = longest(NAMES.rooms.iter(), rest);
        let length = room.map_or(1, |room| room.0);
        if let Some((_, group)) = room {
            let said = rest.get(..length).unwrap_or_default().to_vec();
            found.push(Room { said: written(&said), words: said, group: Some(group) });
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    found
}

/// Returns the numbers that words name, each by its place in the list. 一下 and 一个 name none.
fn numbers_in(words: &[String]) -> Vec<usize> {
    let of_word = |(at, word): (usize, &String)| {
        let is_article = word == "一"
            && words.get(at + 1).is_some_and(|next| "下个盏点些会起台把样直".contains(next));
        let number = NUMBERS.iter().position(|names| names.contains(&word.as_str()));
        number.filter(|_| !is_article)
    };
    words.iter().enumerate().filter_map(of_word).collect()
}

impl Entity {
    fn aliases(&self) -> impl Iterator<Item = Vec<String>> + '_ {
        self.names.split(',').map(words_of_name)
    }

    /// Reports whether one of its names has all of these words.
    pub(crate) fn is_named_by(&self, words: &[String]) -> bool {
        self.aliases().any(|name| words.iter().all(|word| name.contains(word)))
    }

    /// Reports whether it is in a room, or has its name.
    fn is_in(&self, room: &Room) -> bool {
        is_room(&self.areas, room) || is_room(&self.names, room)
    }

    /// Returns what its names and its class say that it is.
    fn things(&self) -> Things {
        let mut all = Things::default();
        for words in self.aliases() {
            let named = NAMES.things_in(&words);
            all.kinds.extend(named.kinds);
            all.others.extend(named.others);
        }
        let of_class = CLASSES.iter().find(|class| class.0 == self.class);
        match of_class.and_then(|class| NAMES.device(class.1)) {
            Some(kind) => all.kinds.push(kind),
            None if !self.class.is_empty() => all.others.push(words_of_name(&self.class)),
            None => {}
        }
        all
    }

    /// Reports whether it is of the domain of a kind of device.
    fn is_of_domain(&self, kind: usize) -> bool {
        NAMES.devices.get(kind).is_some_and(|device| device.domain == self.domain)
    }

    /// Reports whether it is a device of a kind, or of a sort of it, as its domain, its class and its names say.
    fn is_of(&self, kind: usize) -> bool {
        let Some(device) = NAMES.devices.get(kind) else { return false };
        let is_own = self.domain == device.domain;
        if is_own && device.key == "light" {
            return true;
        }
        let things = self.things();
        if things.kinds.is_empty() {
            return is_own && OPEN.contains(&device.key.as_str()) && things.others.is_empty();
        }
        let is_named = things.kinds.iter().any(|own| NAMES.is_a(*own, kind));
        is_named && (is_own || PLUGS.contains(&self.domain.as_str()))
    }

    /// Reports whether none of its numbers speaks against what is said: the second lamp is not the first.
    fn fits_numbers(&self, said: &[usize]) -> bool {
        let own: Vec<usize> = self.aliases().flat_map(|words| numbers_in(&words)).collect();
        own.is_empty() || said.is_empty() || own.iter().any(|number| said.contains(number))
    }
}

/// Returns the entities that are meant.
pub(crate) fn meant<'a>(all: &'a [Entity], target: &Target) -> Vec<&'a Entity> {
    let numbers = numbers_in(&target.said);
    let numbered = all.iter().filter(|entity| entity.fits_numbers(&numbers));
    let Some(kind) = target.kind else {
        return named(numbered.filter(|entity| may_be(entity, &target.said)).collect(), target);
    };
    let in_room = |entity: &Entity| target.room.as_ref().is_none_or(|room| entity.is_in(room));
    let of_kind: Vec<&Entity> = numbered.filter(|entity| entity.is_of(kind)).collect();
    let is_found = |entity: &&Entity| entity.is_of_domain(kind) && in_room(entity);
    let found: Vec<&Entity> = of_kind.iter().copied().filter(is_found).collect();
    match found.len() {
        0 => {
            let may_be_there = |entity: &&Entity| entity.areas.is_empty() || in_room(entity);
            named(of_kind.into_iter().filter(may_be_there).collect(), target)
        }
        1 => found,
        _ => {
            let narrower = named(found.clone(), target);
            if narrower.is_empty() { found } else { narrower }
        }
    }
}

/// Reports whether the entity may be what is said by its name: it is each thing that is said, and in a room that is said.
fn may_be(entity: &Entity, said: &[String]) -> bool {
    let things = NAMES.things_in(said);
    let own = entity.things();
    let rooms = rooms_in(said);
    let is_there =
        rooms.is_empty() || entity.areas.is_empty() || rooms.iter().any(|room| entity.is_in(room));
    is_there
        && !NOT_SWITCHED.contains(&entity.domain.as_str())
        && things.kinds.iter().all(|kind| entity.is_of(*kind))
        && things.others.iter().all(|other| own.others.contains(other))
}

/// Returns the entities with the longest names that are said. The name of a room alone is not that of a thing.
fn named<'a>(all: Vec<&'a Entity>, target: &Target) -> Vec<&'a Entity> {
    let said = &target.said;
    let is_area = |name: &Vec<String>| {
        NAMES.room(name).is_some()
            || target.room.as_ref().is_some_and(|room| room.words == *name)
            || all.iter().any(|entity| words_of_name(&entity.areas) == *name)
    };
    let length = |entity: &Entity| {
        let names = entity.aliases().filter(|name| !is_area(name) && is_said(name, said));
        names.map(|name| name.len()).max().unwrap_or(0)
    };
    let lengths: Vec<usize> = all.iter().map(|entity| length(entity)).collect();
    let most = lengths.iter().copied().max().unwrap_or(0);
    let measured = all.into_iter().zip(lengths);
    measured.filter(|one| most > 0 && one.1 == most).map(|one| one.0).collect()
}

/// Reports whether a name is said as a whole, and not as a piece of a longer one: `coffee` of `coffee table`.
fn is_said(name: &[String], said: &[String]) -> bool {
    let is_whole = |at: usize| {
        let before = said.get(..at).unwrap_or_default();
        let after = said.get(at + name.len()..).unwrap_or_default();
        begins_behind(before) && ends_before(after)
    };
    NAMES.says(said, name)
        && (0..said.len()).any(|at| {
            said.get(at..at + name.len()).is_some_and(|part| part == name) && is_whole(at)
        })
}

/// Reports whether a name may begin behind words: behind a room, a verb, an article and the like.
fn begins_behind(words: &[String]) -> bool {
    let Some(last) = words.last() else { return true };
    let is_room = (0..words.len()).any(|from| {
        NAMES.rooms.iter().any(|group| group.has(words.get(from..).unwrap_or_default()))
    });
    is_room || EN_BESIDE.contains(&last.as_str()) || is_one_of(last, ZH_BEFORE)
}

/// Reports whether a name may end before words.
fn ends_before(words: &[String]) -> bool {
    let Some(first) = words.first() else { return true };
    EN_BESIDE.contains(&first.as_str()) || is_one_of(first, ZH_AFTER)
}

/// Reports whether a word is one of some Chinese characters.
fn is_one_of(word: &str, chars: &str) -> bool {
    word.chars().all(is_han) && chars.contains(word)
}

/// Reports whether entities are all of their domain in the room that is said, where one word means all of them.
pub(crate) fn are_all_of_room(found: &[&Entity], all: &[Entity], target: &Target) -> bool {
    let Some(room) = &target.room else { return false };
    let Some(device) = target.kind.and_then(|kind| NAMES.devices.get(kind)) else { return false };
    let is_there = |entity: &Entity| entity.domain == device.domain && is_room(&entity.areas, room);
    let is_found = |entity: &Entity| found.iter().any(|one| std::ptr::eq(*one, entity));
    !found.is_empty()
        && PLURAL.contains(&device.domain.as_str())
        && found.iter().all(|entity| is_there(entity))
        && all.iter().filter(|entity| is_there(entity)).all(is_found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normalise::words_of;

    fn words(text: &str) -> Vec<String> {
        words_of(text).words
    }

    fn room(name: &str) -> Room {
        let words = words_of_name(name);
        Room { said: name.to_owned(), group: NAMES.room(&words), words }
    }

    fn entity(names: &str, domain: &str, areas: &str) -> Entity {
        let text = format!("- names: {names}\n  domain: {domain}\n  areas: {areas}\n");
        entities(&text).swap_remove(0)
    }

    /// Returns the names of the entities that a device in a room means.
    fn found(all: &[Entity], key: &str, area: &str, said: &str) -> Vec<String> {
        let room = (!area.is_empty()).then(|| room(area));
        let target = Target { kind: NAMES.device(key), room, said: words(said) };
        meant(all, &target).into_iter().map(|entity| entity.names.clone()).collect()
    }

    #[test]
    fn entities_are_read_as_home_assistant_writes_them() {
        let text = "Live Context:\n- names: Garage Light\n  domain: light\n  state: 'on'\n  areas: Garage\n  attributes:\n    brightness: '70'\n    device_class: outlet\n";
        let all = entities(text);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].class, "outlet");
        let target =
            Target { kind: NAMES.device("light"), room: Some(room("garage")), said: Vec::new() };
        assert_eq!(meant(&all, &target).len(), 1);
    }

    #[test]
    fn the_name_of_a_room_is_that_of_no_thing() {
        let all = [
            entity("Living Room", "climate", "Living Room"),
            entity("TV", "media_player", "Bedroom"),
        ];
        for (key, said) in [
            ("tv", "turn off the tv in the living room"),
            ("speaker", "turn off the living room speaker"),
            ("fan", "turn the fan in the living room off"),
            ("kettle", "turn off the kettle in the living room"),
        ] {
            assert!(found(&all, key, "living room", said).is_empty(), "{said}");
        }
        assert_eq!(found(&all, "tv", "bedroom", "turn off the bedroom tv"), ["TV"]);
    }

    #[test]
    fn a_room_is_not_one_with_a_longer_name() {
        for (text, name, is_it) in [
            ("Master Bedroom", "bedroom", false),
            ("Kitchen Island", "kitchen", false),
            ("Kitchen", "kitchen", true),
            ("主卧室", "卧室", false),
            ("kitchen_light", "厨房", true),
            ("Snug", "snug", true),
        ] {
            assert_eq!(is_room(text, &room(name)), is_it, "{text} {name}");
        }
    }

    #[test]
    fn a_sort_is_of_its_kind_and_no_other_sort() {
        let all = [entity("Desk Lamp", "light", "Study"), entity("Sheer", "cover", "Study")];
        assert_eq!(found(&all, "light", "study", "turn on the light in the study"), ["Desk Lamp"]);
        assert!(found(&all, "floor_lamp", "", "turn on the floor lamp").is_empty());
        let door = "- names: Big One\n  domain: cover\n  areas: Study\n  attributes:\n    device_class: garage\n";
        assert!(found(&entities(door), "curtain", "study", "open the study curtains").is_empty());
        let blind = door.replace("garage", "blind");
        assert_eq!(found(&entities(&blind), "curtain", "", "open the curtains"), ["Big One"]);
    }

    #[test]
    fn numbers_and_pieces_of_names_are_told_apart() {
        let all = [entity("Lamp 1", "light", "Hall"), entity("Lamp 10", "light", "Hall")];
        assert_eq!(found(&all, "light", "", "turn on lamp one"), ["Lamp 1"]);
        assert_eq!(found(&all, "light", "", "把灯打开一下").len(), 2);
        assert!(found(&all[1..], "light", "", "turn on lamp one").is_empty());
        for (name, said, is_it) in [
            ("coffee", "turn off the coffee table lamp", false),
            ("coffee", "turn off the coffee please", true),
            ("front door", "turn off the front door light", false),
            ("fairy", "把 fairy 打开", true),
            ("大树", "打开客厅大树", true),
            ("大树", "打开大树灯", false),
            ("门", "把门锁打开", false),
        ] {
            assert_eq!(is_said(&words(name), &words(said)), is_it, "{name}: {said}");
        }
    }
}
