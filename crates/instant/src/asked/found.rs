//! Finds flags, texts, devices and lengths of time in what a status tool returned. Not for numbers, see `crate::state`, nor for what
//! is said about them.

use serde_json::Value;

use crate::act::Target;
use crate::bindings::words_of_name;
use crate::entity::{Entity, entities, inner_text, is_room, meant};
use crate::exact::Fraction;
use crate::names::NAMES;
use crate::value::Room;

/// Deepest nesting of a state that is read.
const DEEPEST: usize = 12;
/// Names of a field that says whether a device is on.
const STATE_KEYS: [&str; 9] =
    ["on", "state", "power", "is on", "status", "open", "is open", "position", "开关"];
/// Names of a field that says where or what a device is.
const NAME_KEYS: [&str; 7] = ["name", "room", "area", "location", "place", "名称", "房间"];
/// Names of a field with the time that a timer has left.
const LEFT_KEYS: [&str; 5] = ["remaining", "left", "remain", "剩余", "还剩"];

/// Value without parts, and where it stands.
#[derive(Debug, Clone)]
struct Leaf {
    /// Words of the names of the objects around it, from the outside, each joined with spaces.
    path: Vec<String>,
    key: String,
    value: Value,
    /// Texts of the same object with their names.
    beside: Vec<(String, String)>,
}

/// Device with its state.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Name of its room, or its own; `None` if the result does not say it.
    pub(super) room: Option<String>,
    pub(super) is_on: bool,
}

fn words(name: &str) -> String {
    words_of_name(name).join(" ")
}

fn collect(value: &Value, path: &[String], depth: usize, found: &mut Vec<Leaf>) {
    if depth > DEEPEST {
        return;
    }
    match value {
        Value::Object(object) => {
            let text =
                |field: (&String, &Value)| Some((words(field.0), field.1.as_str()?.to_owned()));
            let beside: Vec<(String, String)> = object.iter().filter_map(text).collect();
            for (key, inner) in object {
                let key = words(key);
                match inner {
                    Value::Object(_) | Value::Array(_) => {
                        let path = [path, &[key]].concat();
                        collect(inner, &path, depth + 1, found);
                    }
                    value => found.push(Leaf {
                        path: path.to_vec(),
                        key,
                        value: value.clone(),
                        beside: beside.clone(),
                    }),
                }
            }
        }
        Value::Array(list) => {
            for inner in list {
                collect(inner, path, depth + 1, found);
            }
        }
        _ => {}
    }
}

/// Returns the values of a result: of JSON, or of lines such as `volume: 40`.
fn leaves(text: &str) -> Vec<Leaf> {
    let mut found = Vec::new();
    let inner = inner_text(text);
    match serde_json::from_str::<Value>(&inner) {
        Ok(value) => collect(&value, &[], 0, &mut found),
        Err(_) => {
            for part in inner.split([',', ';', '\n', '，', '；', '。']) {
                if let Some((key, value)) = part.split_once([':', '：', '=']) {
                    found.push(Leaf {
                        path: Vec::new(),
                        key: words(key),
                        value: Value::String(value.trim().to_owned()),
                        beside: Vec::new(),
                    });
                }
            }
        }
    }
    found
}

