//! Which offered tool does what: found once for a list of tools, from names, descriptions and schemas. Not for sentences, and not
//! for what is said about a call.

mod actions;
mod asking;
mod effects;
mod places;
mod readings;
pub(crate) mod schema;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::abilities::ABILITIES;
use crate::exact::Fraction;
use crate::length::Length;
use crate::names::NAMES;
use crate::referent::{About, Change, Referent};
use crate::value::{Room, written};

pub(crate) use asking::{DayInput, PlayTool, WeatherTool};
pub use schema::OfferedTool;
use schema::name_words;
pub(crate) use schema::{Accepts, Parameter, Tool};

/// What can be done with music.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Next,
    Previous,
    Pause,
    Resume,
    Stop,
}

/// Which timers a call cancels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// The one that runs: nothing tells which.
    Running,
    /// The one of a length of time.
    OfLength,
    All,
}

/// What a call of a tool changes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Topic {
    Volume,
    /// Brightness of the screen.
    Screen,
    /// Brightness of a light.
    Dim,
    /// Position of a kind of cover; `None` stands for any kind.
    Cover(Option<usize>),
    Climate,
    /// A kind of device is switched; `None` stands for any kind.
    Switch {
        kind: Option<usize>,
        is_on: bool,
    },
    Theme {
        is_dark: bool,
    },
    /// A scene with its names.
    Scene(Vec<Vec<String>>),
    Media(Action),
    Timer,
    TimerCancel(Cancelled),
    Alarm,
    Reminder,
}

/// Argument that a rule fills.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Input {
    None,
    Number {
        parameter: String,
        is_integer: bool,
        min: Option<f64>,
        max: Option<f64>,
    },
    /// Numbers with their size in seconds.
    Seconds(Vec<(String, i64)>),
    /// Time of day as HH:MM.
    Clock(String),
    /// Hour and minute of the day.
    HourMinute(String, String),
    /// Text of a reminder, and a number with its size in seconds.
    Reminder(String, (String, i64)),
}

/// How a tool receives the place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    None,
    /// The tool is for one group of rooms.
    Fixed(usize),
    /// A parameter names the room; `rooms` are the values with their names, empty if any text is accepted.
    Room {
        parameter: String,
        is_required: bool,
        rooms: Vec<(String, Vec<Vec<String>>)>,
    },
    /// Parameters of Home Assistant: the area, the name of the entity, and the domain with whether it is a list.
    Entity {
        area: String,
        name: String,
        domain: Option<(String, bool)>,
    },
}

/// One effect of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Effect {
    pub(crate) topic: Topic,
    pub(crate) tool: String,
    pub(crate) fixed: Map<String, Value>,
    pub(crate) input: Input,
    pub(crate) place: Place,
}

/// Tool that reads a state.
#[derive(Debug, Clone)]
struct Reading {
    tool: String,
    name_words: Vec<String>,
    words: Vec<String>,
    /// How it receives the room, if it has an argument for it.
    place: Place,
}

/// What the offered tools can do. Computed once for a list of tools.
#[derive(Debug, Clone, Default)]
pub struct Bindings {
    effects: Vec<Effect>,
    /// Tools that do not read.
    acting: Vec<Tool>,
    readings: Vec<Reading>,
    weather: Vec<WeatherTool>,
    plays: Vec<PlayTool>,
    /// Tools that read the state of a room, which they must be given.
    room_readings: Vec<Reading>,
    rooms: Vec<Vec<String>>,
    scenes: Vec<Vec<String>>,
    has_reminders: bool,
    has_timers: bool,
    has_alarms: bool,
    /// True if a tool may stop something that moves or works.
    halts: bool,
    /// Abilities that a tool may provide.
    abilities: BTreeSet<String>,
}

/// Words of tools that stop something, and of what moves or works until it is stopped.
const HALTING: [&str; 10] =
    ["stop", "halt", "freeze", "brake", "standby", "停止", "停下", "急停", "站住", "刹车"];
