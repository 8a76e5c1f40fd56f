//! Numbers in words, in Chinese and English: reads them at a place in a sentence, and writes integers. Not for times, dates and
//! units, which are slots of their own.

use hearken_base::language::Language;

use crate::exact::Fraction;

/// Number that was read: how many words it takes, and its value.
pub(crate) type Read = (usize, Fraction);

/// Largest integer that is read or written in words.
pub(crate) const LARGEST: i64 = 999_999_999_999;

const ZH_DIGITS: [&str; 10] = ["零", "一", "二", "三", "四", "五", "六", "七", "八", "九"];
const EN_SMALL: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const EN_TENS: [&str; 10] =
    ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];

/// Returns the word at a place; an empty one behind the end.
pub(crate) fn word(words: &[String], at: usize) -> &str {
    words.get(at).map_or("", String::as_str)
}

/// Returns the words from a place on.
pub(crate) fn rest(words: &[String], at: usize) -> &[String] {
    words.get(at..).unwrap_or_default()
}

fn position(list: &[&str], word: &str) -> Option<i64> {
    if word.is_empty() {
        return None;
    }
    list.iter().position(|one| *one == word).and_then(|at| i64::try_from(at).ok())
}

/// Returns the value of one Chinese digit.
pub(crate) fn zh_digit(word: &str) -> Option<i64> {
    match word {
        "〇" => Some(0),
        "两" => Some(2),
        _ => position(&ZH_DIGITS, word),
    }
}

fn zh_unit(word: &str) -> Option<i64> {
    match word {
        "十" => Some(10),
        "百" => Some(100),
        "千" => Some(1_000),
        _ => None,
    }
}

/// Reads digits one after another, such as 二零二六.
fn zh_digit_string(words: &[String]) -> (usize, i64) {
    let mut value = 0_i64;
    let mut length = 0;
    // 三两 is a weight.
    while let Some(digit) = zh_digit(word(words, length))
        .filter(|_| length < 15 && (length == 0 || word(words, length) != "两"))
    {
        value = value * 10 + digit;
        length += 1;
    }
    (length, value)
}

/// State of a Chinese integer that is being read.
#[derive(Default)]
struct ZhInteger {
    total: i64,
    section: i64,
    digit: Option<i64>,
    /// Value of the next digit after the last unit, as in 三百五: 10.
    follows: i64,
    is_zero_last: bool,
}

impl ZhInteger {
    fn take_unit(&mut self, unit: i64) -> bool {
        let lowest_seen = self.follows.saturating_mul(10);
        let is_first = self.section == 0 && self.digit.is_none();
        let digit = self.digit.or((unit == 10 && is_first).then_some(1));
        let Some(digit) =
            digit.filter(|digit| *digit > 0 && (self.section == 0 || unit < lowest_seen))
        else {
            return false;
        };
        self.section += digit * unit;
        self.digit = None;
        self.follows = unit / 10;
        self.is_zero_last = false;
        true
    }

    fn take_large(&mut self, factor: i64) -> bool {
        let section = self.section + self.digit.unwrap_or(0);
        if section == 0 && self.total == 0 || self.total >= 1_0000_0000 && factor > 1_0000 {
            return false;
        }
        if factor == 1_0000 {
            if section == 0 || self.total % 1_0000_0000 != 0 {
                return false;
            }
            self.total += section * factor;
        } else {
            self.total = (self.total + section) * factor;
        }
        self.section = 0;
        self.digit = None;
        self.follows = factor / 10;
        self.is_zero_last = false;
        true
    }

    fn value(&self) -> i64 {
        let digit = self.digit.unwrap_or(0);
        let factor = if self.follows > 1 && !self.is_zero_last { self.follows } else { 1 };
        self.total + self.section + digit * factor
    }
}

/// Reports whether a word is a digit or a unit of a Chinese numeral.
pub(crate) fn is_zh_number(word: &str) -> bool {
    zh_digit(word).is_some() || zh_unit(word).is_some() || matches!(word, "万" | "亿")
}

/// Reports whether two digits beside each other are an approximate number: 两三, 五六, 三五.
fn is_about(one: &str, next: &str) -> bool {
    let digits = zh_digit(one).zip(zh_digit(next));
    digits.is_some_and(|(one, next)| one > 0 && (next == one + 1 || (one, next) == (3, 5)))
}

/// Returns the number of words at the beginning that are digits or units of a Chinese numeral.
fn zh_numeral(words: &[String]) -> usize {
    words.iter().take_while(|word| is_zh_number(word)).count()
}

