//! Reads times of day, durations and days at a place in a sentence, in Chinese and English. Not for what day it is: see `calendar`.

use hearken_base::language::Language;

use crate::calendar::{Day, Holidays, Week};
use crate::day_parts::{EN_HALVES, Half, ZH_HALVES};
use crate::exact::Fraction;
use crate::length::Length;
use crate::numbers::{en_integer, is_zh_number, numbers, rest, word, zh_integer};

/// Time of day, as it is said: hours of 0 to 24.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Clock {
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) half: Option<Half>,
    /// True if the part of the day is one of today: 今晚, `this afternoon`.
    pub(crate) is_today: bool,
}

impl Clock {
    fn of(hour: i64, minute: i64, half: Option<Half>) -> Self {
        Self { hour, minute, half, is_today: false }
    }

    /// Returns the hour of 0 to 23; `None` if nothing says which half of the day is meant.
    pub(crate) fn hour_of_day(self) -> Option<i64> {
        match self.half {
            Some(half) => half.hour_of_day(self.hour),
            None => (self.hour == 0 || self.hour > 12).then_some(self.hour % 24),
        }
    }

    /// Reports whether it is after the midnight that ends the named day: 今晚两点 is tomorrow.
    pub(crate) fn is_after_midnight(self) -> bool {
        matches!(self.half, Some(Half::Dusk | Half::Evening | Half::Night))
            && self.hour_of_day().is_some_and(|hour| hour < 6)
    }

    /// Returns the same minute one hour before, in the half of the day that is right then.
    fn an_hour_earlier(self) -> Self {
        let hour = match self.hour {
            0 => 23,
            1 => 12,
            hour => hour - 1,
        };
        let earlier = Self { hour, ..self };
        let wanted = self.hour_of_day().map(|hour| (hour + 23) % 24);
        match wanted {
            Some(hour) if earlier.hour_of_day() != wanted => {
                let half = if hour < 12 { Half::Morning } else { Half::Afternoon };
                Self { hour: if hour % 12 == 0 { 12 } else { hour % 12 }, half: Some(half), ..self }
            }
            _ => earlier,
        }
    }
}

/// Returns the number of words of the first of `texts` with which `words` begin; each text has spaces between Latin words.
fn begins(words: &[String], texts: &[&str]) -> usize {
    let length = |text: &&str| {
        let parts: Vec<String> = if text.is_ascii() {
            text.split(' ').map(str::to_owned).collect()
        } else {
            text.chars().map(String::from).collect()
        };
        words.get(..parts.len()).is_some_and(|start| start == parts).then_some(parts.len())
    };
    texts.iter().find_map(length).unwrap_or(0)
}

fn find<T: Copy>(words: &[String], table: &[(&str, T)]) -> Option<(usize, T)> {
    table
        .iter()
        .find_map(|entry| Some((begins(words, &[entry.0]), entry.1)).filter(|found| found.0 > 0))
}

/// Reads a time of day in Chinese, such as 下午两点三刻; 正午 is one without an hour.
fn zh_clock(words: &[String]) -> Option<(usize, Clock)> {
    let noon = begins(words, &["正午"]);
    let clock = Clock::of(12, 0, Some(Half::Noon));
    zh_hour(words).or_else(|| (noon > 0).then_some((noon, clock)))
}

