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
        let clock = Clock { hour, minute, half: None };
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
