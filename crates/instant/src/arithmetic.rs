//! Reads and computes expressions in words and signs: four operations with the usual precedence, powers, roots, percents and
//! fractions of a number. Not for units, nor for how a result is spoken.

use hearken_base::language::Language;

use crate::exact::Fraction;
use crate::numbers::{numbers, rest, word};
use crate::value::Value;

/// Most operations of an expression.
const MOST_OPERATIONS: usize = 12;
/// Deepest nesting of `half of`, `20 percent of` and the like.
const DEEPEST: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Plus,
    Minus,
    Times,
    Over,
    Power,
}

/// Why an expression has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It divides by 0.
    Zero,
    /// Its result is too large, or no fraction.
    Range,
}

#[derive(Debug, Clone, Copy)]
struct Operand {
    length: usize,
    value: Fraction,
    is_percent: bool,
    /// True if it contains an operation, as `half of 90` does.
    is_computed: bool,
}

/// Operations that are written alike in both languages.
const SYMBOLS: [(&str, Operation); 8] = [
    ("+", Operation::Plus),
    ("-", Operation::Minus),
    ("×", Operation::Times),
    ("*", Operation::Times),
    ("÷", Operation::Over),
    ("/", Operation::Over),
    ("^", Operation::Power),
    ("x", Operation::Times),
];
const ZH_OPERATIONS: [(&str, Operation); 9] = [
    ("加上", Operation::Plus),
    ("加", Operation::Plus),
    ("减去", Operation::Minus),
    ("减掉", Operation::Minus),
    ("减", Operation::Minus),
    ("乘以", Operation::Times),
    ("乘上", Operation::Times),
    ("乘", Operation::Times),
    ("除以", Operation::Over),
];
const EN_OPERATIONS: [(&str, Operation); 17] = [
    ("plus", Operation::Plus),
    ("add", Operation::Plus),
    ("added to", Operation::Plus),
    ("minus", Operation::Minus),
    ("less", Operation::Minus),
    ("take away", Operation::Minus),
    ("subtract", Operation::Minus),
    ("times", Operation::Times),
    ("multiplied by", Operation::Times),
    ("multiply by", Operation::Times),
    ("multiply that by", Operation::Times),
    ("multiply it by", Operation::Times),
    ("divided by", Operation::Over),
    ("divide by", Operation::Over),
    ("divide that by", Operation::Over),
    ("divide it by", Operation::Over),
    ("to the power of", Operation::Power),
];

/// Returns the number of words of `text` if `words` begin with it, else 0.
fn begins(words: &[String], text: &str) -> usize {
    let is_latin = text.chars().any(|c| c.is_ascii_alphabetic());
    let count = if is_latin { text.split(' ').count() } else { text.chars().count() };
    let is_same = |at: usize| {
        let part: String = if is_latin {
            text.split(' ').nth(at).unwrap_or_default().to_owned()
        } else {
            text.chars().skip(at).take(1).collect()
        };
        word(words, at) == part
    };
    if (0..count).all(is_same) { count } else { 0 }
}

fn operation(words: &[String], language: Language) -> Option<(usize, Operation)> {
    let table: &[(&str, Operation)] =
        if language == Language::Chinese { &ZH_OPERATIONS } else { &EN_OPERATIONS };
    let all = table.iter().chain(&SYMBOLS);
    let found = all.map(|entry| (begins(words, entry.0), entry.1)).filter(|found| found.0 > 0);
    found.max_by_key(|found| found.0)
}

fn apply(one: Fraction, operation: Operation, other: Fraction) -> Result<Fraction, Fault> {
    let value = match operation {
        Operation::Plus => one.plus(other),
        Operation::Minus => one.minus(other),
        Operation::Times => one.times(other),
        Operation::Over if other.is_zero() => return Err(Fault::Zero),
        Operation::Over => one.over(other),
        Operation::Power if one.is_zero() && other.is_negative() => return Err(Fault::Zero),
        Operation::Power => one.power(other),
    };
    value.ok_or(Fault::Range)
}