/// Reads an hour with its minutes and its part of the day.
fn zh_hour(words: &[String]) -> Option<(usize, Clock)> {
    let half = find(words, &ZH_HALVES);
    let mut at = half.map_or(0, |half| half.0);
    let is_today = half.is_some() && word(words, 0) == "今";
    let half = half.map(|half| half.1);
    let said = |hour: i64, minute: i64| Clock { is_today, ..Clock::of(hour, minute, half) };
    let small = |at: usize| {
        let digits = word(words, at).parse::<i64>().ok().map(|value| (1, value));
        digits.or_else(|| zh_integer(rest(words, at)))
    };
    let before = match word(words, at) {
        "差" => Some(zh_minutes(rest(words, at + 1))?),
        _ => None,
    };
    at += before.map_or(0, |before| before.0 + 1);
    let (length, hour) = small(at)?;
    at += length;
    if word(words, at) == ":" {
        let minute = small(at + 1)?;
        let clock = said(hour, minute.1);
        return (hour <= 24 && minute.1 < 60).then_some((at + 1 + minute.0, clock));
    }
    if !matches!(word(words, at), "点" | "时") || hour > 24 {
        return None;
    }
    at += 1;
    if let Some(before) = before.filter(|before| before.1 > 0) {
        at += begins(rest(words, at), &["整", "钟"]);
        let clock = said(hour, 60 - before.1);
        return Some((at, clock.an_hour_earlier()));
    }
    let mut minute = 0;
    if word(words, at) == "半" {
        minute = 30;
        at += 1;
    } else if matches!(word(words, at), "整" | "钟") {
        at += 1;
    } else {
        at += begins(rest(words, at), &["过", "零"]);
        if let Some(read) = zh_minutes(rest(words, at)) {
            at += read.0;
            minute = read.1;
        } else if let Some(read) = small(at).filter(|read| read.1 < 60) {
            at += read.0;
            minute = read.1;
        } else if is_zh_number(word(words, at)) {
            // 八点五六分 is about that time.
            return None;
        }
    }
    (0..60).contains(&minute).then_some((at, said(hour, minute)))
}

/// Reads 五分 or 一刻.
fn zh_minutes(words: &[String]) -> Option<(usize, i64)> {
    let zero = begins(words, &["零"]);
    let digits = word(words, zero).parse::<i64>().ok().map(|value| (1, value));
    let (length, value) = digits.or_else(|| zh_integer(rest(words, zero)))?;
    let unit = word(words, zero + length);
    let value = match unit {
        "分" => value,
        "刻" => value * 15,
        _ => return None,
    };
    let clock = begins(rest(words, zero + length + 1), &["钟"]);
    (value < 60).then_some((zero + length + 1 + clock, value))
}

/// Reads a time of day in English, such as `half past six`.
fn en_clock(words: &[String]) -> Option<(usize, Clock)> {
    let named =
        [("noon", 12, Half::Noon), ("midday", 12, Half::Noon), ("midnight", 0, Half::Morning)];
    if let Some(named) = named.into_iter().find(|named| word(words, 0) == named.0) {
        return Some((1, Clock::of(named.1, 0, Some(named.2))));
    }
    let (mut at, hour, minute) = en_past(words).or_else(|| en_plain(words))?;
    if !(0..=24).contains(&hour) || !(-59..60).contains(&minute) {
        return None;
    }
    at += begins(rest(words, at), &["oclock"]);
    let half = find(rest(words, at), &EN_HALVES);
    let is_today = half.is_some() && matches!(word(words, at), "this" | "tonight");
    at += half.map_or(0, |half| half.0);
    // `quarter to twelve in the morning` is before noon, though `twelve am` is midnight.
    let half = match half.map(|half| half.1) {
        Some(Half::Morning) if minute < 0 => Some(Half::Forenoon),
        half => half,
    };
    let said = |minute: i64| Clock { is_today, ..Clock::of(hour, minute, half) };
    let clock = if minute < 0 { said(minute + 60).an_hour_earlier() } else { said(minute) };
    Some((at, clock))
}

/// Reads `ten past six` and `quarter to six`, whose minutes are negative.
fn en_past(words: &[String]) -> Option<(usize, i64, i64)> {
    let (mut at, minutes) = match word(words, 0) {
        "half" => (1, 30),
        "quarter" => (1, 15),
        "a" if word(words, 1) == "quarter" => (2, 15),
        _ => en_integer(words).filter(|read| read.1 < 60)?,
    };
    at += begins(rest(words, at), &["minutes", "minute"]);
    let is_before = match word(words, at) {
        "past" | "after" => false,
        "to" | "before" | "till" => true,
        _ => return None,
    };
    let (length, hour) =
        en_integer(rest(words, at + 1)).filter(|read| (1..=12).contains(&read.1))?;
    let end = at + 1 + length;
    Some((end, hour, if is_before { -minutes } else { minutes }))
}

