//! Rules about the time, dates, weekdays, and what lies between two of them. Not for timers and alarms.

use hearken_base::language::Language;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, ToSpan};

use super::Setting;
use crate::act::Act;
use crate::calendar::{
    Day, date_in_year, date_of, days_between, last_date_of, month_name, ordinal, weekday_name,
};
use crate::length::Length;
use crate::names::NAMES;
use crate::phrases;
use crate::referent::{About, Referent};
use crate::template::Slots;
use crate::value::Value;

/// Returns the day of the slot; today if there is none.
fn day(slots: &Slots) -> Day {
    match slots.get("day") {
        Some(Value::Day(day)) => *day,
        _ => Day::Near(0),
    }
}

/// Returns the date of a day that is asked for: of the year that is said, or the last one of a day that is over.
fn asked_date(day: Day, slots: &Slots, today: Date) -> Option<Date> {
    let holidays = &NAMES.holidays;
    match slots.text("which") {
        "last" => last_date_of(day, today, holidays),
        "last_year" => date_in_year(day, today.year() - 1, holidays),
        "this_year" => date_in_year(day, today.year(), holidays),
        "next_year" => date_in_year(day, today.year() + 1, holidays),
        _ => date_of(day, today, holidays),
    }
}

/// Returns how a day is called in an answer; `None` if it has no name but its date.
fn day_name(day: Day, language: Language) -> Option<String> {
    let zh = language == Language::Chinese;
    let name = match day {
        Day::Near(days) => match (days, zh) {
            (0, true) => "今天",
            (1, true) => "明天",
            (2, true) => "后天",
            (3, true) => "大后天",
            (-1, true) => "昨天",
            (-2, true) => "前天",
            (0, false) => "today",
            (1, false) => "tomorrow",
            (2, false) => "the day after tomorrow",
            (-1, false) => "yesterday",
            (-2, false) => "the day before yesterday",
            _ => return None,
        },
        Day::Holiday(at) | Day::HolidayThisYear(at) => {
            return english_title(NAMES.holidays.name(at, language)?, language);
        }
        Day::After(length) if zh => {
            return Some(format!("{}后", phrases::length(length, language)));
        }
        Day::Before(length) if zh => {
            return Some(format!("{}前", phrases::length(length, language)));
        }
        _ => return None,
    };
    Some(name.to_owned())
}

/// Returns a name with capitals, in English.
fn english_title(name: &str, language: Language) -> Option<String> {
    if language == Language::Chinese {
        return Some(name.to_owned());
    }
    let title = |word: &str| {
        let mut chars = word.chars();
        chars.next().map(|first| first.to_uppercase().chain(chars).collect::<String>())
    };
    let words: Option<Vec<String>> = name.split(' ').map(title).collect();
    Some(
        words?
            .join(" ")
            .replace("Years", "Year's")
            .replace("Valentines", "Valentine's")
            .replace("Fools", "Fools'")
            .replace("Patricks", "Patrick's"),
    )
}

/// Returns a date in words, with its year if it is not that of `today`.
fn date_text(date: Date, today: Date, language: Language) -> String {
    let has_year = date.year() != today.year();
    match language {
        Language::Chinese => {
            let year = if has_year { format!("{}年", date.year()) } else { String::new() };
            format!("{year}{}月{}日", date.month(), date.day())
        }
        Language::English => {
            let year = if has_year { format!(", {}", date.year()) } else { String::new() };
            format!("{} {}{year}", month_name(date.month()), ordinal(date.day()))
        }
    }
}

/// Returns what stands before a statement on a day, with the verb.
fn beginning(name: Option<String>, date: Date, today: Date, language: Language) -> String {
    let name = name.unwrap_or_else(|| date_text(date, today, language));
    let verb = match (language, date < today) {
        (Language::Chinese, _) => "是",
        (Language::English, true) => " was ",
        (Language::English, false) => " is ",
    };
    let mut chars = name.chars();
    let name: String = chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect();
    format!("{name}{verb}")
}

pub(super) fn time(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let now = &setting.context.now;
    let language = setting.language;
    let text = match slots.get("zone") {
        Some(Value::Zone(at)) => {
            let place = NAMES.places.get(*at)?;
            let there = now.with_time_zone(TimeZone::get(&place.zone).ok()?);
            let clock = phrases::clock(there.time(), language);
            let name = english_title(place.group.name(language), language)?;
            let days = days_between(now.date(), there.date())?;
            let day = day_name(Day::Near(days), language).filter(|_| days != 0);
            match language {
                Language::Chinese => format!("{name}现在是{}{clock}。", day.unwrap_or_default()),
                Language::English => format!(
                    "In {name} it's {clock}{}.",
                    day.map(|day| format!(" {day}")).unwrap_or_default()
                ),
            }
        }
        _ => {
            let clock = phrases::clock(now.time(), language);
            setting.say(format!("现在是{clock}。"), format!("It's {clock}."))
        }
    };
    let referent = Some(Referent::new(About::Time, Vec::new(), None));
    Some(vec![Act::Say { text, referent }])
}

pub(super) fn date(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let today = setting.context.now.date();
    let language = setting.language;
    let day = day(slots);
    let date = asked_date(day, slots, today)?;
    let weekday = weekday_name(date.weekday(), language);
    let name = match day {
        Day::Weekday { .. } | Day::After(_) | Day::Before(_) if language == Language::English => {
            None
        }
        Day::Weekday { .. } => None,
        day => day_name(day, language),
    };
    let text = match (language, name) {
        (Language::Chinese, Some(name)) => {
            format!("{name}是{}年{}，{weekday}。", date.year(), date_text(date, date, language))
        }
        (Language::Chinese, None) => {
            format!("那天是{}，{weekday}。", date_text(date, today, language))
        }
        (Language::English, Some(name)) => {
            format!(
                "{}{weekday}, {}, {}.",
                beginning(Some(name), date, today, language),
                date_text(date, date, language),
                date.year()
            )
        }
        (Language::English, None) => {
            format!("That's {weekday}, {}.", date_text(date, today, language))
        }
    };
    Some(Setting::answer(text))
}

