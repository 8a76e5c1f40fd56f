//! What is said about the weather, from the result of a tool: JSON with recognisable fields, or a short text. Not for the choice of
//! the tool, which is in `rules`.

use hearken_base::language::{Language, is_han};
use serde_json::{Map, Value};

use crate::phrases::say;

/// What was asked about the weather.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    General,
    Rain,
    Umbrella,
    Snow,
    Temperature,
    Wind,
}

/// Question about the weather.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) topic: Topic,
    /// City as it was said.
    pub(crate) city: Option<String>,
    /// Day as it is spoken, as `today` or 星期五.
    pub(crate) day: String,
    /// True if the day is the present one.
    pub(crate) is_today: bool,
}

/// Longest text that is spoken as it is, in characters.
const LONGEST: usize = 200;
/// Percent from which rain is likely, and below which it is not.
const LIKELY: f64 = 50.0;
const UNLIKELY: f64 = 25.0;

const TEMPERATURE: [&str; 8] = [
    "temperature",
    "temp",
    "temperature_c",
    "temp_c",
    "current_temperature",
    "temperature_2m",
    "温度",
    "气温",
];
const HIGH: [&str; 10] = [
    "temperature_max",
    "temp_max",
    "high",
    "max",
    "max_temp",
    "maxtemp",
    "high_temp",
    "tempMax",
    "最高气温",
    "最高温度",
];
const LOW: [&str; 10] = [
    "temperature_min",
    "temp_min",
    "low",
    "min",
    "min_temp",
    "mintemp",
    "low_temp",
    "tempMin",
    "最低气温",
    "最低温度",
];
const RAIN: [&str; 10] = [
    "rain_probability",
    "precipitation_probability",
    "probability_of_precipitation",
    "chance_of_rain",
    "rain_chance",
    "precip_probability",
    "pop",
    "precipitation_chance",
    "降水概率",
    "降雨概率",
];
const HUMIDITY: [&str; 3] = ["humidity", "relative_humidity", "湿度"];
const WIND: [&str; 4] = ["wind_kmh", "wind_kph", "wind_speed_kmh", "wind_speed_kph"];
const CONDITION: [&str; 9] = [
    "condition",
    "conditions",
    "condition_zh",
    "weather",
    "description",
    "summary",
    "text",
    "天气",
    "天气状况",
];
const CITY: [&str; 5] = ["city", "location", "name", "place", "城市"];
/// Objects inside of the result that have the fields.
const INNER: [&str; 9] =
    ["current", "now", "today", "data", "result", "main", "weather", "forecast", "daily"];
const UNITS: [&str; 4] = ["unit", "units", "temperature_unit", "temp_unit"];

/// Conditions in English and Chinese, the first of each meaning is spoken.
const CONDITIONS: [(&str, &str); 48] = [
    ("clear", "晴"),
    ("sunny", "晴"),
    ("clear sky", "晴"),
    ("sunny", "晴天"),
    ("fair", "晴"),
    ("sunny", "晴朗"),
    ("mostly clear", "大部晴朗"),
    ("mostly sunny", "大部晴朗"),
    ("partly cloudy", "多云"),
    ("partly sunny", "多云"),
    ("cloudy", "多云"),
    ("partly cloudy", "局部多云"),
    ("few clouds", "少云"),
    ("scattered clouds", "多云"),
    ("broken clouds", "多云"),
    ("mostly cloudy", "多云"),
    ("overcast", "阴"),
    ("overcast", "阴天"),
    ("overcast clouds", "阴"),
    ("fog", "雾"),
    ("foggy", "雾"),
    ("mist", "薄雾"),
    ("haze", "霾"),
    ("windy", "大风"),
    ("drizzle", "毛毛雨"),
    ("light drizzle", "小毛毛雨"),
    ("light rain", "小雨"),
    ("rain", "雨"),
    ("moderate rain", "中雨"),
    ("rain", "中雨"),
    ("rainy", "雨"),
    ("heavy rain", "大雨"),
    ("heavy rain", "暴雨"),
    ("showers", "阵雨"),
    ("rain showers", "阵雨"),
    ("light showers", "小阵雨"),
    ("shower", "阵雨"),
    ("thunderstorm", "雷阵雨"),
    ("thunderstorms", "雷阵雨"),
    ("thunderstorm", "雷雨"),
    ("freezing rain", "冻雨"),
    ("sleet", "雨夹雪"),
    ("light snow", "小雪"),
    ("snow", "雪"),
    ("snow", "中雪"),
    ("heavy snow", "大雪"),
    ("snow showers", "阵雪"),
    ("blizzard", "暴风雪"),
];

