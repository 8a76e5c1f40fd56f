//! Answers questions about a state from what a status tool returned. Not for the choice of the tool, nor for values that a command
//! changes, see `state`.

mod found;

use hearken_base::language::Language;

use crate::act::{Act, Question, What};
use crate::bindings::words_of_name;
use crate::entity::entities;
use crate::exact::Fraction;
use crate::length::Length;
use crate::names::NAMES;
use crate::phrases::{self, room_name, say};
use crate::referent::{About, Referent};
use crate::state::{number, present};
use crate::value::Room;
use found::{Item, flag, items, lengths, text_of};

pub(crate) const THEME_NAMES: [&str; 4] = ["theme", "dark mode", "主题", "深色"];
pub(crate) const BATTERY_NAMES: [&str; 5] = ["battery", "charge", "power level", "电量", "电池"];
pub(crate) const NETWORK_NAMES: [&str; 6] =
    ["network", "wifi", "wi fi", "signal", "网络", "无线网"];
pub(crate) const TEMPERATURE_NAMES: [&str; 6] =
    ["temperature", "temperatures", "thermostat", "climate", "温度", "室温"];
pub(crate) const HUMIDITY_NAMES: [&str; 2] = ["humidity", "湿度"];
pub(crate) const TIMER_NAMES: [&str; 7] =
    ["timer", "timers", "countdown", "countdowns", "计时", "倒计时", "定时器"];
pub(crate) const MUSIC_NAMES: [&str; 9] =
    ["music", "song", "playing", "player", "playback", "media", "radio", "音乐", "播放"];
/// Names of the temperature that is measured.
const MEASURED_NAMES: [&str; 6] = ["temperature", "celsius", "current", "temp", "温度", "degrees"];
/// Names of the temperature that is wanted.
const WANTED_NAMES: [&str; 4] = ["target", "setpoint", "set temperature", "设定"];

/// Returns what is said if the tool fails.
pub(crate) fn failed(language: Language) -> String {
    say(language, "抱歉，没查到。", "Sorry, I couldn't find that out.").to_owned()
}

/// Makes the act that says what was asked; `None` if the text does not say it.
pub(crate) fn answer(question: &Question, text: &str, language: Language) -> Option<Act> {
    let room = question.room.as_ref();
    let said = |text: String| Some(Act::Say { text, referent: None });
    match question.what {
        What::Volume => {
            level(question, text, About::Volume, say(language, "音量", "volume"), language)
        }
        What::Screen => {
            level(question, text, About::Screen, say(language, "屏幕亮度", "brightness"), language)
        }
        What::Dim => {
            level(question, text, About::Dim, say(language, "灯的亮度", "brightness"), language)
        }
        What::Battery | What::Charging => said(battery(question, text, language)?),
        What::Theme => said(theme(question, text, language)?),
        What::Network => said(network(text, language)?),
        What::Temperature | What::Target => temperature(question, text, language),
        What::Humidity => {
            let value = number(text, &HUMIDITY_NAMES, room.filter(|_| !question.is_of_room))?;
            said(percent(say(language, "湿度", "humidity"), room, value, language)?)
        }
        What::Timers => said(timers(text, language)?),
        What::Playing | What::Music => said(playing(question, text, language)?),
        What::Device(kind) => devices(question, kind, text, language),
    }
}

/// Says a percentage of something.
fn percent(name: &str, room: Option<&Room>, value: Fraction, language: Language) -> Option<String> {
    let value = value.digits(0)?.text;
    let room = room.map(|room| room_name(room, language));
    Some(match language {
        Language::Chinese => {
            format!("{}{name}是百分之{value}。", room.unwrap_or_default())
        }
        Language::English => {
            let room = room.map(|room| format!(" in the {room}")).unwrap_or_default();
            format!("The {name}{room} is {value} percent.")
        }
    })
}

fn level(
    question: &Question,
    text: &str,
    about: About,
    name: &str,
    language: Language,
) -> Option<Act> {
    let room = question.room.as_ref();
    let mut value = present(&about, room.filter(|_| !question.is_of_room), text)?;
    if value > Fraction::ZERO && value < Fraction::whole(1) {
        value = value.times(Fraction::whole(100))?;
    }
    let text = percent(name, room, value, language)?;
    let referent = Referent::new(about, room.cloned().into_iter().collect(), Some(value));
    Some(Act::Say { text, referent: Some(referent) })
}

