//! Reads values in what a status tool returned, and completes the acts that waited for them. Not for the choice of the tool, nor for
//! that of the entity, see `entity`.

use hearken_base::language::Language;
use serde_json::{Map, Value, json};

use crate::act::{Act, Target};
use crate::bindings::{BRIGHTNESS_NAMES, Bound, Input, Place, VOLUME_NAMES, words_of_name};
use crate::entity::{Entity, are_all_of_room, entities, inner_text, is_room, meant};
use crate::exact::Fraction;
use crate::phrases::{Subject, say};
use crate::referent::{About, Call};
use crate::value::Room;

/// Deepest nesting of a state that is read.
const DEEPEST: usize = 12;
/// Names of a target temperature, in states.
const TARGET_NAMES: [&str; 5] =
    ["target", "setpoint", "target_temperature", "set_temperature", "temperature"];

/// Number of a state, with the words of its keys and neighbours.
struct Found {
    key: String,
    around: String,
    value: Fraction,
}

fn collect(value: &Value, key: &str, around: &str, depth: usize, found: &mut Vec<Found>) {
    if depth > DEEPEST {
        return;
    }
    let number = match value {
        Value::Number(number) => Fraction::from_digits(&number.to_string()),
        Value::String(text) => Fraction::from_digits(text.trim().trim_end_matches('%')),
        _ => None,
    };
    if let Some(value) = number {
        found.push(Found { key: key.to_owned(), around: around.to_owned(), value });
        return;
    }
    match value {
        Value::Object(object) => {
            let texts: Vec<&str> = object.values().filter_map(Value::as_str).collect();
            for (name, inner) in object {
                let around = format!("{around} {key} {}", texts.join(" "));
                collect(inner, name, &around, depth + 1, found);
            }
        }
        Value::Array(list) => {
            for inner in list {
                collect(inner, key, around, depth + 1, found);
            }
        }
        Value::String(text) => {
            if let Ok(inner) = serde_json::from_str::<Value>(text)
                && (inner.is_object() || inner.is_array())
            {
                collect(&inner, key, around, depth + 1, found);
            }
        }
        _ => {}
    }
}

/// Returns the one number that is called so, of a room if one is given.
pub(crate) fn number(text: &str, names: &[&str], room: Option<&Room>) -> Option<Fraction> {
    let mut found = Vec::new();
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        collect(&value, "", "", 0, &mut found);
    }
    let is_called = |found: &&Found| {
        let words = words_of_name(&found.key).join(" ");
        names.iter().any(|name| words.contains(name))
            || (matches!(found.key.as_str(), "level" | "value" | "percent")
                && names.iter().any(|name| found.around.contains(name)))
    };
    let in_room = |found: &&Found| {
        room.is_none_or(|room| is_room(&found.around, room) || is_room(&found.key, room))
    };
    let mut values = found.iter().filter(is_called).filter(in_room).map(|found| found.value);
    let Some(first) = values.next() else {
        return number_in_text(text, names).filter(|_| room.is_none());
    };
    values.all(|value| value == first).then_some(first)
}

/// Returns the one number behind a name in a text.
fn number_in_text(text: &str, names: &[&str]) -> Option<Fraction> {
    let mut found = Vec::new();
    for part in inner_text(text).to_lowercase().split([',', ';', '\n', '，', '；', '。']) {
        if names.iter().any(|name| part.contains(name)) {
            found.extend(
                part.split(|c: char| !c.is_ascii_digit() && c != '.')
                    .find_map(|digits| Fraction::from_digits(digits.trim_matches('.'))),
            );
        }
    }
    let first = *found.first()?;
    found.iter().all(|value| *value == first).then_some(first)
}

/// Returns the present value of what a change is about.
pub(crate) fn present(about: &About, room: Option<&Room>, text: &str) -> Option<Fraction> {
    let all = entities(text);
    if all.is_empty() {
        return match about {
            About::Volume => number(text, &VOLUME_NAMES, None),
            About::Screen => number(text, &BRIGHTNESS_NAMES, None),
            About::Dim => number(text, &BRIGHTNESS_NAMES, room),
            About::Climate => number(text, &TARGET_NAMES, room),
            _ => None,
        };
    }
    let value = |entity: &Entity, keys: &[&str]| {
        entity.values.iter().find(|value| keys.contains(&value.0.as_str())).map(|value| value.1)
    };
    let of_domain = |domain: &str| {
        let in_room = |entity: &&Entity| {
            entity.domain == domain
                && room
                    .is_none_or(|room| is_room(&entity.areas, room) || is_room(&entity.names, room))
        };
        let mut found = all.iter().filter(in_room);
        let first = found.next()?;
        found.next().is_none().then_some(first)
    };
    match about {
        About::Dim => {
            let level = value(of_domain("light")?, &["brightness"])?;
            // Home Assistant counts to 255; no list of percents has more than 100.
            let is_byte = all.iter().any(|entity| {
                value(entity, &["brightness"]).is_some_and(|level| level > Fraction::whole(100))
            });
            if is_byte {
                Some(Fraction::whole(level.times(Fraction::new(100, 255)?)?.rounded()?))
            } else {
                Some(level)
            }
        }
        About::Volume => value(of_domain("media_player")?, &["volume"]),
        About::Climate => value(of_domain("climate")?, &["target", "temperature"]),
        _ => None,
    }
}

