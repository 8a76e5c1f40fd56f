//! What each tool does, found from its words and its schema: the effects that rules look for. Not for the choice among them.

use serde_json::{Map, Value, json};

use super::actions::{choice_effects, single_effects, timer_effects};
use super::places::{effect, fixed, place, room_in, values};
use super::schema::{Accepts, Parameter, Tool, mentions, name_words};
use super::{Effect, Input, Place, Topic};
use crate::names::Names;

pub(super) const VOLUME: [&str; 5] = ["volume", "loudness", "loud", "sound level", "音量"];
pub(super) const BRIGHTNESS: [&str; 5] = ["brightness", "bright", "backlight", "dim", "亮度"];
const SCREEN: [&str; 6] = ["screen", "display", "backlight", "lcd", "屏幕", "显示屏"];
const TEMPERATURE: [&str; 6] =
    ["temperature", "celsius", "setpoint", "degrees", "thermostat", "温度"];
const NO_ROOM_TEMPERATURE: [&str; 13] = [
    "color", "colour", "kelvin", "色温", "oven", "water", "fridge", "freezer", "kettle", "热水",
    "冰箱", "烤箱", "水温",
];
const NO_SPEAKER: [&str; 11] = [
    "alarm",
    "timer",
    "ringtone",
    "notification",
    "microphone",
    "mic",
    "闹钟",
    "铃声",
    "麦克风",
    "通知",
    "提示音",
];
const ON: [&str; 17] = [
    "kai",
    "dakai",
    "1",
    "on",
    "turn_on",
    "open",
    "enable",
    "switch_on",
    "power_on",
    "true",
    "start",
    "turnon",
    "开",
    "打开",
    "开启",
    "启动",
    "ON",
];
const OFF: [&str; 17] = [
    "guan",
    "guanbi",
    "0",
    "off",
    "turn_off",
    "close",
    "disable",
    "switch_off",
    "power_off",
    "false",
    "stop",
    "turnoff",
    "关",
    "关闭",
    "关掉",
    "停止",
    "OFF",
];
const READ: [&str; 17] = [
    "get",
    "list",
    "read",
    "query",
    "status",
    "info",
    "context",
    "check",
    "fetch",
    "describe",
    "report",
    "获取",
    "查询",
    "读取",
    "查看",
    "当前状态",
    "实时",
];
/// Returns the kinds of device that `words` name.
fn kinds(words: &[String], names: &Names) -> Vec<usize> {
    let mut found = names.things_in(words).kinds;
    if mentions(words, &["led", "leds", "bulb", "bulbs"]) {
        found.extend(names.device("light"));
    }
    found.sort_unstable();
    found.dedup();
    // A night light is a light, too: the narrower kind is meant.
    let is_narrower = |other: usize, kind: usize| other != kind && names.is_a(other, kind);
    let is_wider = |kind: usize| found.iter().any(|other| is_narrower(*other, kind));
    let narrow: Vec<usize> = found.iter().copied().filter(|kind| !is_wider(*kind)).collect();
    // A tool for floor lamps and desk lamps is one for lights.
    let Some(general) = narrow.first().map(|first| names.general(*first)) else { return narrow };
    let is_one = narrow.iter().all(|kind| names.general(*kind) == general);
    if narrow.len() > 1 && is_one { vec![general] } else { narrow }
}

/// Returns the one kind of device that a tool is for.
fn kind_of(tool: &Tool, names: &Names) -> Option<usize> {
    let in_name = kinds(&tool.name_words, names);
    let found = if in_name.is_empty() { kinds(&tool.words, names) } else { in_name };
    match found.as_slice() {
        [kind] => Some(*kind),
        _ => None,
    }
}

/// Reports whether a tool only reads.
pub(super) fn is_read(tool: &Tool) -> bool {
    let acts = ["set", "turn", "control", "start", "play", "adjust", "change"];
    mentions(&tool.name_words, &READ) && !mentions(&tool.name_words, &acts)
        || tool.words.first().is_some_and(|first| {
            matches!(
                first.as_str(),
                "get" | "gets" | "list" | "lists" | "returns" | "reads" | "provides" | "measured"
            )
        })
        || ["获取", "查询", "读取", "返回", "列出", "查看"]
            .iter()
            .any(|verb| tool.words.concat().starts_with(verb))
        || (mentions(&tool.name_words, &["state", "states"]) && !mentions(&tool.name_words, &acts))
        || (tool.parameters.is_empty()
            && mentions(&tool.words, &["state", "states", "status", "information", "状态"])
            && !mentions(&tool.name_words, &acts))
}

