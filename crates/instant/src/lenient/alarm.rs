//! Timers and alarms among other words: what is set must be new, and an alarm has a time of day and no date. Not for what is done now.

use hearken_base::language::Language;

use super::{Command, Frame};
use crate::calendar::Day;
use crate::mentions::{Mention, What};
use crate::names::NAMES;
use crate::template::Slots;
use crate::times::names_day_of_month;
use crate::value::Value;

/// Words for the later halves of a day.
const LATE_HALVES: [&str; 11] = [
    "tonight",
    "night",
    "evening",
    "afternoon",
    "今晚",
    "明晚",
    "晚上",
    "夜里",
    "半夜",
    "下午",
    "傍晚",
];
/// Words before a length of time that is added to another, or is left of one.
const BEFORE_MORE: [&str; 13] =
    ["by", "extra", "further", "only", "再", "多", "少", "加", "减", "有", "剩", "差", "晚"];
/// Words behind such a length of time.
const BEHIND_MORE: [&str; 16] = [
    "off", "from", "to", "onto", "into", "more", "less", "longer", "extra", "shorter", "left",
    "early", "late", "ago", "前", "多",
];
/// Words behind a weekday that name more days.
const MORE_DAYS: [&str; 9] = ["一", "二", "三", "四", "五", "六", "日", "天", "到"];

fn is_day(mention: &Mention) -> bool {
    matches!(mention.what, What::Slot(Value::Day(_)))
}

impl Command<'_> {
    pub(super) fn timer(&self) -> Option<Frame> {
        let [duration] = self.values.durations.as_slice() else { return None };
        if !self.has("timer")
            || self.is_later()
            || !self.values.devices.is_empty()
            || !self.values.rooms.is_empty()
        {
            return None;
        }
        let mut slots = Slots::default();
        slots.push("duration", duration.clone());
        Some(("timer", slots))
    }

    /// Reports whether a length of time is said to be more, less or what is left.
    pub(super) fn is_about_length(&self) -> bool {
        let is_length = |one: &&Mention| matches!(one.what, What::Slot(Value::Duration(_)));
        self.mentions.all.iter().filter(is_length).any(|one| self.is_beside_more(one))
    }

    /// Reports whether a length of time is added to another, or is left of one: 还剩五分钟, `five minutes off the timer`.
    fn is_beside_more(&self, one: &Mention) -> bool {
        let word =
            |at: Option<usize>| at.and_then(|at| self.words.get(at)).map_or("", String::as_str);
        let behind = word(Some(one.to));
        let is_from_now = behind == "from" && word(Some(one.to + 1)) == "now";
        BEFORE_MORE.contains(&word(one.from.checked_sub(1)))
            || BEHIND_MORE.contains(&behind) && !is_from_now
    }

    pub(super) fn alarm(&self) -> Option<Frame> {
        let [value @ Value::Clock(clock)] = self.values.clocks.as_slice() else { return None };
        // 今晚看球八点喊我: the half of the day is not said with the time.
        let is_apart =
            clock.half.is_none() && LATE_HALVES.iter().any(|half| self.says_phrase(half));
        if !self.has("wake") || !self.values.devices.is_empty() || is_apart {
            return None;
        }
        let mut slots = Slots::default();
        slots.push("clock", value.clone());
        slots.push_text("date", self.alarm_date()?);
        if self.says_phrase("明早") {
            slots.push_text("half", "morning");
        }
        slots.push_text("purpose", "wake");
        Some(("alarm", slots))
    }

    /// Returns the day of an alarm, empty if none is named; `None` if another than today or tomorrow is, or more than one.
    fn alarm_date(&self) -> Option<&'static str> {
        let language = self.setting.language;
        let is_holiday = (0..self.words.len()).any(|at| {
            NAMES.holidays.read(self.words.get(at..).unwrap_or_default(), language).is_some()
        });
        let is_long = |duration: &Value| matches!(duration, Value::Duration(length) if length.months > 0 || length.days > 0);
        let is_of_day = |at: usize| {
            self.mentions
                .all
                .iter()
                .filter(|one| is_day(one))
                .any(|one| (one.from..one.to).contains(&at))
        };
        let others = self.words.iter().enumerate().filter(|(at, _)| !is_of_day(*at));
        let others: Vec<String> = others.map(|(_, word)| word.clone()).collect();
        if is_holiday
            || names_day_of_month(&others, language)
            || self.values.durations.iter().any(is_long)
            || self.mentions.all.iter().any(|one| self.is_one_of_days(one))
        {
            return None;
        }
        let is_tomorrow = self.says_phrase("明早") || self.says_phrase("明晚");
        match self.values.days.as_slice() {
            [] if is_tomorrow => Some("tomorrow"),
            [] => (!self.has("later")).then_some(""),
            [_] if is_tomorrow => None,
            [day] => match self.days_until(*day)? {
                0 => Some("today"),
                1 => Some("tomorrow"),
                _ => None,
            },
            _ => None,
        }
    }

    /// Reports whether a weekday is one of several: 周一三五.
    fn is_one_of_days(&self, one: &Mention) -> bool {
        let is_weekday = matches!(one.what, What::Slot(Value::Day(Day::Weekday { .. })));
        let is_counted = |next: &Mention| {
            next.from == one.to
                && !matches!(next.what, What::Slot(Value::Level(..) | Value::Number(_)))
        };
        let is_more = self.words.get(one.to).is_some_and(|word| MORE_DAYS.contains(&word.as_str()));
        self.setting.language == Language::Chinese
            && is_weekday
            && is_more
            && !self.mentions.all.iter().any(is_counted)
    }
}