/// The fields of a result.
#[derive(Debug, Default, PartialEq)]
struct Report {
    city: Option<String>,
    condition: Option<String>,
    temperature: Option<i64>,
    high: Option<i64>,
    low: Option<i64>,
    rain: Option<f64>,
    humidity: Option<i64>,
    wind: Option<i64>,
}

/// Returns what is said if the weather cannot be read.
pub(crate) fn failed(language: Language) -> String {
    say(language, "抱歉，没查到天气。", "Sorry, I couldn't get the weather.").to_owned()
}

/// Returns the answer from the text of a tool; `None` if the text is not understood.
pub(crate) fn reply(asked: &Asked, text: &str, language: Language) -> Option<String> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(fields)) => worded(asked, &report(&fields, language)?, language),
        Ok(Value::String(text)) => prose(&text, language),
        Ok(_) => None,
        Err(_) => prose(text, language),
    }
}

/// Returns a short text that can be spoken as it is.
fn prose(text: &str, language: Language) -> Option<String> {
    let text = text.trim();
    let has_marks = text.contains(['{', '}', '[', ']', '<', '>', '*', '#', '|', '`', '_', '\n']);
    let is_zh = text.chars().any(is_han);
    let is_report = text.chars().any(|c| c.is_ascii_digit()) || kind(text) != Sky::Unknown;
    let fits = text.chars().count() <= LONGEST
        && text.chars().any(char::is_alphabetic)
        && is_zh == (language == Language::Chinese);
    (fits && is_report && !has_marks).then(|| text.to_owned())
}

/// Returns the value of the first of `names` that is there, in the object or in one inside.
fn field<'a>(fields: &'a Map<String, Value>, names: &[&str]) -> Option<&'a Value> {
    let of = |fields: &'a Map<String, Value>| {
        names.iter().find_map(|name| {
            fields.get(*name).filter(|value| value.is_number() || value.is_string())
        })
    };
    let inner = |name: &&str| match fields.get(*name) {
        Some(Value::Object(inner)) => of(inner),
        Some(Value::Array(list)) => list.first().and_then(Value::as_object).and_then(of),
        _ => None,
    };
    of(fields).or_else(|| INNER.iter().find_map(inner))
}

/// Returns a number, or that with which a text such as `23°C` begins.
fn number(value: &Value) -> Option<f64> {
    let text = match value {
        Value::Number(number) => return number.as_f64(),
        Value::String(text) => text.trim(),
        _ => return None,
    };
    let end = text
        .char_indices()
        .find(|(at, c)| !(c.is_ascii_digit() || *c == '.' || *at == 0 && *c == '-'))
        .map_or(text.len(), |found| found.0);
    text.get(..end)?.parse().ok()
}

#[expect(clippy::cast_possible_truncation, reason = "values of weather are small")]
fn whole(value: f64) -> i64 {
    value.round() as i64
}

