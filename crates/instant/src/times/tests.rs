//! Times of day and lengths in both languages, as they are read. Not for what day it is.

use super::*;
use crate::normalise::words_of;

#[test]
fn clocks_are_read_in_both_languages() {
    for (text, hour, minute) in [
        ("下午两点三刻", 14, 45),
        ("早上七点半", 7, 30),
        ("晚上八点零五分", 20, 5),
        ("14:30", 14, 30),
        ("下午差五分六点", 17, 55),
        ("凌晨三点", 3, 0),
        ("half past six pm", 18, 30),
        ("quarter to nine in the morning", 8, 45),
        ("six oh five am", 6, 5),
        ("17:20", 17, 20),
        ("noon", 12, 0),
        ("9am", 9, 0),
        ("ten past four in the afternoon", 16, 10),
        ("今晚十二点", 0, 0),
        ("今晚两点", 2, 0),
        ("今晚五点", 17, 0),
        ("晚上一点半", 1, 30),
        ("今天晚上六点", 18, 0),
        ("今晚十一点五十", 23, 50),
        ("今晚零点", 0, 0),
        ("晚上二十点", 20, 0),
        ("半夜五点", 5, 0),
        ("夜里十一点", 23, 0),
        ("午夜十二点", 0, 0),
        ("晚上差一刻一点", 0, 45),
        ("今晚差五分十二点", 23, 55),
        ("今晚差一刻六点", 17, 45),
        ("凌晨差五分十二点", 23, 55),
        ("下午差一刻一点", 12, 45),
        ("差一刻十三点", 12, 45),
        ("差五分零点", 23, 55),
        ("three at night", 3, 0),
        ("five at night", 5, 0),
        ("nine at night", 21, 0),
        ("12 tonight", 0, 0),
        ("two thirty tonight", 2, 30),
        ("five tonight", 17, 0),
        ("eleven tonight", 23, 0),
        ("quarter to one tonight", 0, 45),
        ("quarter to twelve at night", 23, 45),
        ("quarter to one in the afternoon", 12, 45),
    ] {
        let words = words_of(text).words;
        let language = if text.is_ascii() { Language::English } else { Language::Chinese };
        let language = if text == "14:30" { Language::Chinese } else { language };
        let (length, clock) = clock(&words, language).unwrap();
        assert_eq!(
            (length, clock.hour_of_day(), clock.minute),
            (words.len(), Some(hour), minute),
            "{text}"
        );
    }
}

#[test]
fn lengths_are_read_in_both_languages() {
    for (text, days, seconds) in [
        ("一个半小时", 0, 5_400),
        ("半小时", 0, 1_800),
        ("一小时二十分钟", 0, 4_800),
        ("一刻钟", 0, 900),
        ("三天", 3, 0),
        ("两个星期", 14, 0),
        ("九十秒", 0, 90),
        ("an hour and a half", 0, 5_400),
        ("half an hour", 0, 1_800),
        ("two and a half hours", 0, 9_000),
        ("an hour and twenty minutes", 0, 4_800),
        ("ninety second", 0, 90),
        ("three weeks", 21, 0),
        ("a quarter of an hour", 0, 900),
    ] {
        let words = words_of(text).words;
        let language = if text.is_ascii() { Language::English } else { Language::Chinese };
        assert_eq!(
            length(&words, language),
            Some((words.len(), Length { months: 0, days, seconds })),
            "{text}"
        );
    }
}

#[test]
fn a_time_without_a_half_of_the_day_stays_open() {
    for (text, hour, minute) in [
        ("差一刻一点", 12, 45),
        ("差十分七点", 6, 50),
        ("十二点", 12, 0),
        ("quarter to one", 12, 45),
        ("ten to seven", 6, 50),
    ] {
        let words = words_of(text).words;
        let language = if text.is_ascii() { Language::English } else { Language::Chinese };
        let clock = Clock::of(hour, minute, None);
        assert_eq!(super::clock(&words, language), Some((words.len(), clock)), "{text}");
        assert_eq!(clock.hour_of_day(), None, "{text}");
    }
}

#[test]
fn approximate_times_are_no_times() {
    for text in ["两三点", "下午五六点", "八点二三十分", "十一二点", "差五六分八点", "八点五六"]
    {
        assert_eq!(clock(&words_of(text).words, Language::Chinese), None, "{text}");
    }
    for text in ["五六分钟", "两三天", "十五六分钟", "二三十秒", "一两个小时", "三五年"]
    {
        assert_eq!(length(&words_of(text).words, Language::Chinese), None, "{text}");
    }
}

#[test]
fn the_first_hours_of_a_night_are_on_the_next_day() {
    for (text, is_after) in [
        ("今晚十二点", true),
        ("晚上差一刻一点", true),
        ("夜里两点", true),
        ("今晚十一点", false),
        ("今晚五点", false),
        ("凌晨两点", false),
        ("12 tonight", true),
        ("three at night", true),
        ("nine at night", false),
        ("three am", false),
    ] {
        let language = if text.is_ascii() { Language::English } else { Language::Chinese };
        let clock = clock(&words_of(text).words, language).unwrap().1;
        assert_eq!(clock.is_after_midnight(), is_after, "{text}");
    }
}