fn battery(question: &Question, text: &str, language: Language) -> Option<String> {
    let is_charging = flag(text, &["charging", "is charging", "充电", "充电中"]);
    let level = number(text, &BATTERY_NAMES, None).and_then(|level| level.digits(0));
    let level = level.map(|level| level.text);
    if question.what == What::Charging {
        let is_charging = is_charging?;
        let (zh, en) = if is_charging {
            ("正在充电", "Yes, it's charging")
        } else {
            ("没有在充电", "No, it isn't charging")
        };
        return Some(match (language, level) {
            (Language::Chinese, None) => format!("{zh}。"),
            (Language::Chinese, Some(level)) => format!("{zh}，电量是百分之{level}。"),
            (Language::English, None) => format!("{en}."),
            (Language::English, Some(level)) => format!("{en}. The battery is at {level} percent."),
        });
    }
    let level = level?;
    let (zh, en) =
        if is_charging == Some(true) { ("，正在充电", " and charging") } else { ("", "") };
    Some(match language {
        Language::Chinese => format!("电量是百分之{level}{zh}。"),
        Language::English => format!("The battery is at {level} percent{en}."),
    })
}

fn theme(question: &Question, text: &str, language: Language) -> Option<String> {
    let named = text_of(text, &["theme", "主题", "mode"]);
    let of_name = named.and_then(|name| match name.to_lowercase().as_str() {
        "dark" | "night" | "深色" | "暗色" => Some(true),
        "light" | "day" | "浅色" | "亮色" => Some(false),
        _ => None,
    });
    let is_dark = of_name.or_else(|| flag(text, &["dark", "dark mode", "深色模式"]))?;
    let (zh, en) = if is_dark { ("深色", "dark") } else { ("浅色", "light") };
    let text = say(language, &format!("屏幕是{zh}模式。"), &format!("the screen is in {en} mode."))
        .to_owned();
    Some(yes_or_no(question.expected.map(|expected| expected == is_dark), &text, language))
}

/// Puts yes or no before a statement, if that was asked.
fn yes_or_no(is_so: Option<bool>, statement: &str, language: Language) -> String {
    let capital = |text: &str| {
        let mut chars = text.chars();
        chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect::<String>()
    };
    match (is_so, language) {
        (None, _) => capital(statement),
        (Some(true), Language::Chinese) => format!("是的，{statement}"),
        (Some(false), Language::Chinese) => format!("不是，{statement}"),
        (Some(true), Language::English) => format!("Yes, {statement}"),
        (Some(false), Language::English) => format!("No, {statement}"),
    }
}

fn network(text: &str, language: Language) -> Option<String> {
    let name = text_of(text, &["ssid", "network name", "wifi name", "网络名称"]);
    let kind = text_of(text, &["type", "connection", "network type"]);
    let signal = text_of(text, &["signal", "signal strength", "rssi level", "信号"])?;
    let (zh, en) = match signal.to_lowercase().as_str() {
        "strong" | "excellent" | "good" | "强" | "好" => ("信号很好", "strong"),
        "medium" | "fair" | "ok" | "中" | "一般" => ("信号一般", "fair"),
        "weak" | "poor" | "bad" | "弱" | "差" => ("信号比较弱", "weak"),
        _ => return None,
    };
    let is_wifi =
        kind.is_some_and(|kind| matches!(kind.to_lowercase().as_str(), "wifi" | "wi-fi" | "wlan"));
    Some(match (language, name) {
        (Language::Chinese, Some(name)) => format!("连着网络{name}，{zh}。"),
        (Language::Chinese, None) => format!("{}{zh}。", if is_wifi { "无线网" } else { "网络" }),
        (Language::English, Some(name)) => {
            format!("It's connected to {name}, and the signal is {en}.")
        }
        (Language::English, None) => {
            format!("The {} signal is {en}.", if is_wifi { "wifi" } else { "network" })
        }
    })
}