const MOVING: [&str; 26] = [
    "robot",
    "walk",
    "drive",
    "chassis",
    "motor",
    "dance",
    "vacuum",
    "mower",
    "drone",
    "wheel",
    "arm",
    "servo",
    "move",
    "movement",
    "gait",
    "机器人",
    "机器狗",
    "行走",
    "走路",
    "前进",
    "跳舞",
    "扫地",
    "底盘",
    "舵机",
    "电机",
    "无人机",
];

/// Reports whether a tool may stop something that moves or works.
fn is_halting(tool: &Tool, effects: &[Effect]) -> bool {
    let is_other = effects.iter().any(|effect| effect.tool == tool.name);
    !is_other && !effects::is_read(tool) && (tool.mentions(&HALTING) || tool.mentions(&MOVING))
}

/// Effect with the arguments of its place.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    pub(crate) effect: Effect,
    pub(crate) place: Map<String, Value>,
    /// True if the name of an entity has to be found first.
    pub(crate) needs_entity: bool,
}

/// Where a sentence wants something done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) room: Option<&'a Room>,
    /// Room of the sentence before, for tools that need one.
    pub(crate) last: Option<&'a Room>,
    /// Domain of Home Assistant, and whether it is narrow enough to stand alone.
    pub(crate) domain: Option<(&'a str, bool)>,
}