/// Reports whether a Chinese numeral is an approximate number: 五六, 十五六, 二三十, 一百二三十. Three or more digits without a
/// unit are a number or a name, as 一二三 and 二零三四.
fn is_zh_approximate(numeral: &[String]) -> bool {
    let is_string = numeral.len() > 2 && numeral.iter().all(|word| zh_digit(word).is_some());
    !is_string && numeral.windows(2).any(|pair| matches!(pair, [one, next] if is_about(one, next)))
}

/// Reports whether the word at a place is within an approximate number, behind its beginning: the rest of 五六分钟 is no
/// length of its own.
pub(crate) fn is_within_zh_approximate(words: &[String], at: usize) -> bool {
    let before = |at: usize| at.checked_sub(1).map_or("", |at| word(words, at));
    // 周五六点 is six o'clock on a Friday.
    let is_weekday = |at: usize| {
        matches!(before(at), "周" | "期" | "拜")
            && zh_digit(word(words, at)).is_some_and(|day| (1..=6).contains(&day))
    };
    let is_part = |at: &usize| is_zh_number(word(words, *at)) && !is_weekday(*at);
    let start = (0..=at).rev().take_while(is_part).last().unwrap_or(at);
    if start == at {
        return false;
    }
    let numeral = rest(words, start);
    let numeral = numeral.get(..zh_numeral(numeral)).unwrap_or_default();
    // 一两 and 三两 are approximate numbers, too, if they are no weight.
    let is_pair = word(words, at) == "两" && zh_digit(before(at)).is_some();
    is_pair || is_zh_approximate(numeral)
}

/// Reads a Chinese integer; `None` if there is none, or only an approximate one.
pub(crate) fn zh_integer(words: &[String]) -> Option<(usize, i64)> {
    let numeral = words.get(..zh_numeral(words)).unwrap_or_default();
    // 一两 is a weight, too.
    if is_zh_approximate(numeral) && word(words, 1) != "两" {
        return None;
    }
    let string = zh_digit_string(words);
    if string.0 >= 2 && zh_unit(word(words, string.0)).is_none() {
        return Some(string);
    }
    let mut read = ZhInteger::default();
    let mut length = 0;
    loop {
        let next = word(words, length);
        let is_taken = if let Some(digit) = zh_digit(next) {
            if read.digit.is_some() || (digit == 0 && length > 0 && read.is_zero_last) {
                break;
            }
            if digit == 0 {
                // Alone it is 0; between units it stands for what is left out.
                let is_last =
                    zh_digit(word(words, length + 1)).is_none() && word(words, length + 1) != "十";
                if length > 0 && is_last {
                    break;
                }
                read.is_zero_last = true;
                true
            } else {
                read.digit = Some(digit);
                true
            }
        } else if let Some(unit) = zh_unit(next) {
            read.take_unit(unit)
        } else {
            match next {
                "万" => read.take_large(1_0000),
                "亿" => read.take_large(1_0000_0000),
                _ => false,
            }
        };
        if !is_taken {
            break;
        }
        length += 1;
    }
    (length > 0).then(|| (length, read.value())).filter(|read| read.1 <= LARGEST)
}

/// Reads digits with 万 or 亿 behind them, such as `3.5亿`.
fn digits_with_unit(words: &[String]) -> Option<Read> {
    let value = Fraction::from_digits(word(words, 0))?;
    let factor = match word(words, 1) {
        "百" => 100,
        "千" => 1_000,
        "万" => 1_0000,
        "亿" => 1_0000_0000,
        _ => return Some((1, value)),
    };
    Some((2, value.times(Fraction::whole(factor))?))
}

