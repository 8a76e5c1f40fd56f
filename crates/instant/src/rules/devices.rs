//! Rules that call tools: volume, brightness, lights and other devices, covers, climate, scenes, music, timers and alarms. Not for
//! utterances that refer to the one before, see `reference`.

use hearken_base::language::Language;
use jiff::ToSpan;
use serde_json::Map;

use super::Setting;
use crate::act::Act;
use crate::act::Target;
use crate::bindings::{
    Action, BRIGHTNESS_NAMES, Bound, LIGHT_NAMES, Topic, VOLUME_NAMES, Wanted, is_same_scene,
};
use crate::day_parts::Half;
use crate::exact::Fraction;
use crate::names::NAMES;
use crate::phrases::{Sentence, Subject, clock, length};
use crate::referent::{About, Call, Change, Referent};
use crate::template::Slots;
use crate::times::Clock;
use crate::value::{Room, Value};

/// Kinds of device whose domain of Home Assistant has no other kinds.
const NARROW: [&str; 3] = ["light", "vacuum", "water_heater"];
/// Most rooms of one command.
const MOST_ROOMS: usize = 6;
/// Highest temperature that is set: a higher one may be that of a person.
const MOST_DEGREES: i64 = 32;

pub(super) fn nowhere() -> Wanted<'static> {
    Wanted { room: None, last: None, domain: None }
}

/// Value to which something is set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Amount {
    /// Number as it was said, without a unit.
    Plain(Fraction),
    /// Percent.
    Share(Fraction),
    /// Value on the scale of the tool.
    Own(Fraction),
}

impl Amount {
    /// Returns the number.
    pub(super) fn value(self) -> Fraction {
        match self {
            Self::Plain(value) | Self::Share(value) | Self::Own(value) => value,
        }
    }
}

/// Returns the level of a slot: a number, or the end of the range that the template names.
pub(super) fn level(slots: &Slots) -> Option<Amount> {
    match slots.text("to") {
        "max" => return Some(Amount::Share(Fraction::whole(100))),
        "min" => return Some(Amount::Share(Fraction::whole(5))),
        "none" => return Some(Amount::Share(Fraction::ZERO)),
        "half" => return Some(Amount::Share(Fraction::whole(50))),
        _ => {}
    }
    match slots.get("level") {
        Some(Value::Level(level, true)) => Some(Amount::Share(*level)),
        Some(Value::Level(level, false)) => Some(Amount::Plain(*level)),
        _ => None,
    }
}

pub(super) fn call(bound: &Bound, arguments: Map<String, serde_json::Value>) -> Call {
    Call { tool: bound.effect.tool.clone(), arguments }
}

/// Returns the name of what a level is of.
fn level_name(about: &About) -> (&'static str, &'static str) {
    match about {
        About::Volume => ("音量", "volume"),
        About::Screen => ("屏幕亮度", "screen brightness"),
        About::Dim => ("灯光亮度", "light brightness"),
        About::Cover => ("窗帘", "curtain"),
        _ => ("温度", "temperature"),
    }
}

fn level_unit(about: &About) -> (&'static str, &'static str) {
    match about {
        About::Climate => ("度", " degrees"),
        About::Cover | About::Dim => ("%", " percent"),
        _ => ("", ""),
    }
}

fn level_subject(about: &About, room: Option<Room>, value: Fraction) -> Option<Subject> {
    Some(Subject::Level {
        name: level_name(about),
        room,
        value: value.digits(1)?.text,
        unit: level_unit(about),
    })
}

/// Makes the act that sets a level at one place.
pub(super) fn set_level(
    about: &About,
    room: Option<&Room>,
    amount: Amount,
    setting: &Setting<'_>,
) -> Option<Act> {
    set_level_of(about, None, room, amount, setting)
}