impl Bindings {
    /// Finds what the tools do.
    pub fn of(tools: &[OfferedTool<'_>]) -> Self {
        let abilities = ABILITIES.of(tools);
        let tools: Vec<Tool> = tools.iter().filter_map(Tool::read).collect();
        let effects = effects::effects(&tools, &NAMES);
        let mut readings = Vec::new();
        let mut room_readings = Vec::new();
        for tool in tools.iter().filter(|tool| effects::is_read(tool)) {
            let place = places::place(tool, &[], &NAMES);
            let is_open = tool.unfilled(&[]).next().is_none();
            if !is_open && !matches!(place, Some(Place::Room { .. })) {
                continue;
            }
            let reading = Reading {
                tool: tool.name.clone(),
                name_words: tool.name_words.clone(),
                words: tool.words.clone(),
                place: place.unwrap_or(Place::None),
            };
            if is_open {
                readings.push(reading);
            } else {
                room_readings.push(reading);
            }
        }
        let mut rooms: Vec<Vec<String>> = room_readings.iter().flat_map(readings::rooms).collect();
        let mut scenes = Vec::new();
        for effect in &effects {
            if let Place::Room { rooms: values, .. } = &effect.place {
                rooms.extend(values.iter().flat_map(|value| value.1.iter().cloned()));
            }
            if let Topic::Scene(words) = &effect.topic {
                scenes.extend(words.iter().cloned());
            }
        }
        let mention = |names: &[&str]| tools.iter().any(|tool| tool.mentions(names));
        Self {
            readings,
            room_readings,
            weather: tools.iter().filter_map(asking::weather).collect(),
            plays: tools.iter().filter_map(asking::play).collect(),
            rooms,
            scenes,
            has_reminders: mention(&[
                "reminder",
                "reminders",
                "remind",
                "提醒",
                "calendar",
                "日历",
                "todo",
                "日程",
                "待办",
            ]),
            has_timers: mention(&["timer", "timers", "countdown", "计时", "倒计时", "定时"]),
            has_alarms: mention(&["alarm", "alarms", "闹钟"]),
            halts: tools.iter().any(|tool| is_halting(tool, &effects)),
            abilities,
            effects,
            acting: tools.into_iter().filter(|tool| !effects::is_read(tool)).collect(),
        }
    }

    /// Removes the schemas of the tools, which only lenient commands need.
    pub fn forget_schemas(&mut self) {
        self.acting = Vec::new();
    }

    /// Returns the tools that do not read, if their schemas are needed.
    pub(crate) fn acting(&self) -> &[Tool] {
        &self.acting
    }

    /// Reports whether a topic knows what a tool does.
    pub(crate) fn knows(&self, tool: &str) -> bool {
        self.effects.iter().any(|effect| effect.tool == tool)
    }

    /// Returns the names of rooms that tools list.
    pub(crate) fn rooms(&self) -> impl Iterator<Item = &[String]> {
        self.rooms.iter().map(Vec::as_slice)
    }

    /// Returns the names of scenes that tools list.
    pub(crate) fn scenes(&self) -> impl Iterator<Item = &[String]> {
        self.scenes.iter().map(Vec::as_slice)
    }

    /// Returns the tools that know the weather.
    pub(crate) fn weather(&self) -> &[WeatherTool] {
        &self.weather
    }

    /// Returns the one tool that plays music by a title; `None` if there is none, or more than one.
    pub(crate) fn play(&self) -> Option<&PlayTool> {
        if let [only] = self.plays.as_slice() { Some(only) } else { None }
    }

    /// Reports whether a tool has to do with reminders, timers or alarms.
    pub(crate) fn has(&self, what: &str) -> bool {
        match what {
            "timer" => self.has_timers || self.has_reminders,
            "alarm" => self.has_alarms || self.has_reminders || self.has_timers,
            _ => self.has_reminders || self.has_timers || self.has_alarms,
        }
    }

    /// Reports whether a tool may stop something that moves or works, such as a robot. Music does not count.
    pub(crate) fn halts(&self) -> bool {
        self.halts
    }

    /// Reports whether a tool may provide an ability.
    pub(crate) fn may_provide(&self, ability: &str) -> bool {
        self.abilities.contains(ability)
    }

    /// Returns what a call of the model changed; `None` if no rule could have made the call.
    pub fn referent_of(&self, tool: &str, arguments: &Map<String, Value>) -> Option<Referent> {
        let is_effect = |effect: &&Effect| {
            effect.tool == tool
                && effect.fixed.iter().all(|(key, value)| arguments.get(key) == Some(value))
        };
        let mut found = self.effects.iter().filter(is_effect);
        let effect = found.next()?;
        if found.next().is_some() {
            return None;
        }
        let number =
            |parameter: &String| Fraction::from_digits(&arguments.get(parameter)?.to_string());
        let value = match &effect.input {
            Input::None => None,
            Input::Number { parameter, .. } => Some(number(parameter)?),
            _ => return None,
        };
        let room = match &effect.place {
            Place::Room { parameter, .. } => arguments.get(parameter).and_then(Value::as_str),
            Place::Entity { area, .. } => arguments.get(area).and_then(Value::as_str),
            Place::None | Place::Fixed(_) => None,
        };
        let rooms = room.map(|said| {
            let words = name_words(said);
            Room { said: written(&words), group: NAMES.room(&words), words }
        });
        let about = match &effect.topic {
            Topic::Volume => About::Volume,
            Topic::Screen => About::Screen,
            Topic::Dim => About::Dim,
            Topic::Cover(_) => About::Cover,
            Topic::Climate => About::Climate,
            Topic::Switch { kind: Some(kind), is_on } => {
                About::Switch { kind: *kind, is_on: *is_on }
            }
            Topic::Media(_) => About::Music,
            _ => return None,
        };
        Some(Referent::new(about, rooms.into_iter().collect(), value))
    }

    /// Returns the effects for which `wanted` holds.
    pub(crate) fn of_topic<'a>(
        &'a self,
        wanted: impl Fn(&Topic) -> bool + 'a,
    ) -> impl Iterator<Item = &'a Effect> {
        self.effects.iter().filter(move |effect| wanted(&effect.topic))
    }

    /// Returns the one effect that fits the place; `None` if there is none, or more than one.
    pub(crate) fn find(&self, topic: impl Fn(&Topic) -> bool, wanted: Wanted<'_>) -> Option<Bound> {
        let mut found = self.of_topic(topic).filter_map(|effect| bind(effect, wanted));
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    /// Returns the tool that reads the state of what `names` say; `None` if there is none, or more than one.
    pub(crate) fn reading(&self, names: &[&str]) -> Option<&str> {
        let only = |of: &mut dyn Iterator<Item = &Reading>| {
            let first = of.next().map(|reading| reading.tool.clone())?;
            of.next().is_none().then_some(first)
        };
        let about = |reading: &&Reading| {
            schema::mentions(&reading.name_words, names) || schema::mentions(&reading.words, names)
        };
        let tool = only(&mut self.readings.iter().filter(about)).or_else(|| {
            let is_general = |reading: &&Reading| {
                schema::mentions(&reading.words, &["state", "status", "状态"])
                    || schema::mentions(&reading.name_words, &["state", "status"])
            };
            let has_special = self.readings.iter().any(|reading| about(&reading));
            if has_special { None } else { only(&mut self.readings.iter().filter(is_general)) }
        })?;
        self.readings
            .iter()
            .find(|reading| reading.tool == tool)
            .map(|reading| reading.tool.as_str())
    }

    /// Returns the tool that lists the entities of Home Assistant with their states.
    pub(crate) fn entities(&self) -> Option<&str> {
        // Its name is often changed; only homes with entities have one.
        let has_entities =
            self.effects.iter().any(|effect| matches!(effect.place, Place::Entity { .. }));
        let is_context = |reading: &&Reading| {
            schema::mentions(&reading.name_words, &["context", "entities"])
                || has_entities
                    && schema::mentions(&reading.words, &["areas", "entities", "实体", "区域"])
        };
        let mut found = self.readings.iter().filter(is_context);
        let first = found.next()?;
        found.next().is_none().then_some(first.tool.as_str())
    }
}

