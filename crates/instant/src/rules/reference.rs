//! Rules that refer to the utterance before: its target, its value, its answer. Not for commands that stand alone.

use super::devices::{Amount, change_level, level, media_one, set_level, switch_one};
use super::{Setting, devices};
use crate::act::Act;
use crate::bindings::Action;
use crate::exact::Fraction;
use crate::names::NAMES;
use crate::referent::{About, Change, Referent};
use crate::template::Slots;
use crate::value::{Room, Value};

/// Does the same as the act of a referent, at one place.
fn same(last: &Referent, room: Option<&Room>, setting: &Setting<'_>) -> Option<Act> {
    match &last.about {
        About::Switch { kind, is_on } => {
            let device = NAMES.devices.get(*kind)?;
            if device.domain == "cover" {
                let mut slots = Slots::default();
                slots.push("state", Value::Text(if *is_on { "on" } else { "off" }.to_owned()));
                slots.push("device", Value::Device(*kind));
                slots.push("rooms", Value::Rooms(room.into_iter().cloned().collect()));
                return devices::switch(&slots, setting)?.pop();
            }
            switch_one(*kind, room, *is_on, setting)
        }
        about @ (About::Dim | About::Cover | About::Climate) => {
            set_level(about, room, Amount::Own(last.value?), setting)
        }
        _ => None,
    }
}

/// Returns the same rooms in the referent of a new act as in the last one, so that both can be meant again.
fn with_rooms(act: Act, rooms: &[Room]) -> Act {
    match act {
        Act::Do { call, subject, referent: Some(mut referent) } => {
            let mut all = rooms.to_vec();
            all.retain(|room| !referent.rooms.contains(room));
            all.append(&mut referent.rooms);
            referent.rooms = all;
            Act::Do { call, subject, referent: Some(referent) }
        }
        act => act,
    }
}

pub(super) fn it_switch(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let last = setting.last?;
    let is_on = slots.text("state") == "on";
    if last.about == About::Music {
        let action = if is_on { Action::Resume } else { Action::Stop };
        return Some(vec![media_one(action, setting)?]);
    }
    let kind = match &last.about {
        About::Switch { kind, .. } => *kind,
        About::Dim => NAMES.device("light")?,
        _ => return None,
    };
    let is_plural = slots.text("number") == "all";
    let turned = Referent::new(About::Switch { kind, is_on }, last.rooms.clone(), None);
    match last.rooms.as_slice() {
        [] => Some(vec![same(&turned, None, setting)?]),
        [room] => Some(vec![same(&turned, Some(room), setting)?]),
        rooms if is_plural => rooms.iter().map(|room| same(&turned, Some(room), setting)).collect(),
        _ => None,
    }
}

pub(super) fn more(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let last = setting.last?;
    let is_down = slots.text("way") == "down";
    let size = match (&last.about, slots.text("size")) {
        (About::Climate, _) => 1,
        (_, "large") => 25,
        (_, "small") => 10,
        _ => 15,
    };
    let kind_of_way = slots.text("of");
    let fits = match last.about {
        About::Volume => matches!(kind_of_way, "any" | "sound"),
        About::Screen | About::Dim => matches!(kind_of_way, "any" | "light"),
        About::Climate => matches!(kind_of_way, "any" | "heat"),
        _ => false,
    };
    if !fits || last.rooms.len() > 1 {
        return None;
    }
    let (step, is_steps) = match slots.get("steps") {
        Some(Value::Number(steps)) => {
            let is_whole = steps.as_whole().is_some_and(|steps| (1..=20).contains(&steps));
            // Degrees are added as they are; a level has steps.
            (is_whole.then_some(*steps)?, last.about != About::Climate)
        }
        _ => (Fraction::whole(size), false),
    };
    let by = if is_down { step.negated() } else { step };
    Some(vec![change_level(&last.about, last.rooms.first(), Change { by, is_steps }, setting)?])
}

pub(super) fn correct(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let last = setting.last?;
    if let Some(Value::Duration(length)) = slots.get("duration") {
        if !matches!(last.about, About::Timer(_)) {
            return None;
        }
        let mut slots = Slots::default();
        slots.push("duration", Value::Duration(*length));
        return devices::timer(&slots, setting);
    }
    if let Some(Value::Device(kind)) = slots.get("device") {
        let About::Switch { kind: before, is_on } = last.about else { return None };
        if *kind == before {
            return None;
        }
        return Some(vec![switch_one(*kind, last.rooms.first(), is_on, setting)?]);
    }
    if let Some(room) = Setting::rooms(slots).first() {
        return Some(vec![same(last, Some(room), setting)?]);
    }
    let amount = level(slots)?;
    if !matches!(
        last.about,
        About::Volume | About::Screen | About::Dim | About::Climate | About::Cover
    ) || last.value == Some(amount.value())
    {
        return None;
    }
    Some(vec![set_level(&last.about, last.rooms.first(), amount, setting)?])
}

pub(super) fn also(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let last = setting.last?;
    let rooms = Setting::rooms(slots);
    let room = rooms.first()?;
    Some(vec![with_rooms(same(last, Some(room), setting)?, &last.rooms)])
}

pub(super) fn again(_: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let text = setting.context.last_answer.filter(|text| !text.trim().is_empty())?;
    Some(vec![Act::Say { text: text.to_owned(), referent: setting.last.cloned() }])
}