fn temperature(question: &Question, text: &str, language: Language) -> Option<Act> {
    let room = question.room.as_ref();
    let is_target = question.what == What::Target;
    let all = entities(text);
    let value = if all.is_empty() {
        let names: &[&str] = if is_target { &WANTED_NAMES } else { &MEASURED_NAMES };
        number(text, names, room.filter(|_| !question.is_of_room))?
    } else {
        found::of_climate(&all, room, is_target)?
    };
    let degrees = value.digits(1)?.text;
    let place = room.map(|room| room_name(room, language));
    let text = match (language, place, is_target) {
        (Language::Chinese, place, true) => {
            format!("{}设定的温度是{degrees}度。", place.unwrap_or_default())
        }
        (Language::Chinese, Some(place), false) => format!("{place}现在是{degrees}度。"),
        (Language::Chinese, None, false) => format!("室内现在是{degrees}度。"),
        (Language::English, Some(place), true) => {
            format!("The {place} is set to {degrees} degrees.")
        }
        (Language::English, None, true) => {
            format!("The target temperature is {degrees} degrees.")
        }
        (Language::English, Some(place), false) => {
            format!("In the {place} it is {degrees} degrees.")
        }
        (Language::English, None, false) => format!("It is {degrees} degrees inside."),
    };
    let rooms = room.cloned().into_iter().collect();
    let referent = Referent::new(About::Climate, rooms, is_target.then_some(value));
    Some(Act::Say { text, referent: Some(referent) })
}

fn timers(text: &str, language: Language) -> Option<String> {
    let left = lengths(text)?;
    let said: Vec<String> = left
        .iter()
        .map(|seconds| phrases::length(Length { months: 0, days: 0, seconds: *seconds }, language))
        .collect();
    Some(match (language, said.as_slice()) {
        (_, []) => {
            say(language, "现在没有正在走的计时器。", "There is no timer running.").to_owned()
        }
        (Language::Chinese, [one]) => format!("计时器还剩{one}。"),
        (Language::English, [one]) => format!("The timer has {one} left."),
        (Language::Chinese, all) => {
            format!("有{}个计时器，还剩{}。", all.len(), all.join("、"))
        }
        (Language::English, all) => {
            format!("{} timers are running, with {} left.", all.len(), all.join(", "))
        }
    })
}

fn playing(question: &Question, text: &str, language: Language) -> Option<String> {
    let players: Vec<_> =
        entities(text).into_iter().filter(|entity| entity.domain == "media_player").collect();
    let is_playing = if players.is_empty() {
        flag(text, &["playing", "is playing", "state", "status", "播放"])
    } else {
        Some(players.iter().any(|player| player.state == "playing"))
    };
    if is_playing == Some(false) {
        let is_asked = question.expected.is_some();
        let text = say(language, "现在没有在放音乐。", "nothing is playing.");
        return Some(yes_or_no(
            (is_asked && language == Language::English).then_some(question.expected == Some(false)),
            text,
            language,
        ));
    }
    let title = text_of(text, &["title", "song", "track", "song name", "歌名", "歌曲"]);
    let artist = text_of(text, &["artist", "singer", "歌手"]);
    let statement = match (language, title, artist) {
        (Language::Chinese, Some(title), Some(artist)) => {
            format!("正在放{artist}的{title}。")
        }
        (Language::Chinese, Some(title), None) => format!("正在放{title}。"),
        (Language::English, Some(title), Some(artist)) => {
            format!("{title} by {artist} is playing.")
        }
        (Language::English, Some(title), None) => format!("{title} is playing."),
        (_, None, _) if question.what == What::Music && is_playing == Some(true) => {
            say(language, "正在放音乐。", "music is playing.").to_owned()
        }
        _ => return None,
    };
    Some(yes_or_no(question.expected, &statement, language))
}

/// Returns how an item is called: its room and the kind of device, or its own name.
fn item_name(item: &Item, kind: usize, question: &Question, language: Language) -> String {
    let device = NAMES.devices.get(kind).map_or("", |device| device.group.name(language));
    let of_item = item.room.as_deref().and_then(|said| {
        let words = words_of_name(said);
        let group = NAMES.room(&words)?;
        Some(Room { said: said.to_lowercase(), words, group: Some(group) })
    });
    match (language, question.room.as_ref().or(of_item.as_ref())) {
        (Language::Chinese, Some(room)) => format!("{}的{device}", room_name(room, language)),
        (Language::English, Some(room)) => format!("the {} {device}", room_name(room, language)),
        (Language::Chinese, None) => item.room.clone().unwrap_or_else(|| device.to_owned()),
        (Language::English, None) => {
            format!("the {}", item.room.as_deref().unwrap_or(device).replace('_', " "))
        }
    }
}