fn zh_numbers(words: &[String]) -> Vec<Read> {
    let mut found = Vec::new();
    let sign = usize::from(word(words, 0) == "负");
    let words = words.get(sign..).unwrap_or_default();
    if word(words, 0) == "一" && word(words, 1) == "半" {
        found.push((2, Fraction::new(1, 2)));
    }
    if word(words, 0) == "半" {
        found.push((1, Fraction::new(1, 2)));
    }
    let whole = digits_with_unit(words)
        .or_else(|| zh_integer(words).map(|(length, value)| (length, Fraction::whole(value))));
    if let Some((length, value)) = whole {
        if word(words, length) == "点" {
            let decimals = zh_digit_string(words.get(length + 1..).unwrap_or_default());
            if let Some(power) = u32::try_from(decimals.0).ok().filter(|digits| *digits > 0) {
                let part = Fraction::new(i128::from(decimals.1), 10_i128.pow(power));
                found.push((length + 1 + decimals.0, part.and_then(|part| value.plus(part))));
            }
        }
        if word(words, length) == "分" && word(words, length + 1) == "之" {
            let top = words.get(length + 2..).and_then(|rest| {
                digits_with_unit(rest)
                    .or_else(|| zh_integer(rest).map(|(n, v)| (n, Fraction::whole(v))))
            });
            if let Some((more, top)) = top {
                found.push((length + 2 + more, top.over(value)));
            }
        }
        found.push((length, Some(value)));
    }
    let signed = |value: Fraction| if sign == 1 { value.negated() } else { value };
    found.into_iter().filter_map(|(length, value)| Some((length + sign, signed(value?)))).collect()
}

/// Reads an English integer, such as `a hundred and one` or `twenty five`.
pub(crate) fn en_integer(words: &[String]) -> Option<(usize, i64)> {
    let mut total = 0_i64;
    let mut part = 0_i64;
    let mut length = 0;
    let mut last = 'x';
    let mut factor = i64::MAX;
    loop {
        let gap = usize::from(word(words, length) == "and" && last == 'h');
        let next = word(words, length + gap);
        let article = (next == "a"
            && length == 0
            && matches!(word(words, 1), "hundred" | "thousand" | "million"))
        .then_some(1);
        let small = article
            .or_else(|| position(&EN_SMALL, next))
            .or_else(|| next.parse::<i64>().ok().filter(|_| length == 0 && next.len() <= 9));
        if let Some(value) = small {
            let fits = match last {
                'x' => true,
                'h' => value > 0 && value < 100,
                't' => (1..10).contains(&value),
                _ => false,
            };
            if !fits {
                break;
            }
            part += value;
            last = 'u';
        } else if let Some(tens) = position(&EN_TENS, next) {
            if !matches!(last, 'x' | 'h') {
                break;
            }
            part += tens * 10;
            last = 't';
        } else if next == "hundred" && gap == 0 {
            if !(1..100).contains(&part) || last == 'h' {
                break;
            }
            part *= 100;
            last = 'h';
        } else if let Some(scale) = match next {
            "thousand" => Some(1_000),
            "million" => Some(1_000_000),
            "billion" => Some(1_000_000_000),
            _ => None,
        } {
            if part == 0 || gap == 1 || scale >= factor || part >= 1_000_000 {
                break;
            }
            total += part * scale;
            factor = scale;
            part = 0;
            last = 'h';
        } else {
            break;
        }
        length += 1 + gap;
    }
    (length > 0).then_some((length, total + part)).filter(|read| read.1 <= LARGEST)
}

fn en_fraction(words: &[String]) -> Option<Read> {
    let (skip, count) = match word(words, 0) {
        "half" => return Some((1, Fraction::new(1, 2)?)),
        "a" | "one" => (1, 1),
        "two" => (1, 2),
        "three" => (1, 3),
        _ => return None,
    };
    let bottom = match word(words, skip) {
        "half" if count == 1 => 2,
        "third" | "thirds" => 3,
        "quarter" | "quarters" => 4,
        "fifth" | "fifths" => 5,
        "tenth" | "tenths" => 10,
        _ => return None,
    };
    Some((skip + 1, Fraction::new(count, bottom)?))
}

fn en_numbers(words: &[String]) -> Vec<Read> {
    let mut found = Vec::new();
    let sign = usize::from(matches!(word(words, 0), "minus" | "negative" | "-"));
    let words = words.get(sign..).unwrap_or_default();
    found.extend(en_fraction(words));
    if word(words, 0) == "a" && word(words, 1) == "dozen" {
        found.push((2, Fraction::whole(12)));
    }
    let whole = match Fraction::from_digits(word(words, 0)) {
        Some(value) if value.as_whole().is_none() => Some((1, value)),
        _ => en_integer(words).map(|(length, value)| (length, Fraction::whole(value))),
    };
    if let Some((length, value)) = whole {
        found.extend(with_decimals(words, length, value));
        if word(words, length) == "and" {
            let more = en_fraction(words.get(length + 1..).unwrap_or_default());
            found
                .extend(more.and_then(|(more, part)| Some((length + 1 + more, value.plus(part)?))));
        }
        found.extend(with_scale(words, length, value));
        found.push((length, value));
    }
    let signed = |value: Fraction| if sign == 1 { value.negated() } else { value };
    found.into_iter().map(|(length, value)| (length + sign, signed(value))).collect()
}

