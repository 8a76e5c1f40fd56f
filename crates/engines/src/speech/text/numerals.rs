//! Numbers in Chinese words.

const DIGITS: [char; 10] = ['零', '一', '二', '三', '四', '五', '六', '七', '八', '九'];
const GROUPS: [&str; 4] = ["", "万", "亿", "万亿"];

/// Spells a number digit by digit: a year, a code. Other characters are omitted.
pub(super) fn spelled(digits: &str) -> String {
    digits.chars().filter_map(|c| c.to_digit(10)).map(|d| DIGITS[d as usize]).collect()
}

/// Spells a telephone number digit by digit, with 幺 for one.
pub(super) fn telephone(digits: &str) -> String {
    spelled(digits).replace('一', "幺")
}

/// Renders a whole number as a quantity; with more than 16 digits, digit by digit.
pub(super) fn quantity(digits: &str) -> String {
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return DIGITS[0].to_string();
    }
    if digits.len() > 16 {
        return spelled(digits);
    }
    let mut words = String::new();
    let groups = digits.len().div_ceil(4);
    let padded = format!("{digits:0>width$}", width = groups * 4);
    let mut gap = false;
    for (index, name) in GROUPS[..groups].iter().rev().enumerate() {
        let group = &padded[index * 4..index * 4 + 4];
        if group == "0000" {
            gap = true;
            continue;
        }
        if !words.is_empty() && (gap || group.starts_with('0')) {
            words.push('零');
        }
        gap = false;
        words.push_str(&thousands(group));
        words.push_str(name);
    }
    // 一十二 is spoken as 十二.
    match words.strip_prefix("一十") {
        Some(rest) => format!("十{rest}"),
        None => words,
    }
}

/// Renders a number with an optional fraction.
pub(super) fn decimal(whole: &str, fraction: Option<&str>) -> String {
    match fraction {
        Some(fraction) => format!("{}点{}", quantity(whole), spelled(fraction)),
        None => quantity(whole),
    }
}

/// Renders four digits, not all zero, without a leading zero word.
fn thousands(group: &str) -> String {
    let mut words = String::new();
    let mut gap = false;
    for (digit, unit) in group.chars().zip(["千", "百", "十", ""]) {
        let digit = digit.to_digit(10).unwrap_or(0) as usize;
        if digit == 0 {
            gap = !words.is_empty();
            continue;
        }
        if gap {
            words.push('零');
            gap = false;
        }
        words.push(DIGITS[digit]);
        words.push_str(unit);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_in_spoken_form() {
        for (digits, words) in [
            ("0", "零"),
            ("7", "七"),
            ("10", "十"),
            ("12", "十二"),
            ("20", "二十"),
            ("105", "一百零五"),
            ("110", "一百一十"),
            ("1000", "一千"),
            ("1005", "一千零五"),
            ("1050", "一千零五十"),
            ("10000", "一万"),
            ("10005", "一万零五"),
            ("120000", "十二万"),
            ("100200300", "一亿零二十万零三百"),
            ("1000000000000", "一万亿"),
            ("12345678901234567", "一二三四五六七八九零一二三四五六七"),
        ] {
            assert_eq!(quantity(digits), words, "{digits}");
        }
    }
}