fn en_operand(words: &[String], depth: usize) -> Option<Operand> {
    if depth > DEEPEST {
        return None;
    }
    let the = usize::from(word(words, 0) == "the");
    let root = begins(rest(words, the), "square root of");
    if root > 0 {
        let inner = en_operand(rest(words, the + root), depth + 1)?;
        return Some(Operand {
            length: the + root + inner.length,
            value: inner.value.square_root()?,
            is_percent: false,
            is_computed: true,
        });
    }
    for (name, factor) in [("double", 2), ("twice", 2), ("triple", 3)] {
        if word(words, 0) == name {
            let inner = en_operand(rest(words, 1), depth + 1)?;
            let value = inner.value.times(Fraction::whole(factor))?;
            return Some(Operand {
                length: 1 + inner.length,
                value,
                is_percent: false,
                is_computed: true,
            });
        }
    }
    let (mut length, mut value) = *numbers(words, Language::English).first()?;
    let mut is_percent = false;
    let mut is_computed = false;
    if matches!(word(words, length), "percent" | "%") {
        value = value.over(Fraction::whole(100))?;
        is_percent = true;
        length += 1;
    }
    let is_part = is_percent || value.as_whole().is_none();
    if is_part && word(words, length) == "of" {
        let inner = en_operand(rest(words, length + 1), depth + 1)?;
        value = value.times(inner.value)?;
        length += 1 + inner.length;
        is_percent = false;
        is_computed = true;
    }
    for (name, power) in [("squared", 2), ("cubed", 3)] {
        if word(words, length) == name {
            value = value.power(Fraction::whole(power))?;
            length += 1;
            is_computed = true;
        }
    }
    Some(Operand { length, value, is_percent, is_computed })
}

fn zh_percent(words: &[String]) -> Option<(usize, Fraction)> {
    if begins(words, "百分之") == 0 {
        return None;
    }
    let (length, value) = *numbers(rest(words, 3), Language::Chinese).first()?;
    Some((3 + length, value.over(Fraction::whole(100))?))
}

fn zh_operand(words: &[String]) -> Option<Operand> {
    let mut is_computed = false;
    let mut is_percent = false;
    let (mut length, mut value) = if let Some(read) = zh_percent(words) {
        is_percent = true;
        read
    } else if begins(words, "根号") > 0 {
        is_computed = true;
        let (length, value) = *numbers(rest(words, 2), Language::Chinese).first()?;
        (2 + length, value.square_root()?)
    } else {
        *numbers(words, Language::Chinese).first()?
    };
    if word(words, length) == "%" {
        value = value.over(Fraction::whole(100))?;
        is_percent = true;
        length += 1;
    }
    for _ in 0..3 {
        let Some((more, next)) = zh_suffix(rest(words, length), value) else { break };
        length += more;
        value = next?;
        is_computed = true;
        is_percent = false;
    }
    Some(Operand { length, value, is_percent, is_computed })
}

/// Reads 的平方, 的三次方, 的一半, 的两倍, 的百分之二十 and 的三分之一 behind a number; the value is `None` if it is too large.
fn zh_suffix(words: &[String], value: Fraction) -> Option<(usize, Option<Fraction>)> {
    let of = usize::from(word(words, 0) == "的");
    let after = rest(words, of);
    for (name, power) in [("平方根", 0), ("开平方", 0), ("平方", 2), ("立方", 3)] {
        let length = begins(after, name);
        if length > 0 {
            let next =
                if power == 0 { value.square_root() } else { value.power(Fraction::whole(power)) };
            return Some((of + length, next));
        }
    }
    if of == 0 {
        return None;
    }
    if let Some((length, part)) = zh_percent(after) {
        return Some((1 + length, value.times(part)));
    }
    if begins(after, "一半") > 0 {
        return Some((3, value.over(Fraction::whole(2))));
    }
    let (length, number) = *numbers(after, Language::Chinese).first()?;
    let end = rest(after, length);
    if begins(end, "次方") > 0 || begins(end, "次幂") > 0 {
        return Some((1 + length + 2, value.power(number)));
    }
    if begins(end, "倍") > 0 {
        return Some((1 + length + 1, value.times(number)));
    }
    (number.as_whole().is_none() && number < Fraction::whole(1))
        .then(|| (1 + length, value.times(number)))
}

fn operand(words: &[String], language: Language) -> Option<Operand> {
    if language == Language::Chinese { zh_operand(words) } else { en_operand(words, 0) }
}

/// Computes operands and operations: powers, then products, then sums, each from the left.
fn compute(first: Fraction, steps: &[(Operation, Fraction)]) -> Result<Fraction, Fault> {
    let mut values = vec![first];
    let mut operations = Vec::new();
    for (operation, value) in steps {
        operations.push(*operation);
        values.push(*value);
    }
    for level in [
        &[Operation::Power][..],
        &[Operation::Times, Operation::Over],
        &[Operation::Plus, Operation::Minus],
    ] {
        let mut at = 0;
        while let Some(operation) = operations.get(at).copied() {
            if !level.contains(&operation) {
                at += 1;
                continue;
            }
            let other = values.remove(at + 1);
            operations.remove(at);
            if let Some(one) = values.get_mut(at) {
                *one = apply(*one, operation, other)?;
            }
        }
    }
    values.first().copied().ok_or(Fault::Range)
}

