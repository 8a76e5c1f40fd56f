//! Effects of tools that start something: themes, scenes, music, timers and alarms. Not for values and switches, see `effects`.

use serde_json::{Map, json};

use super::places::{effect, fixed, place, values};
use super::schema::{Accepts, Parameter, Tool, mentions, name_words};
use super::{Action, Cancelled, Effect, Input, Place, Topic};
use crate::names::Names;
use crate::normalise::words_of;

const MUSIC: [&str; 13] = [
    "下一首",
    "上一首",
    "music",
    "media",
    "player",
    "playback",
    "song",
    "track",
    "audio",
    "playing",
    "音乐",
    "歌",
    "播放",
];
const THEME: [&str; 10] =
    ["theme", "mode", "appearance", "scheme", "style", "look", "主题", "模式", "外观", "配色"];
const TIMER: [&str; 6] = ["timer", "countdown", "timers", "计时", "倒计时", "定时"];
const ALARM: [&str; 3] = ["alarm", "alarms", "闹钟"];
/// Words of tools that cancel all timers.
const ALL: [&str; 5] = ["all", "every", "所有", "全部", "一切"];

pub(super) fn choice_effects(tool: &Tool, names: &Names, found: &mut Vec<Effect>) {
    for parameter in &tool.parameters {
        let all = values(parameter);
        let of = |wanted: &[&str]| {
            all.iter()
                .find(|value| wanted.contains(&value.0.to_lowercase().as_str()))
                .map(|value| value.0.clone())
        };
        let dark = of(&["dark", "night", "black", "dim", "深色", "暗色", "夜间", "黑色"]);
        let light = of(&["light", "day", "bright", "white", "浅色", "亮色", "日间", "白色"]);
        if let Some((dark, light)) = dark.zip(light).filter(|_| tool.mentions(&THEME)) {
            if let Some(place) =
                place(tool, &[&parameter.name], names).filter(|place| matches!(place, Place::None))
            {
                found.push(effect(
                    Topic::Theme { is_dark: true },
                    tool,
                    Input::None,
                    fixed(&parameter.name, json!(dark)),
                    place.clone(),
                ));
                found.push(effect(
                    Topic::Theme { is_dark: false },
                    tool,
                    Input::None,
                    fixed(&parameter.name, json!(light)),
                    place,
                ));
            }
            continue;
        }
        let is_scene = tool.mentions(&["scene", "scenes", "mood", "moods", "场景", "情景", "情境"])
            && matches!(parameter.accepts, Accepts::Options(_) | Accepts::Text);
        if is_scene
            && tool.unfilled(&[&parameter.name]).next().is_none()
            && (parameter.is_required || parameter.mentions(&["scene", "mood", "场景", "情景"]))
        {
            let is_list = matches!(parameter.accepts, Accepts::Options(_)) || all.len() > 1;
            for (value, named) in all.iter().filter(|_| is_list) {
                let words = named.iter().map(|name| scene_words(name)).collect();
                found.push(effect(
                    Topic::Scene(words),
                    tool,
                    Input::None,
                    fixed(&parameter.name, json!(value)),
                    Place::None,
                ));
            }
        }
        if let Accepts::Options(options) = &parameter.accepts
            && tool.mentions(&MUSIC)
            && tool.unfilled(&[&parameter.name]).next().is_none()
        {
            for option in options {
                let action = media_action(&name_words(option));
                found.extend(action.map(|action| {
                    effect(
                        Topic::Media(action),
                        tool,
                        Input::None,
                        fixed(&parameter.name, json!(option)),
                        Place::None,
                    )
                }));
            }
        }
    }
}

/// Reports whether a text has a time of day such as 07:05.
fn has_example(text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    chars.windows(5).any(
        |part| matches!(part, [a, b, ':', c, d] if [a, b, c, d].iter().all(|c| c.is_ascii_digit())),
    )
}

/// Returns the name of a tool without that of its server.
fn own_name(name: &str) -> &str {
    let name = name.rsplit("__").next().unwrap_or(name);
    match name.strip_prefix("mcp-") {
        Some(rest) => rest.split_once('-').map_or(rest, |(_, own)| own),
        None => name,
    }
}

