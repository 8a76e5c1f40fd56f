//! Rules for fixed sentences: stop, thanks, goodbye, greetings, who answers, and what it can do. Not for small talk.

use hearken_base::language::Language;

use super::Setting;
use super::devices::media_one;
use crate::DEFAULT_NAME;
use crate::act::Act;
use crate::bindings::{Action, Topic};
use crate::names::NAMES;
use crate::referent::About;
use crate::template::Slots;

/// Ends what runs. The speech has ended already: its person has spoken over it.
pub(super) fn stop(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let silent = || Setting::answer(setting.say("好的。".to_owned(), "Okay.".to_owned()));
    if slots.text("of") == "speech" {
        return Some(silent());
    }
    let bindings = setting.context.bindings;
    // After a command for music, stop means the music, and without one what is known to run.
    let is_music = setting.last.is_some_and(|last| last.about == About::Music);
    if is_music || !bindings.halts() {
        let halts = |topic: &Topic| matches!(topic, Topic::Media(Action::Stop | Action::Pause));
        if is_music || bindings.of_topic(halts).next().is_some() {
            return Some(vec![media_one(Action::Stop, setting)?]);
        }
        return Some(silent());
    }
    // A tool may stop what moves: to say `okay` would claim that it was called.
    None
}

pub(super) fn thanks(_: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    Some(Setting::answer(setting.say("不客气。".to_owned(), "You're welcome.".to_owned())))
}

pub(super) fn goodbye(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let text = if slots.text("when") == "night" {
        setting.say("晚安，好梦。".to_owned(), "Good night, sleep well.".to_owned())
    } else {
        setting.say("再见。".to_owned(), "Goodbye, see you.".to_owned())
    };
    Some(Setting::answer(text))
}

/// Greets without a question: after one, the next command would be left to the model.
pub(super) fn greeting(_: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    Some(Setting::answer(
        setting.say("你好，我在。".to_owned(), "Hello, I'm listening.".to_owned()),
    ))
}

/// Returns the name by which the assistant is known. Without a configured one, it has a name in
/// English only: a Chinese voice cannot say it.
pub(super) fn name<'a>(setting: &Setting<'a>) -> &'a str {
    match (setting.context.name.trim(), setting.language) {
        ("", Language::English) => DEFAULT_NAME,
        (name, _) => name,
    }
}

pub(super) fn identity(_: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let name = name(setting);
    Some(Setting::answer(
        setting.say(format!("我是语音助手{name}。"), format!("I'm {name}, a voice assistant.")),
    ))
}

pub(super) fn maker(_: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let name = name(setting);
    let zh = format!("我是语音助手{name}，运行在开源软件上。");
    let en = format!("I'm {name}, a voice assistant that runs on open-source software.");
    Some(Setting::answer(setting.say(zh, en)))
}

pub(super) fn capability(_: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let language = setting.language;
    let bindings = setting.context.bindings;
    let has = |wanted: fn(&Topic) -> bool| bindings.of_topic(wanted).next().is_some();
    let mut can: Vec<String> = Vec::new();
    let mut add = |is_there: bool, zh: &str, en: &str| {
        if is_there {
            can.push(if language == Language::Chinese { zh.to_owned() } else { en.to_owned() });
        }
    };
    add(has(|topic| *topic == Topic::Volume), "调音量", "set the volume");
    add(has(|topic| *topic == Topic::Screen), "调屏幕亮度", "set the brightness of the screen");
    add(
        has(|topic| matches!(topic, Topic::Theme { .. })),
        "换屏幕主题",
        "change the theme of the screen",
    );
    let light = NAMES.device("light");
    let is_lamp = |kind: usize| light.is_some_and(|light| NAMES.is_a(kind, light));
    let is_light = |topic: &Topic| {
        matches!(topic, Topic::Switch { kind, .. } if kind.is_none_or(is_lamp))
            || *topic == Topic::Dim
    };
    add(bindings.of_topic(is_light).next().is_some(), "开关灯", "switch lights");
    add(has(|topic| *topic == Topic::Climate), "调温度", "set the temperature");
    add(has(|topic| matches!(topic, Topic::Cover(_))), "开关窗帘", "move the curtains");
    add(has(|topic| matches!(topic, Topic::Scene(_))), "切换场景", "start scenes");
    add(has(|topic| matches!(topic, Topic::Media(_))), "控制音乐", "control the music");
    add(has(|topic| *topic == Topic::Timer), "计时", "set timers");
    add(has(|topic| *topic == Topic::Alarm), "设闹钟", "set alarms");
    let text = match language {
        Language::Chinese => {
            can.push("报时和算数".to_owned());
            format!("我可以{}，也可以陪你聊天、回答问题。", can.join("、"))
        }
        Language::English => {
            can.push("tell the time and do sums".to_owned());
            format!("I can {}. I can also chat and answer questions.", can.join(", "))
        }
    };
    Some(Setting::answer(text))
}