/// Words between two operations that say that the second is applied to the result of the first.
fn sequence(words: &[String], language: Language) -> usize {
    let links: &[&str] = if language == Language::Chinese {
        &["然后再", "然后", "接着", "再"]
    } else {
        &["and then", "then", "and"]
    };
    links.iter().map(|link| begins(words, link)).max().unwrap_or(0)
}

/// Returns the expressions with at least one operation at the beginning of `words`, with their values. With `last`, an expression
/// may begin with an operation on it.
pub(crate) fn expressions(
    words: &[String],
    language: Language,
    last: Option<Fraction>,
) -> Vec<(usize, Value)> {
    let mut at = 0;
    let mut is_computed = false;
    let mut is_continued = false;
    let mut first;
    // After a result, `minus seven` is an operation on it.
    let is_operation = last.is_some() && matches!(word(words, 0), "minus" | "-");
    if let Some(start) = operand(words, language).filter(|_| !is_operation) {
        at = start.length;
        first = start.value;
        is_computed = start.is_computed;
    } else if let Some(last) = last {
        first = last;
        is_continued = true;
    } else {
        return Vec::new();
    }
    let mut steps: Vec<(Operation, Fraction)> = Vec::new();
    let mut fault = None;
    for _ in 0..MOST_OPERATIONS {
        let link = sequence(rest(words, at), language);
        let Some((length, operation)) = operation(rest(words, at + link), language) else { break };
        let Some(next) = operand(rest(words, at + link + length), language) else { break };
        // What a percent is added to is not certain.
        if next.is_percent && matches!(operation, Operation::Plus | Operation::Minus) {
            return Vec::new();
        }
        if link > 0 || is_continued {
            match compute(first, &steps) {
                Ok(value) => first = value,
                Err(found) => fault = fault.or(Some(found)),
            }
            steps.clear();
        }
        is_continued = false;
        steps.push((operation, next.value));
        at += link + length + next.length;
        is_computed = true;
    }
    if !is_computed || at == 0 {
        return Vec::new();
    }
    let value = match fault {
        Some(fault) => Err(fault),
        None => compute(first, &steps),
    };
    match value {
        Ok(value) => vec![(at, Value::Result(Some(value)))],
        Err(Fault::Zero) => vec![(at, Value::Result(None))],
        Err(Fault::Range) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::normalise::words_of;

    fn value(text: &str, language: Language) -> Option<String> {
        let words = words_of(text).words;
        let (length, value) =
            expressions(&words, language, Some(Fraction::whole(100))).into_iter().next()?;
        let Value::Result(result) = value else { return None };
        let shown =
            result.map_or_else(|| "none".to_owned(), |value| value.result_digits().unwrap().text);
        (length == words.len()).then_some(shown)
    }

    #[test]
    fn expressions_are_computed() {
        for (text, result) in [
            ("三加四乘以五", "23"),
            ("三加四再乘以五", "35"),
            ("八十一的平方根", "9"),
            ("二的十次方", "1024"),
            ("三百的百分之二十", "60"),
            ("九十的三分之一", "30"),
            ("七除以二", "3.5"),
            ("12×3", "36"),
            ("一除以零", "none"),
            ("减三十七", "63"),
            ("九的平方", "81"),
            ("两百的一半", "100"),
            ("1.5+2.25", "3.75"),
        ] {
            assert_eq!(value(text, Language::Chinese).as_deref(), Some(result), "{text}");
        }
        for (text, result) in [
            ("three plus four times five", "23"),
            ("twenty percent of three hundred", "60"),
            ("half of ninety", "45"),
            ("subtract thirty seven", "63"),
            ("the square root of eighty one", "9"),
            ("two to the power of ten", "1024"),
            ("nine squared", "81"),
            ("10 / 4", "2.5"),
            ("seven divided by zero", "none"),
            ("a third of ninety", "30"),
            ("double forty", "80"),
            ("ten minus two then times three", "24"),
        ] {
            assert_eq!(value(text, Language::English).as_deref(), Some(result), "{text}");
        }
        for text in ["五", "一百加百分之十", "二的平方根"] {
            assert_eq!(value(text, Language::Chinese), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn sums_and_products_are_those_of_integers(first in 0_i64..9_999, rest in prop::collection::vec((0_usize..3, 0_i64..999), 1..4)) {
            let names = ["plus", "minus", "times"];
            let mut text = crate::numbers::en_words(first);
            let mut terms = vec![first];
            for (operation, number) in &rest {
                text.push_str(&format!(" {} {}", names[*operation], crate::numbers::en_words(*number)));
                match operation {
                    0 => terms.push(*number),
                    1 => terms.push(-*number),
                    _ => *terms.last_mut().unwrap() *= *number,
                }
            }
            prop_assert_eq!(value(&text, Language::English), Some(terms.iter().sum::<i64>().to_string()));
        }
    }
}