pub(super) fn weekday(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let today = setting.context.now.date();
    let language = setting.language;
    let day = day(slots);
    if matches!(day, Day::Weekday { .. }) {
        return None;
    }
    let date = asked_date(day, slots, today)?;
    let name = weekday_name(date.weekday(), language);
    let text = match (language, day) {
        (Language::English, Day::After(_) | Day::Before(_)) => format!("That's a {name}."),
        (_, Day::Holiday(_) | Day::HolidayThisYear(_)) => {
            let date_text = date_text(date, today, language);
            let begin = beginning(day_name(day, language), date, today, language);
            setting.say(
                format!("{begin}{date_text}，{name}。"),
                format!("{begin}on a {name}, {date_text}."),
            )
        }
        _ => {
            let begin = beginning(day_name(day, language), date, today, language);
            setting.say(
                format!("{begin}{name}。"),
                format!(
                    "{begin}{}{name}.",
                    if matches!(day, Day::Date { .. }) { "a " } else { "" }
                ),
            )
        }
    };
    Some(Setting::answer(text))
}

pub(super) fn month(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let today = setting.context.now.date();
    let months: i32 = match slots.text("which") {
        "next" => 1,
        "last" => -1,
        _ => 0,
    };
    let date = today.checked_add(Span::new().months(months)).ok()?;
    let (zh, en) = match months {
        1 => ("下个月", "Next month will be"),
        -1 => ("上个月", "Last month was"),
        _ => ("现在", "It's"),
    };
    let year = date.year();
    let text = setting.say(
        format!("{zh}是{year}年{}月。", date.month()),
        format!("{en} {} {year}.", month_name(date.month())),
    );
    Some(Setting::answer(text))
}

pub(super) fn year(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let year = setting.context.now.date().year();
    let (zh, en, year) = match slots.text("which") {
        "next" => ("明年", "Next year will be", year + 1),
        "last" => ("去年", "Last year was", year - 1),
        _ => ("今年", "It's", year),
    };
    Some(Setting::answer(setting.say(format!("{zh}是{year}年。"), format!("{en} {year}."))))
}

pub(super) fn days_until(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let today = setting.context.now.date();
    let language = setting.language;
    let day = day(slots);
    let date = date_of(day, today, &NAMES.holidays)?;
    let days = days_between(today, date).filter(|days| *days >= 0)?;
    let name = match day {
        Day::Weekday { .. } => weekday_name(date.weekday(), language).to_owned(),
        day => day_name(day, language).unwrap_or_else(|| date_text(date, today, language)),
    };
    let text = match (language, days) {
        (Language::Chinese, 0) => format!("今天就是{name}。"),
        (Language::English, 0) => format!("{name} is today."),
        (Language::Chinese, _) => format!("离{name}还有{days}天。"),
        (Language::English, 1) => format!("There is 1 day left until {name}: it's tomorrow."),
        (Language::English, _) => format!("There are {days} days left until {name}."),
    };
    Some(Setting::answer(text))
}

pub(super) fn time_after(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let Some(Value::Duration(length)) = slots.get("duration") else { return None };
    let now = &setting.context.now;
    let language = setting.language;
    if length.months > 0 || length.days > 2 {
        return None;
    }
    let is_before = slots.text("which") == "before";
    let sign = if is_before { -1 } else { 1 };
    let span =
        Span::new().try_days(sign * length.days).ok()?.try_seconds(sign * length.seconds).ok()?;
    let then = now.checked_add(span).ok()?;
    let clock = phrases::clock(then.time(), language);
    let days = days_between(now.date(), then.date())?;
    let day = day_name(Day::Near(days), language).filter(|_| days != 0);
    let said = phrases::length(*length, language);
    let text = match language {
        Language::Chinese => format!(
            "{said}{}是{}{clock}。",
            if is_before { "前" } else { "后" },
            day.unwrap_or_default()
        ),
        Language::English => {
            let day = day.map(|day| format!(" {day}")).unwrap_or_default();
            if is_before {
                format!("{said} ago it was {clock}{day}.")
            } else {
                format!("In {said} it will be {clock}{day}.")
            }
        }
    };
    Some(Setting::answer(text))
}

pub(super) fn time_until(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let Some(Value::Clock(clock)) = slots.get("clock") else { return None };
    let now = &setting.context.now;
    let hours = match clock.hour_of_day() {
        Some(hour) => vec![hour],
        None if clock.half.is_none() => vec![clock.hour % 12, clock.hour % 12 + 12],
        None => return None,
    };
    let at = |hour: i64| {
        let time =
            jiff::civil::time(i8::try_from(hour).ok()?, i8::try_from(clock.minute).ok()?, 0, 0);
        let then = now.with().time(time).build().ok()?;
        if then > *now { Some(then) } else { then.checked_add(1.day()).ok() }
    };
    let then = hours.into_iter().filter_map(at).min()?;
    let seconds = now.duration_until(&then).as_secs();
    let minutes = (seconds + 59) / 60;
    let length =
        phrases::length(Length { months: 0, days: 0, seconds: minutes * 60 }, setting.language);
    let clock = phrases::clock(then.time(), setting.language);
    Some(Setting::answer(setting.say(
        format!("离{clock}还有{length}。"),
        format!("There are {length} left until {clock}."),
    )))
}