/// Makes the act that sets a level of a kind of device, if one is said.
fn set_level_of(
    about: &About,
    kind: Option<usize>,
    room: Option<&Room>,
    amount: Amount,
    setting: &Setting<'_>,
) -> Option<Act> {
    let last = setting.last.and_then(|last| last.rooms.first());
    let is_placed = matches!(about, About::Dim | About::Cover | About::Climate);
    let domain = match about {
        About::Dim => Some(("light", true)),
        About::Cover => Some(("cover", true)),
        About::Climate => Some(("climate", false)),
        _ => None,
    };
    let wanted = Wanted { room, last: last.filter(|_| is_placed), domain };
    let bound = setting.context.bindings.find(|topic| is_of(topic, about, kind), wanted)?;
    let place = room.or(wanted.last.filter(|_| !bound.place.is_empty())).cloned();
    let value = match amount {
        Amount::Plain(value) => bound.on_scale(value, false)?,
        Amount::Share(value) => bound.on_scale(value, true)?,
        Amount::Own(value) => value,
    };
    let shown = match amount {
        Amount::Share(value) if level_unit(about).0 == "%" => value,
        _ => bound.shown(value)?,
    };
    let referent = Referent::new(about.clone(), place.iter().cloned().collect(), Some(value));
    let subject = level_subject(about, place.clone(), shown)?;
    if bound.needs_entity {
        let general = if *about == About::Cover { "curtain" } else { "light" };
        let kind = kind.or_else(|| NAMES.device(general))?;
        return entity(bound, kind, place, Some(value), subject, referent, setting);
    }
    let arguments = bound.with_number(value)?;
    Some(Act::Do { call: call(&bound, arguments), subject, referent: Some(referent) })
}

/// Reports whether a topic is that of a level, and of a kind of device if one is said.
fn is_of(topic: &Topic, about: &About, kind: Option<usize>) -> bool {
    match (about, topic) {
        (About::Cover, Topic::Cover(of)) => {
            kind.zip(*of).is_none_or(|(kind, of)| is_same_kind(kind, of))
        }
        (About::Volume, topic) => *topic == Topic::Volume,
        (About::Screen, topic) => *topic == Topic::Screen,
        (About::Dim, topic) => *topic == Topic::Dim,
        (_, topic) => *topic == Topic::Climate && *about != About::Cover,
    }
}

/// Reports whether one kind of device is the other, or a sort of it.
fn is_same_kind(one: usize, other: usize) -> bool {
    NAMES.is_a(one, other) || NAMES.is_a(other, one)
}

#[expect(clippy::unnecessary_wraps, reason = "used with `?` in its callers")]
fn some(acts: Vec<Act>) -> Option<Vec<Act>> {
    Some(acts)
}

/// Makes the act that first finds the one entity that is meant.
fn entity(
    bound: Bound,
    kind: usize,
    room: Option<Room>,
    value: Option<Fraction>,
    subject: Subject,
    referent: Referent,
    setting: &Setting<'_>,
) -> Option<Act> {
    let tool = setting.context.bindings.entities()?.to_owned();
    let read = Call { tool, arguments: Map::new() };
    let target = Target { kind: Some(kind), room, said: Vec::new() };
    Some(Act::Entity { read, bound, target, value, subject, referent, left: Vec::new() })
}

/// Makes the acts that set a level in each of some rooms.
fn set_levels(
    about: &About,
    kind: Option<usize>,
    rooms: &[Room],
    amount: Amount,
    setting: &Setting<'_>,
) -> Option<Vec<Act>> {
    if rooms.is_empty() {
        return some(vec![set_level_of(about, kind, None, amount, setting)?]);
    }
    rooms
        .iter()
        .take(MOST_ROOMS)
        .map(|room| set_level_of(about, kind, Some(room), amount, setting))
        .collect()
}

/// Returns the signed change of a relative command, in percent.
fn change(slots: &Slots) -> Option<Change> {
    let is_steps = slots.get("steps").is_some();
    let step = match (slots.get("level"), slots.get("steps").or(slots.get("number"))) {
        (Some(Value::Level(level, _)), _) => *level,
        (_, Some(Value::Number(number))) => *number,
        _ => match slots.text("size") {
            "small" => Fraction::whole(10),
            "large" => Fraction::whole(25),
            _ => Fraction::whole(15),
        },
    };
    match slots.text("way") {
        "up" => Some(Change { by: step, is_steps }),
        "down" => Some(Change { by: step.negated(), is_steps }),
        _ => None,
    }
}