/// Reads `million` or `dozen` behind digits with a point.
fn with_scale(words: &[String], length: usize, value: Fraction) -> Option<Read> {
    let scale = match word(words, length) {
        "dozen" => 12,
        "thousand" => 1_000,
        "million" => 1_000_000,
        "billion" => 1_000_000_000,
        _ => return None,
    };
    Some((length + 1, value.times(Fraction::whole(scale))?))
}

/// Reads `point` and digits behind an integer.
fn with_decimals(words: &[String], length: usize, value: Fraction) -> Option<Read> {
    if word(words, length) != "point" {
        return None;
    }
    let mut end = length + 1;
    let mut digits = String::new();
    loop {
        let next = word(words, end);
        if let Some(digit) =
            position(&EN_SMALL, next).filter(|digit| *digit < 10).or((next == "oh").then_some(0))
        {
            digits.push_str(&digit.to_string());
        } else if !next.is_empty() && next.bytes().all(|b| b.is_ascii_digit()) {
            digits.push_str(next);
        } else {
            break;
        }
        end += 1;
    }
    let mut read = None;
    if !digits.is_empty() {
        let part = Fraction::from_digits(&format!("0.{digits}"))?;
        read = Some((end, value.plus(part)?));
    } else if let Some((more, tens)) = en_integer(words.get(end..).unwrap_or_default())
        .filter(|(_, value)| (10..100).contains(value))
    {
        read = Some((end + more, value.plus(Fraction::new(i128::from(tens), 100)?)?));
    }
    read
}

/// Returns the numbers at the beginning of `words`, the longest first.
pub(crate) fn numbers(words: &[String], language: Language) -> Vec<Read> {
    let mut found =
        if language == Language::Chinese { zh_numbers(words) } else { en_numbers(words) };
    if found.is_empty() && language == Language::Chinese {
        // A number in digits behind a sign.
        let sign = usize::from(word(words, 0) == "-");
        let value = words.get(sign).and_then(|digits| Fraction::from_digits(digits));
        found
            .extend(value.map(|value| (sign + 1, if sign == 1 { value.negated() } else { value })));
    }
    found.sort_by_key(|read| std::cmp::Reverse(read.0));
    found
}

/// Writes an integer of 0 to [`LARGEST`] in Chinese, such as 一百零五.
pub(crate) fn zh_words(value: i64) -> String {
    let value = value.clamp(0, LARGEST);
    let mut text = String::new();
    let mut is_gap = false;
    for (factor, name) in [(1_0000_0000, "亿"), (1_0000, "万"), (1, "")] {
        let section = value / factor % 1_0000;
        if section == 0 {
            is_gap = !text.is_empty();
            continue;
        }
        if !text.is_empty() && (is_gap || section < 1_000) {
            text.push('零');
        }
        text.push_str(&zh_section(section, text.is_empty()));
        text.push_str(name);
        is_gap = false;
    }
    if text.is_empty() { "零".to_owned() } else { text }
}

fn zh_section(section: i64, is_first: bool) -> String {
    let mut text = String::new();
    let mut is_gap = false;
    for (factor, name) in [(1_000, "千"), (100, "百"), (10, "十"), (1, "")] {
        let digit = section / factor % 10;
        if digit == 0 {
            is_gap = !text.is_empty();
            continue;
        }
        if is_gap {
            text.push('零');
        }
        is_gap = false;
        if !(digit == 1 && factor == 10 && text.is_empty() && is_first && section < 20) {
            text.push_str(
                usize::try_from(digit)
                    .ok()
                    .and_then(|at| ZH_DIGITS.get(at))
                    .copied()
                    .unwrap_or_default(),
            );
        }
        text.push_str(name);
    }
    text
}

/// Writes an integer of 0 to [`LARGEST`] in English, such as `one hundred and five`.
#[cfg(test)]
pub(crate) fn en_words(value: i64) -> String {
    let value = value.clamp(0, LARGEST);
    let mut parts = Vec::new();
    for (factor, name) in [(1_000_000_000, "billion"), (1_000_000, "million"), (1_000, "thousand")]
    {
        let section = value / factor % 1_000;
        if section > 0 {
            parts.push(format!("{} {name}", en_section(section)));
        }
    }
    let section = value % 1_000;
    if section > 0 || parts.is_empty() {
        if section < 100 && !parts.is_empty() {
            parts.push("and".to_owned());
        }
        parts.push(en_section(section));
    }
    parts.join(" ")
}