/// Reads `six`, `six thirty`, `six oh five` and `6:30`.
fn en_plain(words: &[String]) -> Option<(usize, i64, i64)> {
    if let Some((hour, minute)) = word(words, 0).split_once('.') {
        let is_time = matches!(word(words, 1), "am" | "pm") && minute.len() == 2;
        return is_time.then_some((1, hour.parse().ok()?, minute.parse().ok()?));
    }
    let (length, hour) = en_integer(words).filter(|read| read.1 <= 24)?;
    if word(words, length) == ":" {
        let minute = word(words, length + 1).parse().ok()?;
        return Some((length + 2, hour, minute));
    }
    if matches!(word(words, length), "oh" | "o" | "zero") {
        let (more, minute) =
            en_integer(rest(words, length + 1)).filter(|read| (1..10).contains(&read.1))?;
        return Some((length + 1 + more, hour, minute));
    }
    match en_integer(rest(words, length)).filter(|read| (10..60).contains(&read.1)) {
        Some((more, minute)) => Some((length + more, hour, minute)),
        None => Some((length, hour, 0)),
    }
}

/// Returns the time of day at the beginning of `words`.
pub(crate) fn clock(words: &[String], language: Language) -> Option<(usize, Clock)> {
    if language == Language::English { en_clock(words) } else { zh_clock(words) }
}

/// Unit of a length of time: its months, days and seconds.
type TimeUnit = (i64, i64, i64);

const ZH_TIME_UNITS: [(&str, TimeUnit); 18] = [
    ("个小时", (0, 0, 3_600)),
    ("小时", (0, 0, 3_600)),
    ("个钟头", (0, 0, 3_600)),
    ("钟头", (0, 0, 3_600)),
    ("个钟", (0, 0, 3_600)),
    ("刻钟", (0, 0, 900)),
    ("分钟", (0, 0, 60)),
    ("分", (0, 0, 60)),
    ("秒钟", (0, 0, 1)),
    ("秒", (0, 0, 1)),
    ("个星期", (0, 7, 0)),
    ("星期", (0, 7, 0)),
    ("周", (0, 7, 0)),
    ("个礼拜", (0, 7, 0)),
    ("个月", (1, 0, 0)),
    ("天", (0, 1, 0)),
    ("年", (12, 0, 0)),
    ("日", (0, 1, 0)),
];
const EN_TIME_UNITS: [(&str, TimeUnit); 24] = [
    ("hours", (0, 0, 3_600)),
    ("hour", (0, 0, 3_600)),
    ("hrs", (0, 0, 3_600)),
    ("hr", (0, 0, 3_600)),
    ("h", (0, 0, 3_600)),
    ("minutes", (0, 0, 60)),
    ("minute", (0, 0, 60)),
    ("mins", (0, 0, 60)),
    ("min", (0, 0, 60)),
    ("seconds", (0, 0, 1)),
    ("second", (0, 0, 1)),
    ("secs", (0, 0, 1)),
    ("sec", (0, 0, 1)),
    ("days", (0, 1, 0)),
    ("day", (0, 1, 0)),
    ("weeks", (0, 7, 0)),
    ("week", (0, 7, 0)),
    ("months", (1, 0, 0)),
    ("month", (1, 0, 0)),
    ("years", (12, 0, 0)),
    ("year", (12, 0, 0)),
    ("fortnight", (0, 14, 0)),
    ("fortnights", (0, 14, 0)),
    ("decades", (120, 0, 0)),
];

impl Length {
    fn plus(self, count: Fraction, unit: TimeUnit) -> Option<Self> {
        let (months, days, seconds) = unit;
        let mut seconds = count.times(Fraction::whole(seconds))?;
        let mut days = count.times(Fraction::whole(days))?;
        if days.as_whole().is_none() {
            seconds = seconds.plus(days.times(Fraction::whole(86_400))?)?;
            days = Fraction::ZERO;
        }
        let sum = Self {
            months: self.months.checked_add(count.times(Fraction::whole(months))?.as_whole()?)?,
            days: self.days.checked_add(days.as_whole()?)?,
            seconds: self.seconds.checked_add(seconds.as_whole()?)?,
        };
        (sum.months < 12_000
            && sum.days < 400_000
            && sum.seconds < 400_000 * 86_400
            && !count.is_negative())
        .then_some(sum)
    }
}

