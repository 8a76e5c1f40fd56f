//! Rules for small talk, jokes, and utterances that say nothing. Their answers are in the files of templates and jokes. Not for
//! questions about facts.

use super::Setting;
use super::talk::name;
use crate::act::Act;
use crate::jokes;
use crate::referent::About;
use crate::template::Slots;

/// Says the answer of the template, with the name of the assistant in the place of `NAME`.
pub(super) fn chat(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let text = slots.text("answer").replace("NAME", name(setting));
    (!text.is_empty()).then(|| Setting::answer(text))
}

/// Asks for what an utterance lacks. After a command for a device, a short one may refer to it.
pub(super) fn unclear(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let refers =
        setting.last.is_some_and(|last| !matches!(last.about, About::Number | About::Time));
    if refers && slots.text("after") == "no" {
        return None;
    }
    let text = match slots.text("answer") {
        "" => setting.say(
            "抱歉，没听清，请再说一遍。".to_owned(),
            "Sorry, I didn't catch that. Could you say it again?".to_owned(),
        ),
        text => text.to_owned(),
    };
    Some(Setting::answer(text))
}

pub(super) fn joke(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let last = setting.context.last_answer.map(str::trim);
    let is_riddle = match slots.text("kind") {
        "riddle" => true,
        // 再来一个 asks for a joke only after one.
        "same" => last.and_then(jokes::kind)?,
        _ => false,
    };
    let minute = setting.context.now.timestamp().as_second() / 60;
    let text = jokes::of_minute(minute, setting.language, is_riddle, last)?;
    Some(Setting::answer(text.to_owned()))
}

/// A reason alone does nothing: it is part of a command.
pub(super) fn reason(_: &Slots, _: &Setting<'_>) -> Option<Vec<Act>> {
    None
}