/// Number from which steps of a percent scale are percents.
const MANY: i64 = 5;
/// Longest scale whose numbers are steps that people say.
const MOST_STEPS: i64 = 20;

/// Names of a light, by which tools that read its brightness are known.
pub(crate) const LIGHT_NAMES: [&str; 5] = ["light", "lights", "lamp", "lighting", "灯"];
/// Names of the volume.
pub(crate) const VOLUME_NAMES: [&str; 5] = effects::VOLUME;
/// Names of the brightness.
pub(crate) const BRIGHTNESS_NAMES: [&str; 5] = effects::BRIGHTNESS;

/// Reports whether a room is called after its neighbour where only one of them has a name: hall and entrance.
fn is_near(words: &[String], room: &Room) -> bool {
    let of = |name: &str| NAMES.room(&[name.to_owned()]);
    let hall = of("hall");
    let entrance = of("entrance");
    let group = NAMES.room(words);
    room.group.is_some()
        && ((group == hall && room.group == entrance) || (group == entrance && room.group == hall))
}

/// Returns the value by which a tool knows a room.
fn room_value(rooms: &[(String, Vec<Vec<String>>)], room: &Room) -> Option<String> {
    if rooms.is_empty() {
        return Some(room.said.clone());
    }
    let exact = rooms.iter().find(|value| value.1.contains(&room.words));
    let mut same = rooms.iter().filter(|value| {
        room.group.is_some() && value.1.iter().any(|words| NAMES.room(words) == room.group)
    });
    let mut near = rooms.iter().filter(|value| value.1.iter().any(|words| is_near(words, room)));
    let found = exact.or_else(|| match same.next() {
        Some(first) => same.next().is_none().then_some(first),
        None => {
            let first = near.next()?;
            near.next().is_none().then_some(first)
        }
    })?;
    Some(found.0.clone())
}

