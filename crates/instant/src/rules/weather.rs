//! The rule about the weather: which tool is asked, and with what. Not for the words of its answer, see `forecast`.

use hearken_base::language::Language;
use serde_json::{Map, json};

use super::Setting;
use crate::act::Act;
use crate::bindings::{DayInput, WeatherTool};
use crate::calendar::{Day, date_of, days_between, weekday_name};
use crate::forecast::{Asked, Topic};
use crate::names::NAMES;
use crate::referent::Call;
use crate::template::Slots;
use crate::value::Value;

/// Tool of the server itself, which another one replaces.
const BUILTIN: &str = "get_weather";
/// Most days ahead of which there are forecasts.
const MOST_DAYS: i64 = 14;

/// Returns the number of days from today of what was said.
fn days_ahead(slots: &Slots, setting: &Setting<'_>) -> Option<i64> {
    match slots.text("near") {
        "tomorrow" => return Some(1),
        "today" => return Some(0),
        _ => {}
    }
    let Some(Value::Day(day)) = slots.get("day") else { return Some(0) };
    if matches!(day, Day::Before(_)) {
        return None;
    }
    let today = setting.context.now.date();
    let date = date_of(*day, today, &NAMES.holidays)?;
    days_between(today, date).filter(|days| (0..=MOST_DAYS).contains(days))
}

fn word(days: i64, language: Language) -> Option<&'static str> {
    Some(match (days, language) {
        (0, Language::Chinese) => "今天",
        (1, Language::Chinese) => "明天",
        (2, Language::Chinese) => "后天",
        (0, Language::English) => "today",
        (1, Language::English) => "tomorrow",
        _ => return None,
    })
}

/// Returns the arguments of a tool; `None` if it does not fit the question.
fn arguments(
    tool: &WeatherTool,
    city: Option<&str>,
    days: i64,
    setting: &Setting<'_>,
) -> Option<Map<String, serde_json::Value>> {
    let mut all = Map::new();
    match (&tool.city, city) {
        (Some((parameter, _)), Some(city)) => {
            all.insert(parameter.clone(), json!(city));
        }
        (Some((_, true)), None) | (None, Some(_)) => return None,
        (_, None) => {}
    }
    let date = setting.context.now.date().checked_add(jiff::Span::new().days(days)).ok()?;
    match &tool.day {
        DayInput::Today if days > 0 => return None,
        DayInput::Text { is_required: false, .. }
        | DayInput::Options { is_required: false, .. }
            if days == 0 => {}
        DayInput::Today => {}
        DayInput::Text { parameter, is_iso, .. } => {
            let text =
                if *is_iso { date.to_string() } else { word(days, setting.language)?.to_owned() };
            all.insert(parameter.clone(), json!(text));
        }
        DayInput::Options { parameter, options, .. } => {
            let words = [word(days, Language::Chinese), word(days, Language::English)];
            let wanted = options.iter().find(|option| words.contains(&Some(option.as_str())))?;
            all.insert(parameter.clone(), json!(wanted));
        }
    }
    Some(all)
}

/// Returns the name of a city with capitals, in English.
fn city_name(said: &str) -> String {
    let title = |word: &str| {
        let mut chars = word.chars();
        chars
            .next()
            .map(|first| first.to_uppercase().chain(chars).collect::<String>())
            .unwrap_or_default()
    };
    said.split(' ').map(title).collect::<Vec<_>>().join(" ")
}

pub(super) fn weather(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let known = match slots.get("city") {
        Some(Value::Zone(at)) => NAMES.places.get(*at)?.group.name(setting.language),
        _ => slots.text("city"),
    };
    let city = Some(known).filter(|city| !city.is_empty()).map(city_name);
    let days = days_ahead(slots, setting)?;
    let mut fitting: Vec<_> = setting
        .context
        .bindings
        .weather()
        .iter()
        .filter_map(|tool| Some((tool, arguments(tool, city.as_deref(), days, setting)?)))
        .collect();
    if fitting.len() > 1 {
        fitting.retain(|fit| fit.0.tool != BUILTIN);
    }
    let [(tool, arguments)] = <[_; 1]>::try_from(fitting).ok()?;
    let topic = match slots.text("ask") {
        "rain" => Topic::Rain,
        "umbrella" => Topic::Umbrella,
        "snow" => Topic::Snow,
        "temperature" => Topic::Temperature,
        "wind" => Topic::Wind,
        _ => Topic::General,
    };
    let date = setting.context.now.date().checked_add(jiff::Span::new().days(days)).ok()?;
    let day = word(days, setting.language).map_or_else(
        || {
            let name = weekday_name(date.weekday(), setting.language);
            setting.say(name.to_owned(), format!("on {name}"))
        },
        str::to_owned,
    );
    let asked = Asked { topic, city, day, is_today: days == 0 };
    let call = Call { tool: tool.tool.clone(), arguments };
    Some(vec![Act::Ask { call, asked }])
}