/// Makes the act that changes a level by reading it first, or from the last value if nothing reads it.
pub(super) fn change_level(
    about: &About,
    room: Option<&Room>,
    change: Change,
    setting: &Setting<'_>,
) -> Option<Act> {
    let names: &[&str] = match about {
        About::Volume => &VOLUME_NAMES,
        About::Screen => &BRIGHTNESS_NAMES,
        About::Dim => &LIGHT_NAMES,
        _ => &[],
    };
    let bindings = setting.context.bindings;
    let reading = match about {
        About::Climate => bindings.entities(),
        _ => bindings.reading(names).or_else(|| bindings.entities()),
    };
    let last = setting.last.filter(|last| last.about == *about);
    let known = last.and_then(|last| last.value);
    let Some(tool) = reading else {
        let room = room.or_else(|| last.and_then(|last| last.rooms.first()));
        return change_known(about, room, known?, &change, setting);
    };
    let read = Call { tool: tool.to_owned(), arguments: Map::new() };
    let place = room.or_else(|| setting.last.and_then(|last| last.rooms.first()));
    let is_placed = matches!(about, About::Dim | About::Climate);
    let wanted = Wanted { room, last: place.filter(|_| is_placed), domain: None };
    let bound = bindings.find(|topic| is_of(topic, about, None), wanted)?;
    if bound.needs_entity {
        return None;
    }
    let place = place.filter(|_| is_placed && !bound.place.is_empty()).cloned();
    let referent = Referent::new(about.clone(), place.iter().cloned().collect(), None);
    let subject = level_subject(about, place, Fraction::ZERO)?;
    Some(Act::Change { read, bound, change, subject, referent })
}

/// Makes the act that changes a level from the value that the last answer set.
fn change_known(
    about: &About,
    room: Option<&Room>,
    known: Fraction,
    change: &Change,
    setting: &Setting<'_>,
) -> Option<Act> {
    let domain = (*about == About::Dim).then_some(("light", true));
    let wanted = Wanted { room, last: None, domain };
    let bound = setting.context.bindings.find(|topic| is_of(topic, about, None), wanted)?;
    let value = known.plus(bound.step(change)?)?;
    let value = if value.is_negative() { Fraction::ZERO } else { value };
    let most = match about {
        About::Climate => Fraction::whole(40),
        _ => bound.on_scale(Fraction::whole(100), true)?,
    };
    let value = if value > most { most } else { value };
    set_level(about, room, Amount::Own(value), setting)
}

pub(super) fn volume(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let value = level(slots)?;
    let act = set_level(&About::Volume, None, value, setting)?;
    if slots.text("to") != "none" {
        return some(vec![act]);
    }
    let Act::Do { call, referent, .. } = act else { return None };
    let subject = Subject::fixed(
        Sentence::new("已经静音了。", "The sound is now off."),
        Sentence::new("抱歉，没能静音。", "Sorry, I couldn't mute the sound."),
    );
    some(vec![Act::Do { call, subject, referent }])
}

pub(super) fn volume_change(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    // `turn it down` is said of the heating and of lights, too.
    let has_other = || {
        setting
            .context
            .bindings
            .of_topic(|topic| matches!(topic, Topic::Climate | Topic::Dim))
            .next()
            .is_some()
    };
    if slots.text("form") == "it" && has_other() {
        return None;
    }
    some(vec![change_level(&About::Volume, None, change(slots)?, setting)?])
}