fn zh_length_part(words: &[String]) -> Option<(usize, Fraction, TimeUnit)> {
    if word(words, 0) == "半" {
        let (length, unit) = find(rest(words, 1), &ZH_TIME_UNITS)?;
        return Some((1 + length, Fraction::new(1, 2)?, unit));
    }
    let (length, mut count) = *numbers(words, Language::Chinese).first()?;
    let mut at = length;
    let half = Fraction::new(1, 2)?;
    let before_unit = begins(rest(words, at), &["个半", "半"]);
    if before_unit > 0 {
        count = count.plus(half)?;
        at += before_unit;
    }
    let (more, unit) = find(rest(words, at), &ZH_TIME_UNITS)?;
    at += more;
    // 一年半, 两天半
    if before_unit == 0 && word(words, at) == "半" && unit.2 == 0 {
        count = count.plus(half)?;
        at += 1;
    }
    Some((at, count, unit))
}

fn en_length_part(words: &[String]) -> Option<(usize, Fraction, TimeUnit)> {
    for (text, top) in [
        ("half an", 2),
        ("half a", 2),
        ("a quarter of an", 1),
        ("quarter of an", 1),
        ("three quarters of an", 3),
    ] {
        let length = begins(words, &[text]);
        if length > 0 {
            let (more, unit) = find(rest(words, length), &EN_TIME_UNITS)?;
            return Some((length + more, Fraction::new(top, 4)?, unit));
        }
    }
    let (length, count) = match word(words, 0) {
        "a" | "an" => (1, Fraction::whole(1)),
        _ => *numbers(words, Language::English).first()?,
    };
    let (more, unit) = find(rest(words, length), &EN_TIME_UNITS)?;
    let mut at = length + more;
    let mut count = count;
    for (text, top) in [("and a half", 2), ("and a quarter", 1), ("and three quarters", 3)] {
        let length = begins(rest(words, at), &[text]);
        if length > 0 && find(rest(words, at + length), &EN_TIME_UNITS).is_none() {
            count = count.plus(Fraction::new(top, 4)?)?;
            at += length;
        }
    }
    Some((at, count, unit))
}

/// Returns the length of time at the beginning of `words`, as long as it goes on.
pub(crate) fn length(words: &[String], language: Language) -> Option<(usize, Length)> {
    let part = |words: &[String]| {
        if language == Language::Chinese { zh_length_part(words) } else { en_length_part(words) }
    };
    let (mut at, count, mut unit) = part(words)?;
    let mut sum = Length::default().plus(count, unit)?;
    loop {
        let gap = begins(rest(words, at), &["and", "零", "又"]);
        let Some((more, count, next)) = part(rest(words, at + gap)) else { break };
        let is_smaller = next.0 < unit.0
            || (next.0 == unit.0 && (next.1 < unit.1 || (next.1 == unit.1 && next.2 < unit.2)));
        let Some(longer) = sum.plus(count, next).filter(|_| is_smaller) else { break };
        sum = longer;
        unit = next;
        at += gap + more;
    }
    Some((at, sum))
}

const ZH_DAYS: [(&str, i64); 14] = [
    ("大后天", 3),
    ("大前天", -3),
    ("今天", 0),
    ("今日", 0),
    ("明天", 1),
    ("明日", 1),
    ("明儿", 1),
    ("后天", 2),
    ("昨天", -1),
    ("昨日", -1),
    ("前天", -2),
    ("今儿", 0),
    ("昨儿", -1),
    ("后日", 2),
];
const EN_DAYS: [(&str, i64); 6] = [
    ("the day after tomorrow", 2),
    ("day after tomorrow", 2),
    ("the day before yesterday", -2),
    ("today", 0),
    ("tomorrow", 1),
    ("yesterday", -1),
];
const EN_WEEKDAYS: [(&str, i8); 7] = [
    ("monday", 1),
    ("tuesday", 2),
    ("wednesday", 3),
    ("thursday", 4),
    ("friday", 5),
    ("saturday", 6),
    ("sunday", 7),
];
const EN_MONTHS: [(&str, i8); 23] = [
    ("january", 1),
    ("february", 2),
    ("march", 3),
    ("april", 4),
    ("may", 5),
    ("june", 6),
    ("july", 7),
    ("august", 8),
    ("september", 9),
    ("october", 10),
    ("november", 11),
    ("december", 12),
    ("jan", 1),
    ("feb", 2),
    ("mar", 3),
    ("apr", 4),
    ("jun", 6),
    ("jul", 7),
    ("aug", 8),
    ("sep", 9),
    ("oct", 10),
    ("nov", 11),
    ("dec", 12),
];
const EN_ORDINALS: [(&str, i8); 20] = [
    ("first", 1),
    ("second", 2),
    ("third", 3),
    ("fourth", 4),
    ("fifth", 5),
    ("sixth", 6),
    ("seventh", 7),
    ("eighth", 8),
    ("ninth", 9),
    ("tenth", 10),
    ("eleventh", 11),
    ("twelfth", 12),
    ("thirteenth", 13),
    ("fourteenth", 14),
    ("fifteenth", 15),
    ("sixteenth", 16),
    ("seventeenth", 17),
    ("eighteenth", 18),
    ("nineteenth", 19),
    ("twentieth", 20),
];