fn number_input(parameter: &Parameter) -> Option<Input> {
    match parameter.accepts {
        Accepts::Number { is_integer, min, max } => {
            Some(Input::Number { parameter: parameter.name.clone(), is_integer, min, max })
        }
        _ => None,
    }
}

/// Returns the one number of a tool that is about `topic`.
fn number_about<'a>(
    tool: &'a Tool,
    topic: &[&str],
    fits: fn(&Parameter) -> bool,
) -> Option<&'a Parameter> {
    let only = |of: &mut dyn Iterator<Item = &'a Parameter>| {
        let first = of.next()?;
        of.next().is_none().then_some(first)
    };
    let named: Vec<&Parameter> =
        tool.parameters.iter().filter(|p| p.is_number() && p.mentions(topic)).collect();
    if !named.is_empty() {
        return only(&mut named.into_iter()).filter(|p| fits(p));
    }
    if !tool.mentions(topic) {
        return None;
    }
    only(&mut tool.parameters.iter().filter(|p| p.is_number())).filter(|p| fits(p))
}

fn level_effects(tool: &Tool, names: &Names, found: &mut Vec<Effect>) {
    let light = names.device("light");
    let kind = kind_of(tool, names);
    if let Some(parameter) =
        number_about(tool, &VOLUME, Parameter::is_level).filter(|_| !tool.mentions(&NO_SPEAKER))
    {
        let place = place(tool, &[&parameter.name], names);
        found.extend(place.and_then(|place| {
            Some(effect(Topic::Volume, tool, number_input(parameter)?, Map::new(), place))
        }));
    }
    if let Some(parameter) = number_about(tool, &BRIGHTNESS, Parameter::is_level)
        && let Some(place) = place(tool, &[&parameter.name], names)
    {
        let is_placed = !matches!(place, Place::None);
        let is_light =
            is_placed || kind.zip(light).is_some_and(|(kind, light)| names.is_a(kind, light));
        let topic = if is_light && !tool.mentions(&SCREEN) { Topic::Dim } else { Topic::Screen };
        found.extend(
            number_input(parameter).map(|input| effect(topic, tool, input, Map::new(), place)),
        );
    }
    let is_cover = kind
        .and_then(|kind| names.devices.get(kind))
        .map_or_else(|| is_position_of_any(tool, names), |kind| kind.domain == "cover");
    if is_cover
        && let Some(parameter) = number_about(
            tool,
            &[
                "position",
                "open",
                "percent",
                "percentage",
                "level",
                "位置",
                "开合",
                "curtain",
                "窗帘",
            ],
            Parameter::is_percent,
        )
        && !is_inverted(tool, parameter)
        && let Some(place) = place(tool, &[&parameter.name], names)
    {
        found.extend(
            number_input(parameter)
                .map(|input| effect(Topic::Cover(kind), tool, input, Map::new(), place)),
        );
    }
    let is_degrees = |p: &Parameter| {
        !p.mentions(&NO_ROOM_TEMPERATURE)
            && matches!(p.accepts, Accepts::Number { max, .. } if max.is_none_or(|max| max < 60.0))
    };
    if let Some(parameter) = number_about(tool, &TEMPERATURE, is_degrees)
        .filter(|_| !tool.mentions(&NO_ROOM_TEMPERATURE))
        && let Some(place) = place(tool, &[&parameter.name], names)
    {
        found.extend(
            number_input(parameter)
                .map(|input| effect(Topic::Climate, tool, input, Map::new(), place)),
        );
    }
}

/// Reports whether a tool sets a position, and not that of another thing, such as a garage door.
fn is_position_of_any(tool: &Tool, names: &Names) -> bool {
    mentions(&tool.name_words, &["position"]) && names.things_in(&tool.name_words).others.is_empty()
}