fn devices(question: &Question, kind: usize, text: &str, language: Language) -> Option<Act> {
    let device = NAMES.devices.get(kind)?;
    let is_cover = device.domain == "cover";
    let all = items(text, kind, question.room.as_ref().filter(|_| !question.is_of_room))?;
    let word = |is_on: bool| match (language, is_cover, is_on) {
        (Language::Chinese, _, true) => "开着",
        (Language::Chinese, _, false) => "关着",
        (Language::English, false, true) => "on",
        (Language::English, false, false) => "off",
        (Language::English, true, true) => "open",
        (Language::English, true, false) => "closed",
    };
    let on: Vec<&Item> = all.iter().filter(|item| item.is_on).collect();
    let name = |item: &Item| item_name(item, kind, question, language);
    let (statement, is_on, shown) = match (all.as_slice(), on.as_slice()) {
        ([], _) => return None,
        ([one], _) => {
            let is = say(language, "", " is ");
            let end = say(language, "。", ".");
            (format!("{}{is}{}{end}", name(one), word(one.is_on)), one.is_on, vec![one])
        }
        (_, []) => {
            let zh = format!("{}都关着。", device.group.name(language));
            let en = format!("they are all {}.", word(false));
            (say(language, &zh, &en).to_owned(), false, Vec::new())
        }
        (_, some) => {
            let names: Vec<String> = some.iter().map(|item| name(item)).collect();
            let statement = match language {
                Language::Chinese => format!("{}开着。", names.join("、")),
                Language::English => {
                    let is = if names.len() == 1 { "is" } else { "are" };
                    format!("{} {is} {}.", names.join(" and "), word(true))
                }
            };
            (statement, true, some.to_vec())
        }
    };
    let is_so = question.expected.map(|expected| expected == is_on);
    // 没有 before a state would be taken for its negation.
    let is_so = is_so.filter(|is_so| language == Language::English || *is_so);
    let text = yes_or_no(is_so, &statement, language);
    let rooms = question.room.clone().into_iter().collect();
    let referent = Referent::new(About::Switch { kind, is_on }, rooms, None);
    let is_one = shown.len() == 1 && (all.len() == 1 || question.room.is_some());
    Some(Act::Say { text, referent: is_one.then_some(referent) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::{Next, Plan};
    use crate::{Answers, Bindings, Context, OfferedTool};

    fn plan(text: &str) -> Plan {
        let parameters = json!({"type": "object", "properties": {}});
        let tool = OfferedTool {
            name: "panel.read_state",
            description: "Current state of the panel",
            parameters: &parameters,
        };
        let bindings = Bindings::of(&[tool]);
        let now = "2026-11-29T18:30:00+08:00[Asia/Shanghai]".parse().unwrap();
        Answers::builtin().plan(text, &Context::new(now, &bindings)).unwrap()
    }

    fn said(text: &str, result: &str) -> String {
        match plan(text).next(&[Ok(result.to_owned())]) {
            Next::Answer(answer) => answer.text,
            next => panic!("{next:?}"),
        }
    }

    #[test]
    fn a_failure_is_said_and_a_result_without_the_value_is_left_to_the_model() {
        let plan = plan("how loud is it");
        assert_eq!(plan.calls().len(), 1);
        match plan.clone().next(&[Err("timeout".to_owned())]) {
            Next::Answer(answer) => {
                assert_eq!(answer.text, failed(Language::English));
                assert!(!answer.is_done);
            }
            next => panic!("{next:?}"),
        }
        assert!(matches!(plan.next(&[Ok(r#"{"brightness":30}"#.to_owned())]), Next::GiveUp));
    }

    #[test]
    fn what_is_beside_a_value_is_said_with_it() {
        let battery = r#"{"battery":{"level":64,"charging":true},"network":{"type":"wifi","signal":"weak"},"screen":{"theme":"dark"}}"#;
        for (text, answer) in [
            ("how full is the battery", "The battery is at 64 percent and charging."),
            ("is it charging", "Yes, it's charging. The battery is at 64 percent."),
            ("现在电量是多少", "电量是百分之64，正在充电。"),
            ("how good is the wifi", "The wifi signal is weak."),
            ("网络信号怎么样", "无线网信号比较弱。"),
            ("is dark mode on", "Yes, the screen is in dark mode."),
            ("which theme is on", "The screen is in dark mode."),
            ("现在是深色模式吗", "是的，屏幕是深色模式。"),
        ] {
            assert_eq!(said(text, battery), answer, "{text}");
        }
    }
}
