//! Rules that cancel timers. Not for those that start them, see `devices`.

use super::Setting;
use super::devices::{call, nowhere};
use crate::act::Act;
use crate::bindings::{Bound, Cancelled, Topic};
use crate::length::Length;
use crate::phrases::{Sentence, Subject, length};
use crate::referent::About;
use crate::template::Slots;
use crate::value::Value;

/// Cancels the timer that is meant. A tool that cannot be told which one is the model's if a length is said, or all of them.
pub(super) fn cancel(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let set = setting.last.and_then(|last| match last.about {
        About::Timer(wanted) => Some(wanted),
        _ => None,
    });
    let is_it = slots.text("form") == "it";
    if is_it && set.is_none() {
        return None;
    }
    if let Some(Value::Duration(wanted)) = slots.get("duration") {
        return of_length(*wanted, setting);
    }
    if slots.text("which") == "all" {
        let bound = find(Cancelled::All, setting)?;
        let subject = Subject::fixed(
            Sentence::new("所有计时都取消了。", "Okay, all timers are cancelled."),
            Sentence::new("抱歉，计时没能取消。", "Sorry, I couldn't cancel the timers."),
        );
        return Some(vec![Act::Do {
            call: call(&bound, bound.arguments()),
            subject,
            referent: None,
        }]);
    }
    // The timer that is meant was set by the last answer.
    if let Some(acts) = set.filter(|_| is_it).and_then(|wanted| of_length(wanted, setting)) {
        return Some(acts);
    }
    let bound = find(Cancelled::Running, setting)?;
    let subject = Subject::fixed(
        Sentence::new("计时取消了。", "Okay, the timer is cancelled."),
        Sentence::new("抱歉，计时没能取消。", "Sorry, I couldn't cancel the timer."),
    );
    Some(vec![Act::Do { call: call(&bound, bound.arguments()), subject, referent: None }])
}

fn find(of: Cancelled, setting: &Setting<'_>) -> Option<Bound> {
    setting.context.bindings.find(|topic| *topic == Topic::TimerCancel(of), nowhere())
}

/// Cancels the timer of a length of time, where a tool has an argument for it.
fn of_length(wanted: Length, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let bound = find(Cancelled::OfLength, setting)?;
    let arguments = bound.with_seconds(wanted)?;
    let said = length(wanted, setting.language);
    let subject = Subject::fixed(
        Sentence::new(
            format!("{said}的计时取消了。"),
            format!("Okay, the timer for {said} is cancelled."),
        ),
        Sentence::new("抱歉，计时没能取消。", "Sorry, I couldn't cancel the timer."),
    );
    Some(vec![Act::Do { call: call(&bound, arguments), subject, referent: None }])
}