/// Returns whether the screen or a light is meant by brightness.
fn brightness_of(slots: &Slots, setting: &Setting<'_>) -> Option<About> {
    match slots.text("of") {
        "screen" => return Some(About::Screen),
        "light" => return Some(About::Dim),
        _ if !Setting::rooms(slots).is_empty() => return Some(About::Dim),
        _ => {}
    }
    if let Some(last) = setting.last {
        match last.about {
            About::Dim | About::Screen => return Some(last.about.clone()),
            About::Switch { kind, is_on: true } if Some(kind) == NAMES.device("light") => {
                return Some(About::Dim);
            }
            _ => {}
        }
    }
    let bindings = setting.context.bindings;
    let has_screen = bindings.of_topic(|topic| *topic == Topic::Screen).next().is_some();
    let has_light = bindings.of_topic(|topic| *topic == Topic::Dim).next().is_some();
    match (has_screen, has_light) {
        (true, false) => Some(About::Screen),
        (false, true) => Some(About::Dim),
        _ => None,
    }
}

pub(super) fn brightness(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let about = brightness_of(slots, setting)?;
    set_levels(&about, None, &Setting::rooms(slots), level(slots)?, setting)
}

pub(super) fn brightness_change(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let about = brightness_of(slots, setting)?;
    let rooms = Setting::rooms(slots);
    if rooms.len() > 1 {
        return None;
    }
    some(vec![change_level(&about, rooms.first(), change(slots)?, setting)?])
}

pub(super) fn theme(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let is_dark = slots.text("theme") == "dark";
    let bound =
        setting.context.bindings.find(|topic| *topic == Topic::Theme { is_dark }, nowhere())?;
    let subject = if is_dark {
        Subject::fixed(
            Sentence::new("换成深色主题了。", "The screen is now set to dark."),
            Sentence::new("抱歉，没能换成深色主题。", "Sorry, I couldn't change the theme."),
        )
    } else {
        Subject::fixed(
            Sentence::new("换成浅色主题了。", "The screen is now set to light."),
            Sentence::new("抱歉，没能换成浅色主题。", "Sorry, I couldn't change the theme."),
        )
    };
    some(vec![Act::Do { call: call(&bound, bound.arguments()), subject, referent: None }])
}

/// Makes the act that switches a kind of device at one place.
pub(super) fn switch_one(
    kind: usize,
    room: Option<&Room>,
    is_on: bool,
    setting: &Setting<'_>,
) -> Option<Act> {
    let device = NAMES.devices.get(kind)?;
    let is_narrow = NARROW.contains(&device.key.as_str());
    let wanted = Wanted { room, last: None, domain: Some((&device.domain, is_narrow)) };
    let bindings = setting.context.bindings;
    let is_lamp = NAMES.is_a(kind, NAMES.device("light")?);
    let is_wanted = |topic: &Topic| matches!(topic, Topic::Switch { kind: of, is_on: to } if *to == is_on && of.is_none_or(|of| of == kind));
    let bound = bindings.find(is_wanted, wanted).or_else(|| {
        // The only lamp that a tool knows is meant by the word for lamps, and lamps by that for a sort of them.
        let has_own = bindings.of_topic(is_wanted).next().is_some();
        let other = |topic: &Topic| matches!(topic, Topic::Switch { kind: Some(of), is_on: to } if *to == is_on && is_same_kind(*of, kind));
        if has_own || is_lamp && room.is_some() { None } else { bindings.find(other, wanted) }
    })?;
    let is_placed = bound.effect.place != crate::bindings::Place::None;
    if is_placed && is_lamp && device.of.is_some() && !bound.needs_entity {
        return None;
    }
    let referent =
        Referent::new(About::Switch { kind, is_on }, room.iter().copied().cloned().collect(), None);
    let subject = Subject::Switch { kind, room: room.cloned(), is_on };
    if bound.needs_entity {
        return entity(bound, kind, room.cloned(), None, subject, referent, setting);
    }
    let arguments = bound.arguments();
    Some(Act::Do { call: call(&bound, arguments), subject, referent: Some(referent) })
}

