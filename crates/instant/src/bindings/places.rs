//! How a tool receives the place, and the values that its parameters name. Not for what it does.

use hearken_base::language::Language;
use serde_json::{Map, Value};

use super::schema::{Accepts, Parameter, Tool, mentions, name_words};
use super::{Effect, Input, Place, Topic};
use crate::names::Names;
use crate::normalise::words_of;

const ROOM: [&str; 8] = ["room", "area", "zone", "location", "place", "房间", "区域", "位置"];

/// Returns the group of rooms that `words` name.
pub(super) fn room_in(words: &[String], names: &Names) -> Option<usize> {
    let mut found =
        names.rooms.iter().enumerate().filter(|(_, group)| group.is_in(words)).map(|found| found.0);
    let room = found.next()?;
    found.next().is_none().then_some(room)
}

/// Returns the names of a room that a value such as `garage_light` has.
pub(super) fn room_names(words: &[String], names: &Names) -> Vec<Vec<String>> {
    let mut all = vec![words.to_vec()];
    if names.room(words).is_none()
        && let Some(group) = room_in(words, names).and_then(|at| names.rooms.get(at))
    {
        all.push(words_of(group.name(Language::English)).words);
        all.push(words_of(group.name(Language::Chinese)).words);
    }
    all
}

/// Names that a description lists, such as `kitchen, hall or study` or `light（灯）、ac（空调）`: for each the value, and other names.
fn listed(description: &str) -> Vec<(String, Vec<String>)> {
    let list = description.rsplit([':', '：']).next().unwrap_or(description);
    let list = list.replace(" or ", ",").replace(" and ", ",").replace(['或', '和'], ",");
    let mut found = Vec::new();
    for item in list.split([',', '，', '、', ';', '；', '/', '|']) {
        let item = item.trim().trim_end_matches(['.', '。']);
        let (value, other) = item.split_once(['(', '（']).unwrap_or((item, ""));
        let value = value.trim().trim_matches(['"', '\'', '`']).to_owned();
        let other = other.trim_end_matches([')', '）']).trim();
        let mut names = vec![value.clone()];
        if !other.is_empty() {
            names.push(other.to_owned());
        }
        if !value.is_empty() {
            found.push((value, names));
        }
    }
    found
}

/// Returns the values of a parameter with their names, if it has any.
pub(super) fn values(parameter: &Parameter) -> Vec<(String, Vec<String>)> {
    match &parameter.accepts {
        Accepts::Options(options) => {
            let described = listed(&parameter.description);
            let names = |option: &String| {
                described
                    .iter()
                    .find(|item| item.0 == *option)
                    .map_or_else(|| vec![option.clone()], |item| item.1.clone())
            };
            options.iter().map(|option| (option.clone(), names(option))).collect()
        }
        Accepts::Text => listed(&parameter.description),
        _ => Vec::new(),
    }
}

/// Finds how a tool receives the place; `None` if that needs something else.
pub(super) fn place(tool: &Tool, filled: &[&str], names: &Names) -> Option<Place> {
    let text = |wanted: &[&str]| {
        let is_wanted = |p: &&Parameter| {
            !filled.contains(&p.name.as_str())
                && matches!(p.accepts, Accepts::Text | Accepts::Options(_))
                && mentions(&p.name_words, wanted)
        };
        tool.parameters.iter().find(is_wanted)
    };
    let area = text(&["area"]);
    let name = text(&["name"]);
    if let Some((area, name)) = area.zip(name) {
        let is_open = tool.unfilled(filled).next().is_none();
        let domain = tool.parameters.iter().find(|p| mentions(&p.name_words, &["domain"]));
        let domain = domain.map(|p| (p.name.clone(), matches!(p.accepts, Accepts::List)));
        return is_open.then(|| Place::Entity {
            area: area.name.clone(),
            name: name.name.clone(),
            domain,
        });
    }
    let is_room_list = |p: &&Parameter| {
        let named = values(p);
        let is_text = matches!(p.accepts, Accepts::Text | Accepts::Options(_))
            && !filled.contains(&p.name.as_str());
        is_text
            && (p.mentions(&["room", "rooms", "房间"])
                || (!named.is_empty()
                    && named.iter().all(|value| {
                        value.1.iter().any(|name| room_in(&name_words(name), names).is_some())
                    })))
    };
    let room = text(&ROOM).or_else(|| tool.parameters.iter().find(is_room_list)).or_else(|| {
        tool.parameters.iter().find(|p| is_entity_list(p) && !filled.contains(&p.name.as_str()))
    });
    let mut all = filled.to_vec();
    all.extend(room.map(|room| room.name.as_str()));
    if tool.unfilled(&all).next().is_some() {
        return None;
    }
    if let Some(room) = room {
        if is_entity_list(room) {
            return Some(entity_place(room, names));
        }
        let is_option = matches!(room.accepts, Accepts::Options(_));
        let known = values(room)
            .into_iter()
            .filter(|value| is_option || room_in(&name_words(&value.0), names).is_some());
        let rooms = known
            .map(|(value, named)| {
                (
                    value,
                    named.iter().flat_map(|name| room_names(&name_words(name), names)).collect(),
                )
            })
            .collect();
        return Some(Place::Room {
            parameter: room.name.clone(),
            is_required: room.is_required,
            rooms,
        });
    }
    Some(match room_in(&tool.name_words, names) {
        Some(room) => Place::Fixed(room),
        None => Place::None,
    })
}

/// Reports whether a parameter lists entities such as `light.garage`.
fn is_entity_list(parameter: &Parameter) -> bool {
    let is_entity = |option: &String| {
        option.split_once('.').is_some_and(|(domain, name)| {
            !name.is_empty() && domain.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        })
    };
    matches!(&parameter.accepts, Accepts::Options(options) if !options.is_empty() && options.iter().all(is_entity))
}

/// Returns the place of a tool that lists its entities: each is known by its name, as a room is.
fn entity_place(parameter: &Parameter, names: &Names) -> Place {
    let named = |option: &String| {
        let name = option.split_once('.').map_or("", |(_, name)| name);
        (option.clone(), room_names(&name_words(name), names))
    };
    let rooms = match &parameter.accepts {
        Accepts::Options(options) => options.iter().map(named).collect(),
        _ => Vec::new(),
    };
    Place::Room { parameter: parameter.name.clone(), is_required: parameter.is_required, rooms }
}

pub(super) fn effect(
    topic: Topic,
    tool: &Tool,
    input: Input,
    fixed: Map<String, Value>,
    place: Place,
) -> Effect {
    Effect { topic, tool: tool.name.clone(), fixed, input, place }
}

pub(super) fn fixed(parameter: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(parameter.to_owned(), value)])
}