fn report(fields: &Map<String, Value>, language: Language) -> Option<Report> {
    let text = |names: &[&str]| field(fields, names).and_then(Value::as_str);
    let degrees = |names: &[&str]| field(fields, names).and_then(number).map(whole);
    let is_fahrenheit = |text: &str| {
        let text = text.to_lowercase();
        text.ends_with('f') || text.contains("fahrenheit") || text.contains("imperial")
    };
    // Degrees Fahrenheit are for the model to read.
    if text(&UNITS).is_some_and(is_fahrenheit) || text(&TEMPERATURE).is_some_and(is_fahrenheit) {
        return None;
    }
    let is_zh = language == Language::Chinese;
    let percent = |value: f64| if value > 0.0 && value < 1.0 { value * 100.0 } else { value };
    let found = Report {
        city: text(&CITY).filter(|city| city.chars().any(is_han) == is_zh).map(str::to_owned),
        condition: CONDITION.iter().find_map(|name| condition(text(&[name])?, language)),
        temperature: degrees(&TEMPERATURE),
        high: degrees(&HIGH),
        low: degrees(&LOW),
        rain: field(fields, &RAIN).and_then(number).map(percent),
        humidity: degrees(&HUMIDITY),
        wind: degrees(&WIND),
    };
    Some(found)
}

/// Returns a condition in a language; `None` if it is in another one and not in the table.
fn condition(text: &str, language: Language) -> Option<String> {
    let text = text.trim().to_lowercase();
    let is_zh = language == Language::Chinese;
    if text.is_empty() || text.chars().count() > 40 {
        return None;
    }
    if text.chars().any(is_han) == is_zh {
        let is_word = text.chars().all(|c| c.is_alphabetic() || c == ' ' || c == '-');
        return is_word.then_some(text);
    }
    let same = |pair: &&(&str, &str)| if is_zh { pair.0 == text } else { pair.1 == text };
    let pair = CONDITIONS.iter().find(same)?;
    Some(if is_zh { pair.1 } else { pair.0 }.to_owned())
}

/// What falls from the sky.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sky {
    Rain,
    Snow,
    Dry,
    Unknown,
}

const SNOW: [&str; 4] = ["snow", "sleet", "blizzard", "雪"];
const WET: [&str; 6] = ["rain", "shower", "drizzle", "thunder", "storm", "雨"];
const DRY: [&str; 17] = [
    "clear", "sun", "cloud", "overcast", "fair", "fog", "mist", "haze", "wind", "dry", "晴", "云",
    "阴", "雾", "霾", "风", "干燥",
];
/// Words that end what an English negation before them is about.
const ENDS: [&str; 8] =
    ["but", "then", "with", "turning", "becoming", "later", "followed", "except"];
/// Characters that may stand between a Chinese negation and what it is about.
const BETWEEN: &str = "降下会明显的大小中阵雨雪和与或可能再要太雷暴冻";

fn kind(condition: &str) -> Sky {
    let text = condition.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let falls = |words: &[&str]| {
        let is_told = |word: &&str| text.match_indices(word).any(|(at, _)| !is_negated(&text, at));
        words.iter().any(is_told)
    };
    let is_doubtful = ["unlikely", "not expected", "可能性", "不大"];
    if falls(&SNOW) || falls(&WET) {
        match (has(&is_doubtful), falls(&SNOW)) {
            (true, _) => Sky::Unknown,
            (false, true) => Sky::Snow,
            (false, false) => Sky::Rain,
        }
    } else if has(&DRY) || has(&SNOW) || has(&WET) {
        Sky::Dry
    } else {
        Sky::Unknown
    }
}

/// Reports whether a condition says that there is none of what it names at a place: `no rain`, 没有雨.
fn is_negated(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    let part = before.rsplit([',', '.', ';', '，', '。', '、', '；']).next().unwrap_or_default();
    if text.get(at..).is_some_and(|rest| rest.starts_with(is_han)) {
        let mut chars = part.chars().rev();
        while let Some(c) = chars.next() {
            match c {
                '无' | '不' | '没' | '未' => return true,
                '有' => return matches!(chars.next(), Some('没' | '未')),
                c if BETWEEN.contains(c) => {}
                _ => return false,
            }
        }
        return false;
    }
    let words = part.split(|c: char| !c.is_alphabetic() && !matches!(c, '\'' | '’'));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let falls = |word: &str| SNOW.iter().chain(&WET).any(|name| word.contains(name));
    let mut said = words.iter().rev().peekable();
    while let Some(word) = said.next() {
        let is_none = matches!(*word, "no" | "not" | "without" | "never" | "dry" | "zero");
        if is_none || word.ends_with("n't") || word.ends_with("n’t") {
            return true;
        }
        // `no wind and rain` has rain, `no rain and snow` has neither.
        let is_link = *word == "and" && !said.peek().is_some_and(|word| falls(word));
        if is_link || ENDS.contains(word) {
            return false;
        }
    }
    false
}