#[test]
fn each_part_of_the_day_has_its_hours() {
    // For the hours of 0 to 24: the hour of the day, or -1 if nobody says it so.
    type Hours = [i64; 25];
    const OPEN: i64 = -1;
    let filled =
        |of: fn(i64) -> i64| -> Hours { std::array::from_fn(|at| of(i64::try_from(at).unwrap())) };
    let before_noon = filled(|hour| if hour > 12 { OPEN } else { hour });
    let from_midnight = filled(|hour| match hour {
        12 | 24 => 0,
        13.. => OPEN,
        hour => hour,
    });
    let noon = filled(|hour| match hour {
        1 | 2 => hour + 12,
        11..=14 => hour,
        _ => OPEN,
    });
    let afternoon = filled(|hour| match hour {
        1..=11 => hour + 12,
        12..=19 => hour,
        _ => OPEN,
    });
    let dusk = filled(|hour| match hour {
        0 | 12 | 24 => 0,
        1..=11 => hour + 12,
        16..=23 => hour,
        _ => OPEN,
    });
    let evening = filled(|hour| match hour {
        0 | 12 | 24 => 0,
        5..=11 => hour + 12,
        13..=15 => OPEN,
        hour => hour,
    });
    let night = filled(|hour| match hour {
        0 | 12 | 24 => 0,
        6..=11 => hour + 12,
        13..=17 => OPEN,
        hour => hour,
    });
    for (parts, hours) in [
        (
            &["上午", "早上", "早晨", "清晨", "一早", "今早", "今天上午", "今天早上"][..],
            before_noon,
        ),
        (&["凌晨", "今天凌晨"], from_midnight),
        (&["中午", "正午", "今天中午"], noon),
        (&["下午", "午后", "今天下午"], afternoon),
        (&["傍晚", "今天傍晚"], dusk),
        (&["晚上", "今晚", "今天晚上"], evening),
        (&["半夜", "午夜", "深夜", "夜里", "夜晚", "今夜"], night),
        (&["am", "a m", "in the morning", "this morning", "in the am"], from_midnight),
        (&["pm", "in the afternoon", "this afternoon"], afternoon),
        (&["in the evening", "this evening"], dusk),
        (&["tonight"], evening),
        (&["at night", "in the night"], night),
        (&["noon", "midday"], noon),
    ] {
        for part in parts {
            for (said, hour) in hours.iter().enumerate() {
                let language = if part.is_ascii() { Language::English } else { Language::Chinese };
                let text = if part.is_ascii() {
                    format!("{said} {part}")
                } else {
                    format!("{part}{said}点")
                };
                let words = words_of(&text).words;
                let read = clock(&words, language).unwrap();
                assert_eq!(read.0, words.len(), "{text}");
                assert_eq!(read.1.hour_of_day().unwrap_or(OPEN), *hour, "{text}");
                let is_today = part.contains('今') || part.starts_with('t');
                assert_eq!(read.1.is_today, is_today, "{text}");
            }
        }
    }
}

#[test]
fn noon_and_midnight_are_read() {
    for (text, hour, minute) in [
        ("正午", 12, 0),
        ("正午十二点", 12, 0),
        ("中午十二点", 12, 0),
        ("中午十二点半", 12, 30),
        ("中午十一点半", 11, 30),
        ("中午一点", 13, 0),
        ("中午一点一刻", 13, 15),
        ("中午两点", 14, 0),
        ("中午差五分十二点", 11, 55),
        ("中午差五分一点", 12, 55),
        ("上午十二点", 12, 0),
        ("上午十二点半", 12, 30),
        ("早上十二点", 12, 0),
        ("上午差五分十二点", 11, 55),
        ("上午差一刻一点", 0, 45),
        ("凌晨十二点", 0, 0),
        ("凌晨十二点半", 0, 30),
        ("凌晨零点", 0, 0),
        ("零点", 0, 0),
        ("二十四点", 0, 0),
        ("下午十二点", 12, 0),
        ("下午十二点半", 12, 30),
        ("晚上十二点", 0, 0),
        ("傍晚六点", 18, 0),
        ("noon", 12, 0),
        ("midday", 12, 0),
        ("midnight", 0, 0),
        ("twelve noon", 12, 0),
        ("twelve midnight", 0, 0),
        ("12 midday", 12, 0),
        ("twelve in the morning", 0, 0),
        ("twelve thirty am", 0, 30),
        ("twelve thirty pm", 12, 30),
        ("twelve in the afternoon", 12, 0),
        ("twelve at night", 0, 0),
        ("twelve in the evening", 0, 0),
        ("half past twelve in the afternoon", 12, 30),
        ("quarter to twelve in the morning", 11, 45),
        ("ten to twelve am", 11, 50),
        ("quarter to one in the morning", 0, 45),
        ("six in the evening", 18, 0),
        ("0:15", 0, 15),
    ] {
        let words = words_of(text).words;
        let language = if text.is_ascii() { Language::English } else { Language::Chinese };
        let (length, clock) = clock(&words, language).unwrap();
        let hours = (clock.hour_of_day(), clock.minute);
        assert_eq!((length, hours), (words.len(), (Some(hour), minute)), "{text}");
    }
}

#[test]
fn days_of_a_month_without_a_month_are_found() {
    for (text, is_named) in [
        ("二十五号早上七点叫我", true),
        ("25号叫我", true),
        ("三十一日早上", true),
        ("早上七点叫我", false),
        ("七点零五分", false),
        ("wake me on the third", true),
        ("wake me at seven on the twenty first", true),
        ("alarm for the thirtieth", true),
        ("wake me on the 25th", true),
        ("wake me on 2nd", true),
        ("wake me at seven", false),
        ("wake me on the train", false),
    ] {
        let language = if text.is_ascii() { Language::English } else { Language::Chinese };
        assert_eq!(names_day_of_month(&words_of(text).words, language), is_named, "{text}");
    }
}