/// Reports whether 0 is open.
fn is_inverted(tool: &Tool, parameter: &Parameter) -> bool {
    let says = |words: &[String]| {
        let after = |number: &str| {
            let at = words.iter().position(|word| word == number)?;
            words
                .iter()
                .skip(at + 1)
                .find(|word| {
                    matches!(
                        word.as_str(),
                        "open" | "closed" | "close" | "shut" | "开" | "关" | "闭"
                    )
                })
                .map(String::as_str)
        };
        matches!(after("0"), Some("open" | "开"))
            || (after("0").is_none()
                && matches!(after("100"), Some("closed" | "close" | "shut" | "关" | "闭")))
    };
    says(&tool.words) || says(&parameter.words)
}

/// Reports whether a description says that true is on or open, such as `true is on, false is off`.
fn is_true_on(words: &[String]) -> bool {
    let state = |word: &String| match word.as_str() {
        "on" | "open" | "opens" | "开" => Some(true),
        "off" | "closed" | "close" | "closes" | "关" => Some(false),
        _ => None,
    };
    let at = words.iter().position(|word| word == "true");
    at.and_then(|at| words.iter().skip(at + 1).find_map(state)) == Some(true)
}

/// Returns the options that mean on and off.
fn on_and_off(parameter: &Parameter) -> Option<(Value, Value)> {
    match &parameter.accepts {
        Accepts::Flag => {
            let says_on = [
                "on", "power", "state", "enabled", "enable", "switch", "status", "active", "value",
                "powered", "open", "开", "开关", "开启", "打开",
            ];
            let says_other = ["off", "mute", "muted", "toggle", "关"];
            let is_named = mentions(&parameter.name_words, &says_on)
                && !mentions(&parameter.name_words, &says_other);
            (is_named || is_true_on(&parameter.words)).then_some((json!(true), json!(false)))
        }
        Accepts::Options(options) => {
            let of =
                |names: &[&str]| options.iter().find(|option| names.contains(&option.as_str()));
            Some((json!(of(&ON)?), json!(of(&OFF)?)))
        }
        _ => None,
    }
}

fn switch_effects(tool: &Tool, names: &Names, found: &mut Vec<Effect>) {
    for parameter in &tool.parameters {
        let Some((on, off)) = on_and_off(parameter) else { continue };
        let is_device = |p: &&Parameter| {
            let named = values(p);
            let has_kind = |value: &(String, Vec<String>)| {
                value.1.iter().any(|name| !kinds(&name_words(name), names).is_empty())
            };
            p.name != parameter.name
                && !named.is_empty()
                && (p.mentions(&["device", "appliance", "设备", "电器"])
                    || named.iter().all(has_kind))
        };
        let device = tool.parameters.iter().find(is_device);
        if let Some(device) = device {
            device_effects(tool, parameter, device, names, found);
            continue;
        }
        let Some(kind) = kind_of(tool, names) else { continue };
        let Some(place) = place(tool, &[&parameter.name], names) else { continue };
        for (is_on, value) in [(true, on), (false, off)] {
            let fixed = fixed(&parameter.name, value);
            found.push(effect(
                Topic::Switch { kind: Some(kind), is_on },
                tool,
                Input::None,
                fixed,
                place.clone(),
            ));
        }
    }
}