/// Makes the act that switches the entity whose name is said.
pub(crate) fn switch_named(is_on: bool, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let is_wanted =
        |topic: &Topic| matches!(topic, Topic::Switch { kind: None, is_on: to } if *to == is_on);
    let bindings = setting.context.bindings;
    let bound = bindings.find(is_wanted, nowhere()).filter(|bound| bound.needs_entity)?;
    let read = Call { tool: bindings.entities()?.to_owned(), arguments: Map::new() };
    let subject = if is_on {
        Subject::fixed(
            Sentence::new("好的，已经打开了。", "Okay, it's on now."),
            Sentence::new("抱歉，没能打开。", "Sorry, I couldn't turn it on."),
        )
    } else {
        Subject::fixed(
            Sentence::new("好的，已经关掉了。", "Okay, it's off now."),
            Sentence::new("抱歉，没能关掉。", "Sorry, I couldn't turn it off."),
        )
    };
    let target = Target { kind: None, room: None, said: Vec::new() };
    let referent = Referent::new(About::Number, Vec::new(), None);
    let left = Vec::new();
    some(vec![Act::Entity { read, bound, target, value: None, subject, referent, left }])
}

pub(super) fn switch(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let is_on = match slots.text("state") {
        "on" => true,
        "off" => false,
        _ => return None,
    };
    let kind = match slots.get("device") {
        Some(Value::Device(kind)) => *kind,
        _ => NAMES.device("light")?,
    };
    let is_cover = is_cover(kind);
    match slots.text("need") {
        "cover" if !is_cover => return None,
        "plain" if is_cover => return None,
        _ => {}
    }
    let mut rooms = Setting::rooms(slots);
    if rooms.is_empty() {
        // The reason of a command says the room: 阳台没人了把灯关掉.
        let of_reason = setting.last.filter(|last| last.about == About::Number);
        rooms.extend(of_reason.into_iter().flat_map(|last| last.rooms.clone()));
    }
    let one = |room: Option<&Room>| {
        switch_one(kind, room, is_on, setting)
            .or_else(|| cover_at(kind, room, is_on, setting).filter(|_| is_cover))
    };
    if rooms.is_empty() {
        return some(vec![one(None)?]);
    }
    rooms.iter().take(MOST_ROOMS).map(|room| one(Some(room))).collect()
}

/// Reports whether a kind of device is opened and closed.
pub(crate) fn is_cover(kind: usize) -> bool {
    NAMES.devices.get(kind).is_some_and(|device| device.domain == "cover")
}

/// Opens or closes a cover by its position.
fn cover_at(kind: usize, room: Option<&Room>, is_on: bool, setting: &Setting<'_>) -> Option<Act> {
    let value = Amount::Share(Fraction::whole(if is_on { 100 } else { 0 }));
    let subject = Subject::Switch { kind, room: room.cloned(), is_on };
    match set_level_of(&About::Cover, Some(kind), room, value, setting)? {
        Act::Do { call, referent, .. } => {
            let rooms = referent.map(|referent| referent.rooms).unwrap_or_default();
            let referent = Some(Referent::new(About::Switch { kind, is_on }, rooms, None));
            Some(Act::Do { call, subject, referent })
        }
        Act::Entity { read, bound, target, value, referent, .. } => {
            Some(Act::Entity { read, bound, target, value, subject, referent, left: Vec::new() })
        }
        _ => None,
    }
}

pub(super) fn cover(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let Some(Value::Device(kind)) = slots.get("device") else { return None };
    if !is_cover(*kind) {
        return None;
    }
    set_levels(&About::Cover, Some(*kind), &Setting::rooms(slots), level(slots)?, setting)
}

pub(super) fn climate(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let Some(Value::Number(degrees)) = slots.get("number") else { return None };
    if *degrees < Fraction::whole(5) || *degrees > Fraction::whole(MOST_DEGREES) {
        return None;
    }
    set_levels(&About::Climate, None, &Setting::rooms(slots), Amount::Plain(*degrees), setting)
}

