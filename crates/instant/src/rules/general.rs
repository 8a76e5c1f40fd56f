//! Rules that go on from the utterance before: the time at another place, a calculation with the last result, another value
//! for the last target; and prices of several pieces. Not for corrections, which are in `reference`.

use super::calculation::{equals, result};
use super::devices::{self, level, set_level};
use super::{Setting, time};
use crate::act::Act;
use crate::exact::Fraction;
use crate::length::Length;
use crate::names::NAMES;
use crate::phrases;
use crate::referent::About;
use crate::template::Slots;
use crate::value::Value;

fn number(slots: &Slots, name: &str) -> Option<Fraction> {
    match slots.get(name) {
        Some(Value::Number(number)) => Some(*number),
        _ => None,
    }
}

/// Says the time at another place, after a question for the time.
pub(super) fn time_there(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let is_after_time = setting.last.is_some_and(|last| last.about == About::Time);
    if is_after_time { time::time(slots, setting) } else { None }
}

/// Calculates with the last result.
pub(super) fn calculate_it(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let last = setting.last?.number()?;
    let by = match slots.text("by") {
        "2" => Fraction::whole(2),
        "3" => Fraction::whole(3),
        _ => number(slots, "number")?,
    };
    let value = match slots.text("operation") {
        "plus" => last.plus(by),
        "minus" => last.minus(by),
        "times" => last.times(by),
        "over" => last.over(by),
        _ => None,
    }?;
    result(value, equals(value, setting)?)
}

/// Says the price of several pieces, or a share of a price.
pub(super) fn cost(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    if slots.text("unit") != slots.text("other_unit") {
        return None;
    }
    let mut price = number(slots, "price")?;
    if let Some(tenths) = number(slots, "tenths") {
        let digit = tenths.as_whole().filter(|digit| (1..=9).contains(digit))?;
        price = price.plus(Fraction::new(i128::from(digit), 10)?)?;
    }
    if price.is_negative() || price.is_zero() {
        return None;
    }
    let value = match number(slots, "percent") {
        Some(percent) => price.times(percent)?.over(Fraction::whole(100))?,
        None => price.times(number(slots, "count")?)?,
    };
    let shown = phrases::number(value, setting.language)?;
    result(value, setting.say(format!("一共{shown}元。"), format!("That comes to {shown}.")))
}

/// Sets the last target to another value.
pub(super) fn set_it(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let last = setting.last?;
    let is_kind = |kind: usize, domain: &str| {
        NAMES.devices.get(kind).is_some_and(|device| device.domain == domain)
    };
    let about = match &last.about {
        about @ (About::Volume | About::Screen | About::Dim | About::Cover | About::Climate) => {
            about.clone()
        }
        // 调到三十 may mean the colour, too.
        About::Switch { kind, .. } if is_kind(*kind, "light") && slots.text("need") == "light" => {
            About::Dim
        }
        About::Switch { kind, .. } if is_kind(*kind, "cover") => About::Cover,
        _ => return None,
    };
    let fits = match slots.text("need") {
        "cover" => about == About::Cover,
        "light" => matches!(about, About::Dim | About::Screen),
        _ => true,
    };
    if !fits || last.rooms.len() > 1 || (about == About::Climate && slots.get("level").is_none()) {
        return None;
    }
    let amount = level(slots)?;
    if about == last.about && last.value == Some(amount.value()) {
        return None;
    }
    Some(vec![set_level(&about, last.rooms.first(), amount, setting)?])
}

/// Starts the last timer with another number of the same unit.
pub(super) fn timer_number(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let About::Timer(before) = setting.last?.about else { return None };
    let count = number(slots, "number")?.as_whole().filter(|count| (1..=999).contains(count))?;
    let size = match before.seconds {
        seconds if before.days > 0 || before.months > 0 || seconds == 0 => return None,
        seconds if seconds % 3_600 == 0 => 3_600,
        seconds if seconds % 60 == 0 => 60,
        _ => 1,
    };
    let mut wanted = Slots::default();
    let length = Length { seconds: count * size, ..Length::default() };
    wanted.push("duration", Value::Duration(length));
    devices::timer(&wanted, setting)
}