/// Finds the effects of a tool with a list of devices and an action.
fn device_effects(
    tool: &Tool,
    action: &Parameter,
    device: &Parameter,
    names: &Names,
    found: &mut Vec<Effect>,
) {
    let Some((on, off)) = on_and_off(action) else { return };
    let filled = [action.name.as_str(), device.name.as_str()];
    if tool.unfilled(&filled).next().is_some() {
        return;
    }
    for (value, named) in values(device) {
        let all: Vec<Vec<String>> = named.iter().map(|name| name_words(name)).collect();
        let kinds: Vec<usize> = all.iter().flat_map(|words| kinds(words, names)).collect();
        let Some(kind) =
            kinds.first().copied().filter(|first| kinds.iter().all(|kind| kind == first))
        else {
            continue;
        };
        let place =
            all.iter().find_map(|words| room_in(words, names)).map_or(Place::None, Place::Fixed);
        for (is_on, word) in [(true, &on), (false, &off)] {
            let mut arguments = fixed(&action.name, word.clone());
            arguments.insert(device.name.clone(), json!(value));
            found.push(effect(
                Topic::Switch { kind: Some(kind), is_on },
                tool,
                Input::None,
                arguments,
                place.clone(),
            ));
        }
        let Accepts::Options(options) = &action.accepts else { continue };
        let set = options.iter().find(|option| {
            matches!(option.as_str(), "set_value" | "set" | "set_temperature" | "设置" | "调节")
        });
        let number = number_of(tool);
        let is_climate = names.devices.get(kind).is_some_and(|device| device.domain == "climate");
        if let Some(((set, number), input)) = set
            .zip(number)
            .and_then(|pair| Some((pair, number_input(pair.1)?)))
            .filter(|_| is_climate)
        {
            let mut arguments = fixed(&action.name, json!(set));
            arguments.insert(device.name.clone(), json!(value));
            if tool.unfilled(&[filled[0], filled[1], &number.name]).next().is_none() {
                found.push(effect(Topic::Climate, tool, input, arguments, place));
            }
        }
    }
}

/// Returns the one number of a tool.
fn number_of(tool: &Tool) -> Option<&Parameter> {
    let mut numbers = tool.parameters.iter().filter(|p| p.is_number());
    let first = numbers.next()?;
    numbers.next().is_none().then_some(first)
}

/// Returns the words of a name without those for on and off, and which of them it had.
fn without_state(words: &[String]) -> Option<(Vec<String>, bool)> {
    let on = ["on", "open", "enable", "开", "启"];
    let off = ["off", "close", "disable", "关", "停"];
    let is_state = |word: &String| on.contains(&word.as_str()) || off.contains(&word.as_str());
    let mut states = words.iter().filter(|word| is_state(word));
    let state = states.next()?;
    if states.next().is_some() {
        return None;
    }
    Some((
        words.iter().filter(|word| !is_state(word)).cloned().collect(),
        on.contains(&state.as_str()),
    ))
}

/// Finds pairs of tools, one of which turns on and the other off.
pub(super) fn pair_effects(tools: &[Tool], names: &Names, found: &mut Vec<Effect>) {
    for tool in tools {
        let compact: Vec<String> = split_state(&tool.name_words);
        let Some((rest, is_on)) = without_state(&compact) else { continue };
        let is_other = |other: &Tool| {
            without_state(&split_state(&other.name_words))
                .is_some_and(|state| state.0 == rest && state.1 != is_on)
        };
        if !tools.iter().any(is_other) || tool.parameters.iter().any(|p| on_and_off(p).is_some()) {
            continue;
        }
        let Some(place) = place(tool, &[], names) else { continue };
        let is_entity = matches!(place, Place::Entity { .. });
        let kind = if is_entity && kinds(&tool.name_words, names).is_empty() {
            None
        } else {
            kind_of(tool, names)
        };
        if kind.is_some() || is_entity {
            found.push(effect(Topic::Switch { kind, is_on }, tool, Input::None, Map::new(), place));
        }
    }
}

/// Splits `turnon` and the like.
fn split_state(words: &[String]) -> Vec<String> {
    let split = |word: &String| match word.as_str() {
        "turnon" | "switchon" => vec!["turn".to_owned(), "on".to_owned()],
        "turnoff" | "switchoff" => vec!["turn".to_owned(), "off".to_owned()],
        _ => vec![word.clone()],
    };
    words.iter().flat_map(split).collect()
}

/// Returns all effects of the tools.
pub(super) fn effects(tools: &[Tool], names: &Names) -> Vec<Effect> {
    let mut found = Vec::new();
    for tool in tools.iter().filter(|tool| !is_read(tool)) {
        level_effects(tool, names, &mut found);
        switch_effects(tool, names, &mut found);
        choice_effects(tool, names, &mut found);
        single_effects(tool, &mut found);
        timer_effects(tool, &mut found);
    }
    let acting: Vec<Tool> = tools.iter().filter(|tool| !is_read(tool)).cloned().collect();
    pair_effects(&acting, names, &mut found);
    found
}