pub(super) fn climate_change(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let by = match slots.get("number") {
        Some(Value::Number(number)) => *number,
        _ => Fraction::whole(1),
    };
    let by_signed = if slots.text("way") == "down" { by.negated() } else { by };
    let change = Change { by: by_signed, is_steps: false };
    let rooms = Setting::rooms(slots);
    if rooms.len() > 1 || by > Fraction::whole(10) {
        return None;
    }
    some(vec![change_level(&About::Climate, rooms.first(), change, setting)?])
}

pub(super) fn scene(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let Some(Value::Scene(named)) = slots.get("scene") else { return None };
    let group = named.group.and_then(|at| NAMES.scenes.get(at));
    let bindings = setting.context.bindings;
    let exact = bindings.find(
        |topic| matches!(topic, Topic::Scene(words) if is_same_scene(words, &named.words, None)),
        nowhere(),
    );
    let bound = exact.or_else(|| bindings.find(|topic| matches!(topic, Topic::Scene(words) if is_same_scene(words, &named.words, group)), nowhere()))?;
    // A name alone is a command only if it is the name that the tool has.
    if slots.text("form") == "bare"
        && !bindings.scenes().any(|words| words == named.words && words.len() > 1)
    {
        return None;
    }
    let said = crate::value::written(&named.words);
    let subject = Subject::fixed(
        Sentence::new(format!("{said}模式打开了。"), format!("The {said} scene is now on.")),
        Sentence::new(
            format!("抱歉，{said}模式没能打开。"),
            format!("Sorry, I couldn't start the {said} scene."),
        ),
    );
    some(vec![Act::Do { call: call(&bound, bound.arguments()), subject, referent: None }])
}

/// Makes the act for music.
pub(super) fn media_one(action: Action, setting: &Setting<'_>) -> Option<Act> {
    let find = |action: Action| {
        setting.context.bindings.find(|topic| *topic == Topic::Media(action), nowhere())
    };
    let bound = find(action).or_else(|| match action {
        Action::Stop => find(Action::Pause),
        Action::Pause => find(Action::Stop),
        _ => None,
    })?;
    let subject = match action {
        Action::Next => Subject::fixed(
            Sentence::new("好的，下一首。", "Okay, next one."),
            Sentence::new("抱歉，没能切到下一首。", "Sorry, I couldn't skip to the next one."),
        ),
        Action::Previous => Subject::fixed(
            Sentence::new("好的，上一首。", "Okay, the one before."),
            Sentence::new("抱歉，没能切到上一首。", "Sorry, I couldn't go back."),
        ),
        Action::Resume => Subject::fixed(
            Sentence::new("好的，继续播放。", "Okay, it plays on."),
            Sentence::new("抱歉，没能继续播放。", "Sorry, I couldn't resume."),
        ),
        Action::Pause => Subject::fixed(
            Sentence::new("已经暂停了。", "Okay, it's paused."),
            Sentence::new("抱歉，没能暂停。", "Sorry, I couldn't pause it."),
        ),
        Action::Stop => Subject::fixed(
            Sentence::new("已经停了。", "Okay, it's stopped."),
            Sentence::new("抱歉，没能停下来。", "Sorry, I couldn't stop it."),
        ),
    };
    Some(Act::Do {
        call: call(&bound, bound.arguments()),
        subject,
        referent: Some(Referent::new(About::Music, Vec::new(), None)),
    })
}

pub(super) fn media(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let action = match slots.text("action") {
        "next" => Action::Next,
        "previous" => Action::Previous,
        "pause" => Action::Pause,
        "resume" => Action::Resume,
        "stop" => Action::Stop,
        _ => return None,
    };
    some(vec![media_one(action, setting)?])
}

/// Makes the sentence that says what is not possible.
fn cannot(setting: &Setting<'_>, zh: &str, en: &str) -> Vec<Act> {
    Setting::answer(
        setting.say(format!("抱歉，我在这里不能{zh}。"), format!("Sorry, I can't {en} here.")),
    )
}