/// Reads a weekday, with the week that is said.
pub(crate) fn weekday(words: &[String], language: Language) -> Option<(usize, i8, Week)> {
    if language == Language::Chinese {
        let week = find(
            words,
            &[
                ("下个", Week::Next),
                ("下", Week::Next),
                ("这个", Week::This),
                ("这", Week::This),
                ("本", Week::This),
                ("上个", Week::Last),
                ("上", Week::Last),
            ],
        );
        let at = week.map_or(0, |week| week.0);
        let name = begins(rest(words, at), &["星期", "礼拜", "周"]);
        let day = ["一", "二", "三", "四", "五", "六", "日"]
            .iter()
            .position(|day| *day == word(words, at + name));
        let day = day.or((word(words, at + name) == "天").then_some(6)).filter(|_| name > 0)?;
        return Some((
            at + name + 1,
            i8::try_from(day).ok()? + 1,
            week.map_or(Week::Nearest, |week| week.1),
        ));
    }
    let week = find(
        words,
        &[
            ("next", Week::Next),
            ("this coming", Week::Nearest),
            ("this", Week::Nearest),
            ("coming", Week::Nearest),
            ("last", Week::Last),
        ],
    );
    let at = week.map_or(0, |week| week.0);
    let (length, day) = find(rest(words, at), &EN_WEEKDAYS)?;
    Some((at + length, day, week.map_or(Week::Nearest, |week| week.1)))
}

fn en_day_of_month(words: &[String]) -> Option<(usize, i8)> {
    let the = begins(words, &["the"]);
    let at = |length: usize| rest(words, the + length);
    if let Some((length, day)) = find(at(0), &EN_ORDINALS) {
        return Some((the + length, day));
    }
    for (tens, base) in [("twenty", 20), ("thirty", 30)] {
        if begins(at(0), &[tens]) > 0
            && let Some((length, day)) = find(at(1), &EN_ORDINALS).filter(|day| day.1 < 10)
        {
            return Some((the + 1 + length, base + day));
        }
    }
    if begins(at(0), &["thirtieth"]) > 0 {
        return Some((the + 1, 30));
    }
    let (length, day) = en_integer(at(0)).filter(|read| (1..=31).contains(&read.1))?;
    let suffix = begins(at(length), &["st", "nd", "rd", "th"]);
    Some((the + length + suffix, i8::try_from(day).ok()?))
}

/// Reports whether words name a day of a month without its month: 二十五号, `on the third`, `the 25th`.
pub(crate) fn names_day_of_month(words: &[String], language: Language) -> bool {
    let at = |at: usize| rest(words, at);
    if language == Language::Chinese {
        return (0..words.len()).any(|from| {
            let digits = word(words, from).parse::<i64>().ok().map(|value| (1, value));
            let day = digits.or_else(|| zh_integer(at(from)));
            day.is_some_and(|day| {
                (1..=31).contains(&day.1) && matches!(word(words, from + day.0), "号" | "日")
            })
        });
    }
    let is_ordinal = |from: usize| {
        let is_tens = matches!(word(words, from), "twenty" | "thirty");
        find(at(from), &EN_ORDINALS).is_some()
            || word(words, from) == "thirtieth"
            || is_tens && find(at(from + 1), &EN_ORDINALS).is_some()
    };
    (0..words.len()).any(|from| {
        let is_suffix = matches!(word(words, from), "st" | "nd" | "rd" | "th");
        let is_on = begins(at(from), &["on the", "for the"]) > 0;
        is_suffix || is_on && is_ordinal(from + 2)
    })
}