fn bind(effect: &Effect, wanted: Wanted<'_>) -> Option<Bound> {
    let mut place = Map::new();
    let mut needs_entity = false;
    match (&effect.place, wanted.room) {
        (Place::None, None) | (Place::Fixed(_), None) => {}
        (Place::None, Some(_)) => return None,
        (Place::Fixed(group), Some(room)) => {
            if room.group != Some(*group) {
                return None;
            }
        }
        (Place::Room { parameter, is_required, rooms }, room) => {
            let is_light =
                matches!(effect.topic, Topic::Switch { .. } | Topic::Dim | Topic::Cover(_));
            let value = match room {
                Some(room) => room_value(rooms, room),
                None => {
                    wanted.last.and_then(|last| room_value(rooms, last)).or_else(|| {
                        match rooms.as_slice() {
                            [only] => Some(only.0.clone()),
                            _ => None,
                        }
                    })
                }
            };
            match value {
                Some(value) => {
                    place.insert(parameter.clone(), json!(value));
                }
                None if room.is_none() && !is_required && !is_light => {}
                None => return None,
            }
        }
        (Place::Entity { area, domain, .. }, room) => {
            let is_own = matches!(effect.topic, Topic::Volume | Topic::Climate | Topic::Dim);
            let room = room
                .or_else(|| if is_own && effect.topic != Topic::Dim { None } else { wanted.last });
            if let Some(room) = room {
                place.insert(area.clone(), json!(room.said));
            }
            let (wanted_domain, is_narrow) = wanted.domain.unwrap_or(("", false));
            if let Some((parameter, is_list)) =
                domain.as_ref().filter(|_| !wanted_domain.is_empty())
            {
                let value = if *is_list { json!([wanted_domain]) } else { json!(wanted_domain) };
                place.insert(parameter.clone(), value);
            }
            let is_alone = matches!(effect.topic, Topic::Volume | Topic::Climate);
            needs_entity = !(is_alone
                || room.is_some() && (effect.topic == Topic::Dim || is_narrow && domain.is_some()));
        }
    }
    Some(Bound { effect: effect.clone(), place, needs_entity })
}

impl Bound {
    /// Returns the end of a scale that is no percent; `None` for percents and degrees.
    fn scale(&self) -> Option<Fraction> {
        let is_level = matches!(
            self.effect.topic,
            Topic::Volume | Topic::Screen | Topic::Dim | Topic::Cover(_)
        );
        match self.effect.input {
            Input::Number { max: Some(max), .. } if is_level && !(99.0..=101.0).contains(&max) => {
                #[expect(clippy::cast_possible_truncation, reason = "a scale ends at 255")]
                let end = max as i64;
                Some(Fraction::whole(end))
            }
            _ => None,
        }
    }

    /// Returns a level on the scale of the tool; `None` if a plain number may mean both a percent and a step.
    pub(crate) fn on_scale(&self, level: Fraction, is_share: bool) -> Option<Fraction> {
        let Some(end) = self.scale() else { return Some(level) };
        if is_share {
            let value = level.times(end)?.over(Fraction::whole(100))?.rounded()?;
            let is_some = value == 0 && !level.is_zero();
            return Some(Fraction::whole(if is_some { 1 } else { value }));
        }
        (end <= Fraction::whole(MOST_STEPS)).then_some(level)
    }

    /// Returns what a change adds on the scale of the tool.
    pub(crate) fn step(&self, change: &Change) -> Option<Fraction> {
        let end = self.scale();
        // `ten more` are ten percent, `two notches` are steps.
        if change.is_steps && end.is_none() && change.by.absolute() >= Fraction::whole(MANY) {
            return Some(change.by);
        }
        if change.is_steps {
            let is_short = end.is_some_and(|end| end <= Fraction::whole(MOST_STEPS));
            let size = Fraction::whole(if is_short { 1 } else { 10 });
            let size = end
                .filter(|_| !is_short)
                .map_or(Some(size), |end| end.times(size)?.over(Fraction::whole(100)));
            return Some(Fraction::whole(change.by.times(size?)?.rounded()?));
        }
        if end.is_none() {
            return Some(change.by);
        }
        let step = self.on_scale(change.by.absolute(), true)?;
        Some(if change.by.is_negative() { step.negated() } else { step })
    }