fn degrees(value: i64, language: Language) -> String {
    match (language, value < 0) {
        (Language::Chinese, true) => format!("零下{}度", -value),
        (Language::Chinese, false) => format!("{value}度"),
        (Language::English, true) => format!("minus {} degrees", -value),
        (Language::English, false) => {
            format!("{value} degree{}", if value == 1 { "" } else { "s" })
        }
    }
}

fn worded(asked: &Asked, report: &Report, language: Language) -> Option<String> {
    let special = match asked.topic {
        Topic::Rain | Topic::Umbrella => rain(asked, report, language),
        Topic::Snow => snow(report, language),
        Topic::Wind => return wind(report, language),
        Topic::General | Topic::Temperature => None,
    };
    special.or_else(|| plain(asked, report, language))
}

fn rain(asked: &Asked, report: &Report, language: Language) -> Option<String> {
    let sky = report.condition.as_deref().map_or(Sky::Unknown, kind);
    let is_umbrella = asked.topic == Topic::Umbrella;
    if sky == Sky::Snow {
        return None;
    }
    let condition = report.condition.as_deref().unwrap_or_default();
    let yes = if is_umbrella { "要带伞" } else { "会下雨" };
    let no = if is_umbrella { "不用带伞" } else { "应该不会下雨" };
    let Some(chance) = report.rain else {
        return match sky {
            Sky::Rain => Some(match language {
                Language::Chinese => format!("{yes}，预报有{condition}。"),
                Language::English => format!("Yes, the forecast says {condition}."),
            }),
            Sky::Dry => Some(match language {
                Language::Chinese => format!("{no}，预报是{condition}。"),
                Language::English => format!("No, the forecast says {condition}."),
            }),
            _ => None,
        };
    };
    let percent = whole(chance);
    Some(match language {
        Language::Chinese if chance >= LIKELY => {
            format!("{yes}，降雨概率是百分之{percent}。")
        }
        Language::Chinese if sky == Sky::Rain && asked.is_today => {
            format!("{yes}，今天有{condition}，降雨概率是百分之{percent}。")
        }
        Language::Chinese if chance < UNLIKELY => {
            format!("{no}，降雨概率是百分之{percent}。")
        }
        Language::Chinese if is_umbrella => format!("最好带上伞，降雨概率是百分之{percent}。"),
        Language::Chinese => format!("可能会下雨，降雨概率是百分之{percent}。"),
        Language::English if chance >= LIKELY => {
            format!("Yes, rain is likely: {percent} percent.")
        }
        Language::English if sky == Sky::Rain && asked.is_today => {
            format!("Yes, there is {condition} today: the chance of rain is {percent} percent.")
        }
        Language::English if chance < UNLIKELY => {
            format!("No, rain is unlikely: {percent} percent.")
        }
        Language::English => format!("Maybe: the chance of rain is {percent} percent."),
    })
}

fn snow(report: &Report, language: Language) -> Option<String> {
    let condition = report.condition.as_deref()?;
    match (kind(condition), language) {
        (Sky::Snow, Language::Chinese) => Some(format!("会，预报有{condition}。")),
        (Sky::Snow, Language::English) => Some(format!("Yes, the forecast says {condition}.")),
        (Sky::Rain | Sky::Dry, Language::Chinese) => Some(format!("没有雪，预报是{condition}。")),
        (Sky::Rain | Sky::Dry, Language::English) => {
            Some(format!("No, the forecast says {condition}."))
        }
        (Sky::Unknown, _) => None,
    }
}

