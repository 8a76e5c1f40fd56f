//! The sentences of answers in Chinese and English: what was done, and what failed; numbers and times as they are read aloud.
//! Not for the choice of a sentence.

use hearken_base::language::{Language, is_han};
use jiff::civil::Time;

use crate::exact::Fraction;
use crate::length::Length;
use crate::names::NAMES;
use crate::numbers::zh_words;
use crate::value::Room;

/// Sentences of answers that are always the same, so that their audio can be prepared.
pub const FIXED: [&str; 13] = [
    "好的。",
    "不客气。",
    "再见。",
    "晚安，好梦。",
    "你好，我在。",
    "抱歉，没听清，请再说一遍。",
    "Okay.",
    "You're welcome.",
    "Goodbye, see you.",
    "Good night, sleep well.",
    "Hello, I'm listening.",
    "Sorry, I didn't catch that.",
    "Could you say it again?",
];

/// Returns the text of a language.
pub(crate) fn say<'a>(language: Language, zh: &'a str, en: &'a str) -> &'a str {
    if language == Language::Chinese { zh } else { en }
}

/// Sentence in Chinese and English.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sentence {
    zh: String,
    en: String,
}

impl Sentence {
    pub(crate) fn new(zh: impl Into<String>, en: impl Into<String>) -> Self {
        Self { zh: zh.into(), en: en.into() }
    }

    fn of(&self, language: Language) -> &str {
        say(language, &self.zh, &self.en)
    }
}

/// What a call is about, for the sentence on its result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Subject {
    /// A value is set: its name, the place, the digits, and the unit behind them.
    Level {
        name: (&'static str, &'static str),
        room: Option<Room>,
        value: String,
        unit: (&'static str, &'static str),
    },
    /// A device is on or off, or open or closed.
    Switch { kind: usize, room: Option<Room>, is_on: bool },
    /// Fixed sentences for success and failure.
    Fixed { done: Sentence, failed: Sentence },
}

/// Returns the name of a room in a language.
pub(crate) fn room_name(room: &Room, language: Language) -> String {
    let is_zh = room.said.chars().any(is_han);
    let group = room.group.and_then(|at| NAMES.rooms.get(at));
    match group {
        Some(group) if is_zh != (language == Language::Chinese) => group.name(language).to_owned(),
        _ => room.said.clone(),
    }
}

fn of_room(room: Option<&Room>, language: Language) -> String {
    match (room, language) {
        (None, _) => String::new(),
        (Some(room), Language::Chinese) => format!("{}的", room_name(room, language)),
        (Some(room), Language::English) => format!("{} ", room_name(room, language)),
    }
}

impl Subject {
    fn device(&self, language: Language) -> String {
        let Self::Switch { kind, room, .. } = self else { return String::new() };
        let name = NAMES.devices.get(*kind).map_or("", |device| device.group.name(language));
        format!("{}{name}", of_room(room.as_ref(), language))
    }

    fn is_cover(&self) -> bool {
        matches!(self, Self::Switch { kind, .. } if NAMES.devices.get(*kind).is_some_and(|device| device.domain == "cover"))
    }

    /// Returns what is said after success.
    pub(crate) fn done(&self, language: Language) -> String {
        match self {
            Self::Level { name, room, value, unit } => {
                let room = of_room(room.as_ref(), language);
                match language {
                    Language::Chinese if unit.0 == "%" => {
                        format!("{room}{}调到百分之{value}了。", name.0)
                    }
                    Language::Chinese => format!("{room}{}调到{value}{}了。", name.0, unit.0),
                    Language::English => {
                        format!("The {room}{} is now set to {value}{}.", name.1, unit.1)
                    }
                }
            }
            Self::Switch { is_on, .. } => {
                let device = self.device(language);
                match (language, self.is_cover(), is_on) {
                    (Language::Chinese, false, true) => format!("{device}打开了。"),
                    (Language::Chinese, false, false) => format!("{device}关掉了。"),
                    (Language::Chinese, true, true) => format!("{device}打开了。"),
                    (Language::Chinese, true, false) => format!("{device}关上了。"),
                    (Language::English, false, true) => format!("The {device} is now on."),
                    (Language::English, false, false) => format!("The {device} is now off."),
                    (Language::English, true, true) => format!("The {device} is now open."),
                    (Language::English, true, false) => format!("The {device} is now closed."),
                }
            }
            Self::Fixed { done, .. } => done.of(language).to_owned(),
        }
    }

