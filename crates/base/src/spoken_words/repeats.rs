//! Collapses the repeats of a looping decoder to one occurrence. Not for text that is not speech.

use crate::language::{bare, is_han};

/// Words of numbers, in several languages; the Chinese ones are single characters.
const NUMBERS: [&str; 62] = [
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
    "hundred",
    "null",
    "eins",
    "zwei",
    "drei",
    "vier",
    "fünf",
    "sechs",
    "sieben",
    "acht",
    "neun",
    "cero",
    "uno",
    "dos",
    "tres",
    "cuatro",
    "cinco",
    "seis",
    "siete",
    "ocho",
    "nueve",
    "zéro",
    "un",
    "deux",
    "trois",
    "quatre",
    "cinq",
    "sept",
    "huit",
    "neuf",
    "due",
    "quattro",
    "cinque",
    "sette",
    "otto",
    "nove",
    "dois",
    "três",
    "quatro",
    "sete",
    "oito",
    "ноль",
    "один",
    "два",
    "три",
    "четыре",
    "пять",
    "шесть",
    "семь",
    "восемь",
    "девять",
];
const NUMERALS: &str = "零〇一二两三四五六七八九十百千万幺壹贰叁肆伍陆柒捌玖拾";
/// Words between the digits of a number.
const BETWEEN: [&str; 10] =
    ["点", "杠", "point", "dot", "dash", "double", "triple", "punkt", "punto", "oh"];

/// Token in the form for comparison.
#[derive(PartialEq)]
struct Key {
    word: String,
    letters: usize,
    /// True if it is a number.
    counts: bool,
}

impl Key {
    fn of(token: &str) -> Self {
        let word = bare(token);
        let figures = word.chars().all(|c| c.is_numeric() || NUMERALS.contains(c));
        let counts = !word.is_empty() && figures || NUMBERS.contains(&word.as_str());
        Self { letters: word.chars().count(), word, counts }
    }
}

/// Returns true if these are digits, or words between digits.
fn is_number(unit: &[Key]) -> bool {
    let between = |key: &Key| key.word.is_empty() || BETWEEN.contains(&key.word.as_str());
    unit.iter().any(|key| key.counts) && unit.iter().all(|key| key.counts || between(key))
}

/// Collapses the repeats of a looping decoder to one occurrence: a phrase of two or more long words
/// (or four or more characters) that is said twice in a row, a shorter one that is said four times,
/// a single word that is said six times. Whole words only; short doubled words (`看看`, `谢谢谢谢`, `no
/// no`) stay, and so do numbers that are said digit by digit, because each digit counts.
pub(super) fn collapse_repeats(text: &str) -> String {
    let tokens = tokens(text);
    let keys: Vec<Key> = tokens.iter().map(|token| Key::of(token)).collect();
    let mut keep = vec![true; tokens.len()];
    let mut at = 0;
    while at < tokens.len() {
        let (len, times) = longest_repeat(&keys[at..]);
        if times > 1 {
            keep[at + len..at + len * times].fill(false);
            at += len * times;
        } else {
            at += 1;
        }
    }
    let kept: String = tokens.iter().zip(keep).filter_map(|(t, k)| k.then_some(*t)).collect();
    kept.trim().to_owned()
}

/// Finds the longest repeat that starts here. Returns its length in tokens and the number of
/// occurrences; `(1, 1)` for none.
fn longest_repeat(keys: &[Key]) -> (usize, usize) {
    let most = (keys.len() / 2).min(60);
    for len in 1..=most {
        let unit = &keys[..len];
        if unit[0].word.is_empty() || is_number(unit) {
            continue;
        }
        let times = 1 + keys[len..].chunks_exact(len).take_while(|chunk| *chunk == unit).count();
        let words = unit.iter().filter(|k| !k.word.is_empty()).count();
        let letters: usize = unit.iter().map(|k| k.letters).sum();
        let phrase = words >= 4 || words >= 2 && letters >= 10;
        let needed = match words {
            _ if phrase => 2,
            1 => 6,
            _ => 4,
        };
        if times >= needed {
            return (len, times);
        }
    }
    (1, 1)
}

/// Splits a text into single Chinese characters and other whole words, each with the text up to the
/// next.
fn tokens(text: &str) -> Vec<&str> {
    let mut starts = Vec::new();
    let mut in_word = false;
    for (index, c) in text.char_indices() {
        let word = c.is_alphanumeric() || c == '\'';
        if is_han(c) || word && !in_word {
            starts.push(index);
        }
        in_word = word && !is_han(c);
    }
    if starts.first() != Some(&0) {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(from, to)| &text[*from..to]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_collapsed_and_speech_is_not() {
        for (heard, expected) in [
            ("看看这个是什么?看看这个是什么?看看这个是什么?", "看看这个是什么?"),
            ("看看这个", "看看这个"),
            ("谢谢谢谢", "谢谢谢谢"),
            ("哈哈哈哈哈哈哈哈", "哈"),
            ("no no no", "no no no"),
            ("Try again. Fail again. Fail better.", "Try again. Fail again. Fail better."),
            ("I want to go. I want to go. I want to go.", "I want to go."),
            ("一二一二一二", "一二一二一二"),
            ("一一一一一一一一", "一一一一一一一一"),
            ("一二三四一二三四", "一二三四一二三四"),
            ("一点一点一点一点一点一点", "一点一点一点一点一点一点"),
            ("8 8 8 8 8 8 8 8", "8 8 8 8 8 8 8 8"),
            ("five five five five five five five", "five five five five five five five"),
            ("138 0000 138 0000 138 0000", "138 0000 138 0000 138 0000"),
            ("打开1号灯，打开1号灯，打开1号灯", "打开1号灯，"),
            ("点点点点点点点点", "点"),
            ("", ""),
        ] {
            assert_eq!(collapse_repeats(heard), expected, "{heard}");
        }
    }
}