fn wind(report: &Report, language: Language) -> Option<String> {
    let speed = report.wind?;
    Some(match language {
        Language::Chinese => format!("风速大约每小时{speed}公里。"),
        Language::English => format!("The wind is at about {speed} kilometers an hour."),
    })
}

/// Returns the report in one or two sentences.
fn plain(asked: &Asked, report: &Report, language: Language) -> Option<String> {
    let mut parts = Vec::new();
    if asked.topic != Topic::Temperature {
        parts.extend(report.condition.clone());
    }
    let now = report.temperature.filter(|_| asked.is_today || report.high.is_none());
    if let Some(now) = now {
        let is_now = language == Language::Chinese && asked.is_today && report.high.is_some();
        let now = degrees(now, language);
        parts.push(if is_now { format!("现在{now}") } else { now });
    }
    if let (Some(high), Some(low)) = (report.high, report.low) {
        let high = degrees(high, language);
        let low = degrees(low, language);
        parts.push(match language {
            Language::Chinese => format!("最高{high}，最低{low}"),
            Language::English => format!("with a high of {high} and a low of {low}"),
        });
    }
    if parts.is_empty() {
        return None;
    }
    let city = report.city.as_ref().or(asked.city.as_ref());
    let mut text = match language {
        Language::Chinese => {
            let is_now = parts.first().is_some_and(|part| part.starts_with("现在"));
            let day = if is_now { "" } else { asked.day.as_str() };
            format!("{}{day}{}", city.map_or("", String::as_str), parts.join("，"))
        }
        Language::English => {
            let place = city.map(|city| format!(" in {city}")).unwrap_or_default();
            format!("The weather {}{place}: {}", asked.day, parts.join(", "))
        }
    };
    let chance = report.rain.map(whole).filter(|chance| *chance > 0);
    match (chance, asked.topic, language) {
        (Some(chance), Topic::General, Language::Chinese) => {
            text.push_str(&format!("，降雨概率百分之{chance}。"));
        }
        (Some(chance), Topic::General, Language::English) => {
            text.push_str(&format!(". The chance of rain is {chance} percent."));
        }
        (_, _, Language::Chinese) => text.push('。'),
        (_, _, Language::English) => text.push('.'),
    }
    if let Some(humidity) = report.humidity.filter(|_| parts.len() < 2) {
        text.push_str(&match language {
            Language::Chinese => format!("湿度百分之{humidity}。"),
            Language::English => format!(" The humidity is {humidity} percent."),
        });
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: &str = r#"{"city":"London","country":"United Kingdom","date":"2026-11-30","temperature":11.6,"condition":"Light rain","condition_zh":"小雨","humidity":80.0,"wind_kmh":18.2,"temperature_max":13.2,"temperature_min":-0.6,"rain_probability":80.0}"#;

    fn asked(topic: Topic, language: Language) -> Asked {
        let day = say(language, "今天", "today").to_owned();
        let city = say(language, "伦敦", "London").to_owned();
        Asked { topic, city: Some(city), day, is_today: true }
    }

    #[test]
    fn fields_become_sentences() {
        let zh = Language::Chinese;
        let en = Language::English;
        for (topic, text, said_en, said_zh) in [
            (
                Topic::General,
                WEB,
                "The weather today in London: light rain, 12 degrees, with a high of 13 degrees and a low of minus 1 degrees. The chance of rain is 80 percent.",
                "伦敦今天小雨，现在12度，最高13度，最低零下1度，降雨概率百分之80。",
            ),
            (
                Topic::Umbrella,
                WEB,
                "Yes, rain is likely: 80 percent.",
                "要带伞，降雨概率是百分之80。",
            ),
            (
                Topic::Wind,
                WEB,
                "The wind is at about 18 kilometers an hour.",
                "风速大约每小时18公里。",
            ),
            (Topic::Snow, WEB, "No, the forecast says light rain.", "没有雪，预报是小雨。"),
            (
                Topic::Temperature,
                r#"{"current":{"temp":"21°C","weather":"Sunny"}}"#,
                "The weather today in London: 21 degrees.",
                "伦敦今天21度。",
            ),
            (
                Topic::Umbrella,
                r#"{"description":"Sunny"}"#,
                "No, the forecast says sunny.",
                "不用带伞，预报是晴。",
            ),
            (
                Topic::General,
                r#"{"temp":5,"condition":"raining cats"}"#,
                "The weather today in London: raining cats, 5 degrees.",
                "伦敦今天5度。",
            ),
        ] {
            assert_eq!(reply(&asked(topic, en), text, en).as_deref(), Some(said_en), "{text}");
            assert_eq!(reply(&asked(topic, zh), text, zh).as_deref(), Some(said_zh), "{text}");
        }
    }

    #[test]
    fn what_is_said_not_to_fall_does_not() {
        for (text, sky) in [
            ("no rain", Sky::Dry),
            ("No chance of rain", Sky::Dry),
            ("not raining", Sky::Dry),
            ("It isn't raining", Sky::Dry),
            ("without rain or snow", Sky::Dry),
            ("dry", Sky::Dry),
            ("dry and no rain and snow", Sky::Dry),
            ("cloudy with no rain", Sky::Dry),
            ("无雨", Sky::Dry),
            ("没有雨", Sky::Dry),
            ("不会下雨", Sky::Dry),
            ("无降雨", Sky::Dry),
            ("没雨没雪", Sky::Dry),
            ("晴，无雨雪", Sky::Dry),
            ("rain, no snow", Sky::Rain),
            ("no snow but rain", Sky::Rain),
            ("no wind and rain", Sky::Rain),
            ("dry with rain later", Sky::Rain),
            ("light rain", Sky::Rain),
            ("无风小雨", Sky::Rain),
            ("无雪有雨", Sky::Rain),
            ("无雨转小雨", Sky::Rain),
            ("雨夹雪", Sky::Snow),
            ("no rain but snow", Sky::Snow),
            ("无雨有雪", Sky::Snow),
            ("rain is unlikely", Sky::Unknown),
            ("下雨可能性不大", Sky::Unknown),
            ("raging", Sky::Unknown),
        ] {
            assert_eq!(kind(text), sky, "{text}");
        }
        let en = Language::English;
        let zh = Language::Chinese;
        for topic in [Topic::Rain, Topic::Umbrella, Topic::Snow] {
            let said = reply(&asked(topic, en), r#"{"condition":"no rain"}"#, en).unwrap();
            assert!(said.starts_with("No"), "{said}");
            let said = reply(&asked(topic, zh), r#"{"天气":"无雨"}"#, zh).unwrap();
            assert!(said.contains("预报是无雨") && !said.starts_with('会'), "{said}");
        }
    }

    #[test]
    fn short_prose_is_spoken_and_the_rest_is_not() {
        let zh = Language::Chinese;
        let en = Language::English;
        let general = asked(Topic::General, en);
        assert!(reply(&general, "Sunny, 21 degrees, light wind.", en).is_some());
        assert!(reply(&general, "晴，21度。", zh).is_some());
        for (text, language) in [
            ("晴，21度。", en),
            ("Sunny, 21 degrees.", zh),
            ("true", en),
            ("ok", en),
            ("null", zh),
            ("**Sunny**, 21 degrees", en),
            (r#"{"days":[1,2,3]}"#, en),
            (r#"{"temp":70,"unit":"F"}"#, en),
            ("[]", zh),
        ] {
            assert_eq!(reply(&general, text, language), None, "{text}");
        }
        assert_eq!(reply(&general, &"sunny ".repeat(40), en), None);
    }
}