fn en_date(words: &[String]) -> Option<(usize, Day)> {
    let (mut at, month, day) = if let Some((length, month)) = find(words, &EN_MONTHS) {
        let (more, day) = en_day_of_month(rest(words, length))?;
        (length + more, month, day)
    } else {
        let (length, day) = en_day_of_month(words)?;
        let of = begins(rest(words, length), &["of"]);
        let (more, month) = find(rest(words, length + of), &EN_MONTHS)?;
        (length + of + more, month, day)
    };
    let year = word(words, at).parse::<i16>().ok().filter(|year| (1900..2200).contains(year));
    at += usize::from(year.is_some());
    Some((at, Day::Date { year, month, day }))
}

fn zh_date(words: &[String]) -> Option<(usize, Day)> {
    let small = |at: usize| {
        word(words, at)
            .parse::<i64>()
            .ok()
            .map(|value| (1, value))
            .or_else(|| zh_integer(rest(words, at)))
    };
    let mut at = 0;
    let mut year = None;
    if let Some((length, value)) =
        small(0).filter(|read| (1900..2200).contains(&read.1) && word(words, read.0) == "年")
    {
        year = i16::try_from(value).ok();
        at = length + 1;
    }
    let (length, month) =
        small(at).filter(|read| (1..=12).contains(&read.1) && word(words, at + read.0) == "月")?;
    at += length + 1;
    let (length, day) = small(at).filter(|read| (1..=31).contains(&read.1))?;
    at += length;
    let named = begins(rest(words, at), &["号", "日"]);
    (named > 0).then_some((
        at + named,
        Day::Date { year, month: i8::try_from(month).ok()?, day: i8::try_from(day).ok()? },
    ))
}

/// Returns the day at the beginning of `words`: one near today, a weekday, a date or a holiday.
pub(crate) fn day(words: &[String], language: Language, holidays: &Holidays) -> Vec<(usize, Day)> {
    let is_zh = language == Language::Chinese;
    let mut found = Vec::new();
    let days: &[(&str, i64)] = if is_zh { &ZH_DAYS } else { &EN_DAYS };
    found.extend(find(words, days).map(|(length, days)| (length, Day::Near(days))));
    found.extend(
        weekday(words, language).map(|(length, day, week)| (length, Day::Weekday { day, week })),
    );
    found.extend(if is_zh { zh_date(words) } else { en_date(words) });
    found.extend(holidays.read(words, language));
    found.extend(counted_day(words, language));
    found.sort_by_key(|found| std::cmp::Reverse(found.0));
    found
}

/// Reads 三天后 and `in three days`.
fn counted_day(words: &[String], language: Language) -> Option<(usize, Day)> {
    let whole_days =
        |length: &Length| length.seconds == 0 && (length.days > 0 || length.months > 0);
    if language == Language::Chinese {
        let again = begins(words, &["再过", "过"]);
        let (count, length_of) =
            length(rest(words, again), language).filter(|read| whole_days(&read.1))?;
        let end = again + count;
        let after = begins(rest(words, end), &["之后", "以后", "过后", "后"]);
        let before = begins(rest(words, end), &["之前", "以前", "前"]);
        return match (after, before) {
            (0, 0) if again == 0 => None,
            (0, 0) => Some((end, Day::After(length_of))),
            (after, 0) => Some((end + after, Day::After(length_of))),
            (_, before) if again == 0 => Some((end + before, Day::Before(length_of))),
            _ => None,
        };
    }
    let inside = begins(words, &["in"]);
    let (count, length_of) =
        length(rest(words, inside), language).filter(|read| whole_days(&read.1))?;
    let end = inside + count;
    let after = begins(rest(words, end), &["from now", "from today", "time"]);
    let before = begins(rest(words, end), &["ago", "before today"]);
    match (inside, after, before) {
        (0, 0, 0) => None,
        (0, 0, before) => Some((end + before, Day::Before(length_of))),
        _ => Some((end + after, Day::After(length_of))),
    }
}

#[cfg(test)]
mod tests;