pub(super) fn timer(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let Some(Value::Duration(wanted)) = slots.get("duration") else { return None };
    let bindings = setting.context.bindings;
    if !bindings.has("timer") {
        return Some(cannot(setting, "设计时器", "set timers"));
    }
    let bound = bindings.find(|topic| *topic == Topic::Timer, nowhere())?;
    let arguments = bound.with_seconds(*wanted)?;
    let said = length(*wanted, setting.language);
    let subject = Subject::fixed(
        Sentence::new(
            format!("好的，{said}的计时开始了。"),
            format!("Okay, a timer is set for {said}."),
        ),
        Sentence::new("抱歉，计时器没能设好。", "Sorry, I couldn't set the timer."),
    );
    let referent = Referent::new(About::Timer(*wanted), Vec::new(), None);
    some(vec![Act::Do { call: call(&bound, arguments), subject, referent: Some(referent) }])
}

pub(super) fn alarm(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let Some(Value::Clock(wanted)) = slots.get("clock") else { return None };
    let bindings = setting.context.bindings;
    if !bindings.has("alarm") {
        return Some(cannot(setting, "设闹钟", "set alarms"));
    }
    // 明晚八点: the half of the day is said with the day.
    let half = match slots.text("half") {
        "morning" if setting.language == Language::Chinese => Some(Half::Forenoon),
        "morning" => Some(Half::Morning),
        "evening" => Some(Half::Evening),
        _ => None,
    };
    let wanted = Clock { half: wanted.half.or(half), ..*wanted };
    let is_waking =
        slots.text("purpose") == "wake" && wanted.half.is_none() && (4..=11).contains(&wanted.hour);
    let hour = wanted.hour_of_day().or_else(|| is_waking.then_some(wanted.hour))?;
    let time = jiff::civil::time(i8::try_from(hour).ok()?, i8::try_from(wanted.minute).ok()?, 0, 0);
    let now = &setting.context.now;
    let is_past = time <= now.time();
    // An alarm has a time, not a date: it rings the next time that the clock shows it.
    let date = match slots.text("date") {
        // 明天今晚八点: the words name two days.
        "tomorrow" if wanted.is_today => return None,
        _ if wanted.is_today => "today",
        date => date,
    };
    match date {
        "today" if is_past && !wanted.is_after_midnight() => return None,
        "tomorrow" if !is_past || wanted.is_after_midnight() => return None,
        _ => {}
    }
    let next = if is_past { now.date().checked_add(1.day()).ok()? } else { now.date() };
    let bound = bindings.find(|topic| *topic == Topic::Alarm, nowhere())?;
    let arguments = bound.with_clock(hour, wanted.minute)?;
    let is_today = next == now.date();
    let said = clock(time, setting.language);
    let day = if is_today { ("今天", "today") } else { ("明天", "tomorrow") };
    let subject = Subject::fixed(
        Sentence::new(
            format!("好的，闹钟设在{}{said}。", day.0),
            format!("Okay, the alarm is set for {said} {}.", day.1),
        ),
        Sentence::new("抱歉，闹钟没能设好。", "Sorry, I couldn't set the alarm."),
    );
    some(vec![Act::Do { call: call(&bound, arguments), subject, referent: None }])
}

/// Makes the call of a reminder after a length of time; without a tool it says that there is none.
pub(super) fn reminder(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let bindings = setting.context.bindings;
    if let (Some(Value::Duration(after)), what) = (slots.get("duration"), slots.text("text"))
        && !what.is_empty()
        && let Some(bound) = bindings.find(|topic| *topic == Topic::Reminder, nowhere())
    {
        let arguments = bound.with_reminder(what, *after)?;
        let said = length(*after, setting.language);
        let subject = Subject::fixed(
            Sentence::new(
                format!("好的，{said}后提醒你{what}。"),
                format!("Okay, I'll remind you in {said}."),
            ),
            Sentence::new("抱歉，提醒没能设好。", "Sorry, I couldn't set the reminder."),
        );
        return some(vec![Act::Do { call: call(&bound, arguments), subject, referent: None }]);
    }
    (!bindings.has("reminder")).then(|| cannot(setting, "设提醒", "set reminders"))
}