#[cfg(test)]
fn en_section(section: i64) -> String {
    let name = |list: &[&str], at: i64| {
        usize::try_from(at).ok().and_then(|at| list.get(at)).copied().unwrap_or_default().to_owned()
    };
    if section >= 100 {
        let hundreds = format!("{} hundred", name(&EN_SMALL, section / 100));
        return if section % 100 == 0 {
            hundreds
        } else {
            format!("{hundreds} and {}", en_section(section % 100))
        };
    }
    if section < 20 {
        return name(&EN_SMALL, section);
    }
    let tens = name(&EN_TENS, section / 10);
    if section % 10 == 0 { tens } else { format!("{tens} {}", name(&EN_SMALL, section % 10)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normalise::words_of;

    fn first(text: &str, language: Language) -> Option<String> {
        let words = words_of(text).words;
        let (length, value) = numbers(&words, language).first().copied()?;
        (length == words.len()).then(|| value.digits(6).unwrap().text)
    }

    #[test]
    fn numbers_are_read_in_both_languages() {
        for (text, value) in [
            ("三百五", "350"),
            ("三百零五", "305"),
            ("两千零二十六", "2026"),
            ("二零二六", "2026"),
            ("十五", "15"),
            ("一万二", "12000"),
            ("三点一四", "3.14"),
            ("负五", "-5"),
            ("四分之三", "0.75"),
            ("一亿两千万", "120000000"),
            ("3万", "30000"),
            ("一百一十", "110"),
            ("一千零一十", "1010"),
            ("十", "10"),
            ("零", "0"),
            ("半", "0.5"),
            ("一百万", "1000000"),
            ("三十", "30"),
            ("三点五六", "3.56"),
            ("一二三", "123"),
            ("二零三四", "2034"),
            ("五零二", "502"),
            ("三三", "33"),
            ("九八", "98"),
        ] {
            assert_eq!(first(text, Language::Chinese).as_deref(), Some(value), "{text}");
        }
        for (text, value) in [
            ("a hundred and one", "101"),
            ("twenty five", "25"),
            ("twenty-five", "25"),
            ("two and a half", "2.5"),
            ("three point one four", "3.14"),
            ("minus seven", "-7"),
            ("one thousand two hundred", "1200"),
            ("three quarters", "0.75"),
            ("1,250", "1250"),
            ("fifteen hundred", "1500"),
            ("a dozen", "12"),
            ("2 million", "2000000"),
            ("two hundred and fifty thousand", "250000"),
            ("half", "0.5"),
            ("zero", "0"),
        ] {
            assert_eq!(first(text, Language::English).as_deref(), Some(value), "{text}");
        }
        let approximate =
            ["两三", "三五", "五六", "八九", "一二", "十五六", "二三十", "五六百", "一百二三十"];
        let wrong = ["十百", "百", "五十十", "twenty twelve", "hundred"];
        for text in wrong.into_iter().chain(approximate) {
            assert_eq!(
                first(text, if text.is_ascii() { Language::English } else { Language::Chinese }),
                None,
                "{text}"
            );
        }
    }

    #[test]
    fn the_rest_of_an_approximate_number_is_no_number() {
        for (text, at, is_within) in [
            ("五六分钟", 1, true),
            ("一两个小时", 1, true),
            ("三两天", 1, true),
            ("一百二三十分钟", 2, true),
            ("一百二三十分钟", 4, true),
            ("五六分钟", 0, false),
            ("周五六点", 2, false),
            ("周一两点", 2, false),
            ("一百二十三分钟", 2, false),
            ("一二三四", 1, false),
        ] {
            let words = words_of(text).words;
            assert_eq!(is_within_zh_approximate(&words, at), is_within, "{text} {at}");
        }
    }

    #[test]
    fn integers_are_read_as_they_are_written() {
        for value in (0..2_500).chain([
            10_000,
            10_010,
            100_000,
            1_000_001,
            20_305_000,
            100_000_000,
            1_000_050_000,
            LARGEST,
        ]) {
            assert_eq!(
                first(&zh_words(value), Language::Chinese),
                Some(value.to_string()),
                "{}",
                zh_words(value)
            );
            assert_eq!(
                first(&en_words(value), Language::English),
                Some(value.to_string()),
                "{}",
                en_words(value)
            );
        }
    }
}