/// Reads a value as on or off.
fn is_on(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(is_on) => Some(*is_on),
        Value::Number(number) => number.as_f64().map(|number| number > 0.0),
        Value::String(text) => match text.to_lowercase().as_str() {
            "on" | "open" | "true" | "yes" | "playing" | "opening" | "charging" | "开" | "开着"
            | "打开" | "heat" | "cool" | "auto" | "cleaning" => Some(true),
            "off" | "closed" | "false" | "no" | "paused" | "idle" | "stopped" | "standby"
            | "closing" | "discharging" | "docked" | "关" | "关着" | "关闭" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the one flag that is called so.
pub(super) fn flag(text: &str, names: &[&str]) -> Option<bool> {
    let all = leaves(text);
    let mut found =
        all.iter().filter(|leaf| names.contains(&leaf.key.as_str())).filter_map(|leaf| match &leaf
            .value
        {
            Value::Number(_) => None,
            value => is_on(value),
        });
    let first = found.next()?;
    found.all(|flag| flag == first).then_some(first)
}

/// Returns the one text that is called so.
pub(super) fn text_of(text: &str, names: &[&str]) -> Option<String> {
    let all = leaves(text);
    let mut found = all
        .iter()
        .filter(|leaf| names.contains(&leaf.key.as_str()))
        .filter_map(|leaf| leaf.value.as_str())
        .filter(|text| !text.trim().is_empty());
    let first = found.next()?;
    found.all(|text| text == first).then(|| first.to_owned())
}

/// Reports whether words name a kind of device, and no other.
fn names_kind(text: &str, kind: usize) -> Option<bool> {
    let words = words_of_name(text);
    let named = NAMES.things_in(&words).kinds;
    (!named.is_empty()).then(|| named.iter().any(|of| NAMES.is_a(*of, kind)))
}

fn item_of(leaf: &Leaf, kind: usize, room: Option<&Room>) -> Option<Item> {
    let names_room = |text: &str| {
        let words = words_of_name(text);
        NAMES.rooms.iter().any(|group| group.is_in(&words))
    };
    let is_state = STATE_KEYS.contains(&leaf.key.as_str());
    if !is_state && !names_room(&leaf.key) && names_kind(&leaf.key, kind) != Some(true) {
        return None;
    }
    if matches!(leaf.value, Value::Number(_)) && leaf.key != "position" {
        return None;
    }
    let beside: Vec<&str> = leaf
        .beside
        .iter()
        .filter(|field| NAME_KEYS.contains(&field.0.as_str()))
        .map(|field| field.1.as_str())
        .collect();
    let around = format!("{} {} {}", leaf.path.join(" "), leaf.key, beside.join(" "));
    let of_others = leaf.beside.iter().any(|field| {
        !NAME_KEYS.contains(&field.0.as_str()) && names_kind(&field.1, kind) == Some(false)
    });
    if names_kind(&around, kind) == Some(false) || of_others {
        return None;
    }
    if room.is_some_and(|room| !is_room(&around, room)) {
        return None;
    }
    let own = beside.iter().copied().chain(leaf.path.last().map(String::as_str));
    let own = own.chain((!is_state).then_some(leaf.key.as_str()));
    let label = own.rev().find(|name| names_room(name)).or_else(|| beside.first().copied());
    Some(Item { room: label.map(str::to_owned), is_on: is_on(&leaf.value)? })
}

/// Returns the devices of a kind, in a room if one is given; `None` if there is none.
pub(super) fn items(text: &str, kind: usize, room: Option<&Room>) -> Option<Vec<Item>> {
    let all = entities(text);
    let found: Vec<Item> = if all.is_empty() {
        leaves(text).iter().filter_map(|leaf| item_of(leaf, kind, room)).collect()
    } else {
        let target = Target { kind: Some(kind), room: room.cloned(), said: Vec::new() };
        let item = |entity: &&Entity| {
            let is_on = is_on(&Value::String(entity.state.clone()))?;
            let area = Some(entity.areas.clone()).filter(|area| !area.is_empty());
            Some(Item { room: area.or_else(|| Some(entity.names.clone())), is_on })
        };
        meant(&all, &target).iter().filter_map(item).collect()
    };
    (!found.is_empty()).then_some(found)
}

/// Returns the temperature of the one climate device, in a room if one is given.
pub(super) fn of_climate(all: &[Entity], room: Option<&Room>, is_target: bool) -> Option<Fraction> {
    let names: &[&str] = if is_target {
        &["target", "temperature", "target_temperature"]
    } else {
        &["current", "current_temperature"]
    };
    let fits = |entity: &&Entity| {
        entity.domain == "climate"
            && room.is_none_or(|room| is_room(&entity.areas, room) || is_room(&entity.names, room))
    };
    let mut found = all.iter().filter(fits).filter_map(|entity| {
        entity.values.iter().find(|value| names.contains(&value.0.as_str())).map(|value| value.1)
    });
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Returns the seconds that each running timer has left; `None` if the text does not say it.
pub(super) fn lengths(text: &str) -> Option<Vec<i64>> {
    let value: Value = serde_json::from_str(&inner_text(text)).ok()?;
    let list = match &value {
        Value::Array(list) => list,
        Value::Object(object) => {
            let mut lists = object.values().filter_map(Value::as_array);
            let first = lists.next()?;
            if lists.next().is_some() {
                return None;
            }
            first
        }
        _ => return None,
    };
    list.iter().map(seconds_left).collect()
}

fn seconds_left(timer: &Value) -> Option<i64> {
    let object = timer.as_object()?;
    let numbers: Vec<(String, f64)> =
        object.iter().filter_map(|field| Some((words(field.0), field.1.as_f64()?))).collect();
    let is_left = |name: &str| LEFT_KEYS.iter().any(|key| name.split(' ').any(|word| word == *key));
    let left = numbers
        .iter()
        .find(|field| is_left(&field.0))
        .or_else(|| numbers.iter().find(|field| field.0 == "seconds"))?;
    let size = if left.0.contains("minute") || left.0.contains("分") { 60.0 } else { 1.0 };
    #[expect(clippy::cast_possible_truncation, reason = "a timer has few seconds")]
    let seconds = (left.1 * size).round() as i64;
    (seconds >= 0).then_some(seconds)
}