/// Returns the words before the colon of a description, such as `Good night: all lights off`.
fn described_name(tool: &Tool) -> Vec<String> {
    tool.description
        .split_once([':', '：'])
        .map(|(name, _)| words_of(name).words)
        .filter(|words| words.len() <= 4)
        .unwrap_or_default()
}

/// Returns the words of a scene, without the word for scene.
fn scene_words(name: &str) -> Vec<String> {
    let words = name_words(name);
    let is_name = |word: &String| {
        !matches!(
            word.as_str(),
            "script"
                | "scene"
                | "scenes"
                | "mode"
                | "activate"
                | "run"
                | "routine"
                | "start"
                | "turn"
                | "on"
                | "intent"
                | "self"
        )
    };
    let rest: Vec<String> = words.into_iter().filter(is_name).collect();
    let text = rest.concat();
    let bare = text.strip_suffix("模式").or_else(|| text.strip_suffix("场景"));
    bare.map_or(rest, |bare| words_of(bare).words)
}

fn media_action(words: &[String]) -> Option<Action> {
    let table: [(&[&str], Action); 5] = [
        (&["next", "skip", "forward", "following", "下一首", "下一曲", "切歌"], Action::Next),
        (&["previous", "prev", "back", "上一首", "上一曲"], Action::Previous),
        (&["unpause", "resume", "continue", "继续"], Action::Resume),
        (&["pause", "暂停"], Action::Pause),
        (&["stop", "halt", "end", "停止"], Action::Stop),
    ];
    let mut found = table.iter().filter(|entry| mentions(words, entry.0)).map(|entry| entry.1);
    let action = found.next()?;
    found.next().is_none().then_some(action)
}

pub(super) fn single_effects(tool: &Tool, found: &mut Vec<Effect>) {
    if tool.unfilled(&[]).next().is_some() {
        return;
    }
    let is_scene = mentions(&tool.name_words, &["script", "scene", "routine"]);
    if is_scene && tool.parameters.is_empty() {
        let own = own_name(&tool.name);
        let mut all: Vec<Vec<String>> = [scene_words(own), described_name(tool)]
            .into_iter()
            .filter(|name| !name.is_empty())
            .collect();
        all.dedup();
        if !all.is_empty() {
            found.push(effect(Topic::Scene(all), tool, Input::None, Map::new(), Place::None));
        }
        return;
    }
    let has_option = tool.parameters.iter().any(|p| matches!(&p.accepts, Accepts::Options(options) if options.iter().any(|o| media_action(&name_words(o)).is_some())));
    if tool.mentions(&MUSIC) && !has_option && !tool.mentions(&TIMER) && !tool.mentions(&ALARM) {
        let is_han = tool.words.iter().any(|word| !word.is_ascii());
        let action = media_action(&tool.name_words)
            .or_else(|| if is_han { media_action(&tool.words) } else { None });
        found.extend(action.map(|action| {
            effect(Topic::Media(action), tool, Input::None, Map::new(), Place::None)
        }));
    }
    if cancels_timers(tool) {
        let of = if tool.mentions(&ALL) { Cancelled::All } else { Cancelled::Running };
        found.push(effect(Topic::TimerCancel(of), tool, Input::None, Map::new(), Place::None));
    }
}

/// Reports whether a tool cancels timers.
fn cancels_timers(tool: &Tool) -> bool {
    let in_name = mentions(
        &tool.name_words,
        &["cancel", "clear", "delete", "remove", "stop", "取消", "停止"],
    );
    let text = tool.words.concat();
    let says_so = ["取消", "停止", "删除"].iter().any(|verb| text.starts_with(verb));
    tool.mentions(&TIMER) && (in_name || says_so) && !tool.mentions(&ALARM)
}