/// Completes an act with the text that its status tool returned; `None` if the text does not say what is needed.
pub(crate) fn resolve(act: Act, text: &str, language: Language) -> Option<Act> {
    match act {
        Act::Change { bound, change, subject, mut referent, .. } => {
            let room = referent.rooms.first();
            let now = present(&referent.about, room, text)?;
            let lowest = Fraction::whole(if matches!(referent.about, About::Dim | About::Screen) {
                5
            } else {
                0
            });
            let (least, most) = limits(&bound.effect.input, lowest);
            let wanted = now.plus(bound.step(&change)?)?;
            let value = if wanted > most {
                most
            } else if wanted < least {
                least
            } else {
                wanted
            };
            referent.value = Some(value);
            if value == now || (value > now) == change.by.is_negative() {
                let text = say(
                    language,
                    if change.by.is_negative() {
                        "已经是最低了。"
                    } else {
                        "已经是最高了。"
                    },
                    if change.by.is_negative() {
                        "It's already at its lowest."
                    } else {
                        "It's already at its highest."
                    },
                );
                return Some(Act::Say { text: text.to_owned(), referent: Some(referent) });
            }
            let call =
                Call { tool: bound.effect.tool.clone(), arguments: bound.with_number(value)? };
            let subject = with_value(subject, bound.shown(value)?)?;
            Some(Act::Do { call, subject, referent: Some(referent) })
        }
        Act::Entity { bound, target, value, subject, referent, left, .. } => {
            let arguments = of_entity(&bound, &target, &left, value, text)?;
            let call = Call { tool: bound.effect.tool.clone(), arguments };
            Some(Act::Do { call, subject, referent: Some(referent) })
        }
        act => Some(act),
    }
}

/// Returns the arguments for the one entity that is meant, or for all of their kind in a room; `None` if that is not clear.
fn of_entity(
    bound: &Bound,
    target: &Target,
    left: &[String],
    value: Option<Fraction>,
    text: &str,
) -> Option<Map<String, Value>> {
    let Place::Entity { name, area, domain } = &bound.effect.place else { return None };
    let mut arguments = match value {
        Some(value) => bound.with_number(value)?,
        None => bound.arguments(),
    };
    let domain = domain.as_ref().filter(|domain| arguments.contains_key(&domain.0));
    let all = entities(text);
    match meant(&all, target).as_slice() {
        [entity] => {
            if !entity.is_named_by(left) {
                return None;
            }
            arguments.remove(area);
            let first = entity.names.split(',').next().unwrap_or_default().trim();
            arguments.insert(name.clone(), json!(first));
            if let Some((parameter, is_list)) = domain {
                let own = &entity.domain;
                let own = if *is_list { json!([own]) } else { json!(own) };
                arguments.insert(parameter.clone(), own);
            }
        }
        several
            if left.is_empty() && domain.is_some() && are_all_of_room(several, &all, target) => {}
        _ => return None,
    }
    Some(arguments)
}

fn limits(input: &Input, lowest: Fraction) -> (Fraction, Fraction) {
    let whole = |value: f64| {
        #[expect(clippy::cast_possible_truncation, reason = "bounds of levels are small")]
        let whole = value as i64;
        Fraction::whole(whole)
    };
    match input {
        Input::Number { min, max, .. } => {
            let least = min.map_or(lowest, whole);
            (if least > lowest { least } else { lowest }, max.map_or(Fraction::whole(100), whole))
        }
        _ => (lowest, Fraction::whole(100)),
    }
}

fn with_value(subject: Subject, value: Fraction) -> Option<Subject> {
    match subject {
        Subject::Level { name, room, unit, .. } => {
            Some(Subject::Level { name, room, value: value.digits(1)?.text, unit })
        }
        subject => Some(subject),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::NAMES;
    use crate::referent::Referent;

    #[test]
    fn numbers_are_found_in_states_of_many_forms() {
        for text in [
            r#"{"audio":{"volume":40},"screen":{"brightness":70}}"#,
            r#"{"volume":"40%","battery":{"level":85}}"#,
            "volume: 40\nbrightness: 70",
            r#"{"speaker volume":40}"#,
            r#"{"volume":{"level":40}}"#,
            "\"{\\\"volume\\\":40}\"",
        ] {
            assert_eq!(number(text, &VOLUME_NAMES, None), Some(Fraction::whole(40)), "{text}");
        }
        assert_eq!(number(r#"{"volume":40,"alarm":{"volume":70}}"#, &VOLUME_NAMES, None), None);
        assert_eq!(number(r#"{"battery":85}"#, &VOLUME_NAMES, None), None);
    }

    #[test]
    fn the_brightness_of_an_entity_is_found() {
        let text = "Live Context:\n- names: Garage Light\n  domain: light\n  state: 'on'\n  areas: Garage\n  attributes:\n    brightness: '70'\n";
        let words = words_of_name("garage");
        let room = Room { said: "garage".to_owned(), group: NAMES.room(&words), words };
        assert_eq!(present(&About::Dim, Some(&room), text), Some(Fraction::whole(70)));
        let referent = Referent::new(About::Volume, Vec::new(), None);
        assert_eq!(referent.age, std::time::Duration::ZERO);
    }
}
