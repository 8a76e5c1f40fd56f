//! Rules about numbers: expressions, shares, discounts and units. Not for the time.

use hearken_base::language::Language;

use super::Setting;
use crate::act::Act;
use crate::exact::Fraction;
use crate::names::{NAMES, Unit};
use crate::phrases;
use crate::referent::{About, Referent};
use crate::template::Slots;
use crate::value::Value;

/// Returns an act that says a number, to which the next utterance may refer.
pub(super) fn result(value: Fraction, text: String) -> Option<Vec<Act>> {
    Some(vec![Act::Say {
        text,
        referent: Some(Referent::new(About::Number, Vec::new(), Some(value))),
    }])
}

fn numbers(slots: &Slots, name: &str) -> Vec<Fraction> {
    let number =
        |value: &Value| if let Value::Number(number) = value { Some(*number) } else { None };
    slots.all(name).filter_map(number).collect()
}

pub(super) fn equals(value: Fraction, setting: &Setting<'_>) -> Option<String> {
    let shown = phrases::number(value, setting.language)?;
    let is_about = value.result_digits()?.is_rounded;
    Some(setting.say(
        if is_about { format!("{shown}。") } else { format!("等于{shown}。") },
        format!("That's {shown}."),
    ))
}

pub(super) fn calculate(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    if let Some(Value::Result(value)) = slots.get("expression") {
        let Some(value) = value else {
            return Some(Setting::answer(
                setting
                    .say("零不能做除数。".to_owned(), "Nothing can be divided by zero.".to_owned()),
            ));
        };
        return result(*value, equals(*value, setting)?);
    }
    let one = *numbers(slots, "one").first()?;
    let other = *numbers(slots, "other").first()?;
    let value = match slots.text("operation") {
        "plus" => one.plus(other),
        "minus" => one.minus(other),
        "difference" => one.minus(other).map(Fraction::absolute),
        "times" => one.times(other),
        "over" => one.over(other),
        "share" => one.over(other).and_then(|part| part.times(Fraction::whole(100))),
        _ => None,
    }?;
    if slots.text("operation") == "share" {
        let shown = phrases::number(value, setting.language)?;
        return result(
            value,
            setting.say(format!("是百分之{shown}。"), format!("That's {shown} percent.")),
        );
    }
    result(value, equals(value, setting)?)
}

pub(super) fn share(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let sum = *numbers(slots, "sum").first()?;
    let people = *numbers(slots, "people").first()?;
    if people.as_whole().is_none_or(|people| people < 1) {
        return None;
    }
    let part = sum.over(people)?;
    let shown = phrases::number(part, setting.language)?;
    let unit = slots.text("unit");
    result(part, setting.say(format!("每人{shown}{unit}。"), format!("That's {shown} each.")))
}

pub(super) fn discount(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let price = *numbers(slots, "price").first()?;
    let hundred = Fraction::whole(100);
    let part = if let Some(tenths) = numbers(slots, "tenths").first() {
        // 八折 is 0.8, 八五折 is 0.85.
        let whole = tenths.as_whole();
        let base =
            if whole.is_some_and(|tenths| tenths >= 10) { hundred } else { Fraction::whole(10) };
        tenths.over(base)?
    } else {
        hundred.minus(*numbers(slots, "percent").first()?)?.over(hundred)?
    };
    if part.is_negative() || part.is_zero() || part >= Fraction::whole(1) {
        return None;
    }
    let value = price.times(part)?;
    let shown = phrases::number(value, setting.language)?;
    result(
        value,
        setting
            .say(format!("是{shown}{}。", slots.text("unit")), format!("That comes to {shown}.")),
    )
}

/// Returns a value in a unit as a value in another of the same dimension; `None` if they have none in common.
fn converted(value: Fraction, from: &Unit, to: &Unit) -> Option<Fraction> {
    let temperatures = ["celsius", "fahrenheit", "kelvin"];
    let is_temperature = |unit: &Unit| temperatures.contains(&unit.dimension.as_str());
    if is_temperature(from) && is_temperature(to) {
        let whole = Fraction::whole;
        let zero = Fraction::new(27_315, 100)?;
        let celsius = match from.dimension.as_str() {
            "fahrenheit" => value.minus(whole(32))?.times(Fraction::new(5, 9)?)?,
            "kelvin" => value.minus(zero)?,
            _ => value,
        };
        return match to.dimension.as_str() {
            "fahrenheit" => celsius.times(Fraction::new(9, 5)?)?.plus(whole(32)),
            "kelvin" => celsius.plus(zero),
            _ => Some(celsius),
        };
    }
    if from.dimension != to.dimension {
        return None;
    }
    value.times(from.size)?.over(to.size)
}

/// Returns the unit of a slot, or that whose dimension the template names.
fn unit(slots: &Slots, name: &str) -> Option<&'static Unit> {
    match slots.get(name)? {
        Value::Unit(at) => NAMES.units.get(*at),
        Value::Text(dimension) => NAMES.units.iter().find(|unit| unit.dimension == *dimension),
        _ => None,
    }
}

fn unit_name(unit: &Unit, value: Fraction, language: Language) -> String {
    match language {
        Language::Chinese => unit.group.name(language).to_owned(),
        Language::English if value == Fraction::whole(1) => unit.singular.clone(),
        Language::English => unit.group.name(language).to_owned(),
    }
}

pub(super) fn convert(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let language = setting.language;
    let to = unit(slots, "to")?;
    let (value, from) = match (unit(slots, "from"), slots.get("duration")) {
        (Some(from), _) => {
            let value =
                numbers(slots, "number").first().copied().unwrap_or_else(|| Fraction::whole(1));
            let half =
                if slots.text("half").is_empty() { Fraction::ZERO } else { Fraction::new(1, 2)? };
            (value.plus(half)?, from)
        }
        (_, Some(Value::Duration(length))) if length.months == 0 => {
            let seconds = length.seconds.checked_add(length.days.checked_mul(86_400)?)?;
            let unit = NAMES
                .units
                .iter()
                .find(|unit| unit.dimension == "time" && unit.size == Fraction::whole(1))?;
            if to.dimension != "time" {
                return None;
            }
            let converted = converted(Fraction::whole(seconds), unit, to)?;
            let shown = phrases::measure(converted, language)?;
            let name = unit_name(to, converted, language);
            return result(
                converted,
                setting.say(format!("是{shown}{name}。"), format!("That's {shown} {name}.")),
            );
        }
        _ => return None,
    };
    let is_signed = ["celsius", "fahrenheit"].contains(&from.dimension.as_str());
    if value.is_negative() && !is_signed {
        return None;
    }
    let answer = converted(value, from, to)?;
    let shown = (phrases::measure(value, language)?, phrases::measure(answer, language)?);
    let names = (unit_name(from, value, language), unit_name(to, answer, language));
    let text = setting.say(
        format!("{}{}是{}{}。", shown.0, names.0, shown.1, names.1),
        format!("{} {} is {} {}.", shown.0, names.0, shown.1, names.1),
    );
    result(answer, text)
}