pub(super) fn timer_effects(tool: &Tool, found: &mut Vec<Effect>) {
    if tool.mentions(&ALARM) && !mentions(&tool.name_words, &TIMER) {
        alarm_effects(tool, found);
        return;
    }
    if tool.mentions(&["reminder", "remind", "提醒"]) {
        reminder_effects(tool, found);
        return;
    }
    if !tool.mentions(&TIMER) {
        return;
    }
    let numbers: Vec<(String, i64)> = tool
        .parameters
        .iter()
        .filter(|p| p.is_number())
        .filter_map(|p| Some((p.name.clone(), time_unit(p)?)))
        .collect();
    let mut sizes: Vec<i64> = numbers.iter().map(|number| number.1).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let filled: Vec<&str> = numbers.iter().map(|number| number.0.as_str()).collect();
    if !numbers.is_empty()
        && sizes.len() == numbers.len()
        && tool.unfilled(&filled).next().is_none()
    {
        let is_optional = numbers.len() == 1 || tool.unfilled(&[]).next().is_none();
        if is_optional {
            let cancels = cancels_timers(tool);
            let topic =
                if cancels { Topic::TimerCancel(Cancelled::OfLength) } else { Topic::Timer };
            found.push(effect(topic, tool, Input::Seconds(numbers), Map::new(), Place::None));
        }
    }
}

/// Returns the size in seconds of the unit that a parameter names.
fn time_unit(p: &Parameter) -> Option<i64> {
    let table = [
        (1_i64, ["seconds", "second", "秒", "秒数"]),
        (60, ["minutes", "minute", "分钟", "分钟数"]),
        (3_600, ["hours", "hour", "小时", "小时数"]),
    ];
    let in_name = table.iter().find(|entry| mentions(&p.name_words, &entry.1));
    in_name.or_else(|| table.iter().find(|entry| mentions(&p.words, &entry.1))).map(|entry| entry.0)
}

/// Finds a reminder of a text after a number of minutes or the like.
fn reminder_effects(tool: &Tool, found: &mut Vec<Effect>) {
    let required = |p: &&Parameter| p.is_required;
    let mut texts =
        tool.parameters.iter().filter(required).filter(|p| matches!(p.accepts, Accepts::Text));
    let mut numbers = tool.parameters.iter().filter(required).filter(|p| p.is_number());
    let pair = texts.next().zip(numbers.next());
    if texts.next().is_some() || numbers.next().is_some() {
        return;
    }
    let Some((what, number)) = pair else { return };
    let Some(size) = time_unit(number) else { return };
    if tool.unfilled(&[&what.name, &number.name]).next().is_none() {
        let input = Input::Reminder(what.name.clone(), (number.name.clone(), size));
        found.push(effect(Topic::Reminder, tool, input, Map::new(), Place::None));
    }
}

fn alarm_effects(tool: &Tool, found: &mut Vec<Effect>) {
    let sets = mentions(
        &tool.name_words,
        &["set", "add", "create", "start", "设置", "添加", "新建", "设"],
    ) || ["设置", "设定", "添加", "新建", "创建"]
        .iter()
        .any(|verb| tool.words.concat().starts_with(verb));
    let number = |name: &str| {
        tool.parameters.iter().find(|p| p.is_number() && mentions(&p.name_words, &[name]))
    };
    if let Some((hour, minute)) = number("hour").zip(number("minute"))
        && sets
        && tool.unfilled(&[&hour.name, &minute.name]).next().is_none()
    {
        let input = Input::HourMinute(hour.name.clone(), minute.name.clone());
        found.push(effect(Topic::Alarm, tool, input, Map::new(), Place::None));
        return;
    }
    let time = tool.parameters.iter().find(|p| {
        matches!(p.accepts, Accepts::Text)
            && (p.description.contains("HH:MM")
                || p.description.contains("HH:mm")
                || has_example(&p.description))
    });
    if let Some(time) = time.filter(|time| sets && tool.unfilled(&[&time.name]).next().is_none()) {
        found.push(effect(
            Topic::Alarm,
            tool,
            Input::Clock(time.name.clone()),
            Map::new(),
            Place::None,
        ));
    }
}