    /// Returns a value on the scale of the tool as it is said: that of a light or a cover in percent.
    pub(crate) fn shown(&self, value: Fraction) -> Option<Fraction> {
        match self.scale() {
            Some(end) if matches!(self.effect.topic, Topic::Dim | Topic::Cover(_)) => {
                Some(Fraction::whole(value.times(Fraction::whole(100))?.over(end)?.rounded()?))
            }
            _ => Some(value),
        }
    }

    /// Returns the arguments for a number; `None` if the tool does not accept it.
    pub(crate) fn with_number(&self, value: Fraction) -> Option<Map<String, Value>> {
        let Input::Number { parameter, is_integer, min, max } = &self.effect.input else {
            return None;
        };
        let number = value.as_f64();
        if min.is_some_and(|min| number < min) || max.is_some_and(|max| number > max) {
            return None;
        }
        let value = match value.as_whole() {
            Some(whole) => json!(whole),
            None if *is_integer => return None,
            None => serde_json::from_str(&value.digits(3)?.text).ok()?,
        };
        let mut all = self.arguments();
        all.insert(parameter.clone(), value);
        Some(all)
    }

    /// Returns the arguments for a length of time; `None` if the tool has no argument for it.
    pub(crate) fn with_seconds(&self, length: Length) -> Option<Map<String, Value>> {
        let Input::Seconds(parameters) = &self.effect.input else { return None };
        if length.months > 0 {
            return None;
        }
        let mut left = length.seconds.checked_add(length.days.checked_mul(86_400)?)?;
        let mut all = self.arguments();
        let mut sorted = parameters.clone();
        sorted.sort_by_key(|parameter| std::cmp::Reverse(parameter.1));
        for (parameter, size) in sorted {
            if left >= size {
                all.insert(parameter, json!(left / size));
                left %= size;
            }
        }
        (left == 0 && length != Length::default()).then_some(all)
    }

    /// Returns the arguments for a time of day.
    pub(crate) fn with_clock(&self, hour: i64, minute: i64) -> Option<Map<String, Value>> {
        let mut all = self.arguments();
        match &self.effect.input {
            Input::Clock(parameter) => {
                all.insert(parameter.clone(), json!(format!("{hour:02}:{minute:02}")));
            }
            Input::HourMinute(hours, minutes) => {
                all.insert(hours.clone(), json!(hour));
                all.insert(minutes.clone(), json!(minute));
            }
            _ => return None,
        }
        Some(all)
    }

    /// Returns the arguments for a reminder after a length of time.
    pub(crate) fn with_reminder(&self, text: &str, length: Length) -> Option<Map<String, Value>> {
        let Input::Reminder(what, (parameter, size)) = &self.effect.input else { return None };
        let seconds = length.seconds.checked_add(length.days.checked_mul(86_400)?)?;
        if length.months > 0 || seconds < *size || seconds % size != 0 {
            return None;
        }
        let mut all = self.arguments();
        all.insert(what.clone(), json!(text));
        all.insert(parameter.clone(), json!(seconds / size));
        Some(all)
    }

    /// Returns the arguments without a value.
    pub(crate) fn arguments(&self) -> Map<String, Value> {
        let mut all = self.effect.fixed.clone();
        all.extend(self.place.clone());
        all
    }
}

/// Reports whether a name of a scene is the same as what was said.
pub(crate) fn is_same_scene(
    named: &[Vec<String>],
    said: &[String],
    group: Option<&crate::names::Group>,
) -> bool {
    named.iter().any(|words| words == said || group.is_some_and(|group| group.has(words)))
}

/// Returns the words of a name of a tool, such as that of an entity.
pub(crate) fn words_of_name(name: &str) -> Vec<String> {
    name_words(name)
}

#[cfg(test)]
mod tests;