    /// Returns what is said after a failure.
    pub(crate) fn failed(&self, language: Language) -> String {
        match self {
            Self::Level { name, room, .. } => {
                let room = of_room(room.as_ref(), language);
                match language {
                    Language::Chinese => format!("抱歉，{room}{}没能调成。", name.0),
                    Language::English => format!("Sorry, I couldn't set the {room}{}.", name.1),
                }
            }
            Self::Switch { is_on, .. } => {
                let device = self.device(language);
                let verb = match (language, self.is_cover(), is_on) {
                    (Language::Chinese, _, true) => "打开",
                    (Language::Chinese, false, false) => "关掉",
                    (Language::Chinese, true, false) => "关上",
                    (Language::English, false, true) => "turn on",
                    (Language::English, false, false) => "turn off",
                    (Language::English, true, true) => "open",
                    (Language::English, true, false) => "close",
                };
                match language {
                    Language::Chinese => format!("抱歉，{device}没能{verb}。"),
                    Language::English => format!("Sorry, I couldn't {verb} the {device}."),
                }
            }
            Self::Fixed { failed, .. } => failed.of(language).to_owned(),
        }
    }

    /// Returns fixed sentences.
    pub(crate) fn fixed(done: Sentence, failed: Sentence) -> Self {
        Self::Fixed { done, failed }
    }
}

/// Returns a number as it is read aloud; `None` if it is too large.
pub(crate) fn number(value: Fraction, language: Language) -> Option<String> {
    let digits = value.result_digits()?;
    let sign = if value.is_negative() { say(language, "负", "minus ") } else { "" };
    let about = if digits.is_rounded { say(language, "约", "about ") } else { "" };
    Some(format!("{about}{sign}{}", digits.text.trim_start_matches('-')))
}

/// Returns a measured value as it is read aloud: with two digits after the point, if it has more than three.
pub(crate) fn measure(value: Fraction, language: Language) -> Option<String> {
    let is_short = !value.digits(3)?.is_rounded || value.absolute() < Fraction::whole(1);
    if is_short {
        return number(value, language);
    }
    let digits = value.absolute().digits(2)?.text;
    let sign = if value.is_negative() { say(language, "负", "minus ") } else { "" };
    Some(format!("{}{sign}{digits}", say(language, "约", "about ")))
}

/// Returns a time of day as it is read aloud.
pub(crate) fn clock(time: Time, language: Language) -> String {
    let hour = i64::from(time.hour());
    let minute = i64::from(time.minute());
    let of_half = match hour % 12 {
        0 => 12,
        hour => hour,
    };
    if language == Language::English {
        let half = if hour < 12 { "AM" } else { "PM" };
        return if minute == 0 {
            format!("{of_half} {half}")
        } else {
            format!("{of_half}:{minute:02} {half}")
        };
    }
    let part = match hour {
        0..=4 => "凌晨",
        5..=8 => "早上",
        9..=11 => "上午",
        12 => "中午",
        13..=17 => "下午",
        _ => "晚上",
    };
    let hour = match hour {
        0 => "零".to_owned(),
        2 | 14 => "两".to_owned(),
        _ => zh_words(of_half),
    };
    match minute {
        0 => format!("{part}{hour}点"),
        1..=9 => format!("{part}{hour}点零{}分", zh_words(minute)),
        _ => format!("{part}{hour}点{}分", zh_words(minute)),
    }
}

/// Returns a length of time as it is read aloud.
pub(crate) fn length(length: Length, language: Language) -> String {
    let seconds = length.seconds;
    let parts = [
        (length.months / 12, "年", "year"),
        (length.months % 12, "个月", "month"),
        (length.days, "天", "day"),
        (seconds / 3_600, "小时", "hour"),
        (seconds / 60 % 60, "分钟", "minute"),
        (seconds % 60, "秒", "second"),
    ];
    let mut texts = Vec::new();
    for (count, zh, en) in parts.into_iter().filter(|part| part.0 > 0) {
        texts.push(match language {
            Language::Chinese => format!("{count}{zh}"),
            Language::English => format!("{count} {en}{}", if count == 1 { "" } else { "s" }),
        });
    }
    match language {
        Language::Chinese => texts.concat(),
        Language::English => texts.join(" and "),
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::time;

    use super::*;

    #[test]
    fn times_are_written_as_they_are_read() {
        assert_eq!(clock(time(14, 5, 0, 0), Language::Chinese), "下午两点零五分");
        assert_eq!(clock(time(0, 30, 0, 0), Language::Chinese), "凌晨零点三十分");
        assert_eq!(clock(time(14, 5, 0, 0), Language::English), "2:05 PM");
        assert_eq!(clock(time(0, 0, 0, 0), Language::English), "12 AM");
        assert_eq!(number(Fraction::whole(-5), Language::English).as_deref(), Some("minus 5"));
        assert_eq!(
            length(Length { months: 0, days: 0, seconds: 5_400 }, Language::English),
            "1 hour and 30 minutes"
        );
    }
}
