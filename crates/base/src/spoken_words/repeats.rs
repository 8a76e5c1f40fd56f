//! Collapses the repeats of a looping decoder to one occurrence. Not for text that is not speech.

use crate::language::{bare, is_han, is_in};

/// Words of numbers, in several languages, divided by spaces. Those that are frequent in another
/// sense in another language are left out: `once`, `sei`, `um`.
const NUMBERS: &str = "zero one two three four five six seven eight nine ten eleven twelve thirteen \
    fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy \
    eighty ninety hundred hundreds thousand thousands million millions billion billions trillion \
    dozen half quarter quarters first second third fourth fifth sixth seventh eighth ninth tenth \
    eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth \
    twentieth thirtieth fortieth fiftieth sixtieth seventieth eightieth ninetieth hundredth \
    thousandth millionth twice \
    null eins ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf halb \
    cero uno dos tres cuatro cinco seis siete ocho nueve diez doce trece catorce quince dieciséis \
    diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro \
    veinticinco veintiséis veintisiete veintiocho veintinueve treinta cuarenta cincuenta sesenta \
    setenta ochenta noventa cien ciento mil millón millones \
    zéro un deux trois quatre cinq sept huit neuf dix onze douze treize quatorze quinze vingt \
    trente quarante cinquante soixante cent cents mille \
    due quattro cinque sette otto nove dieci undici dodici tredici quattordici quindici sedici \
    diciassette diciotto diciannove venti ventuno ventidue ventitré trenta quaranta cinquanta \
    sessanta settanta ottanta novanta \
    dois três quatro sete oito dez doze catorze dezesseis dezessete dezoito dezenove vinte trinta \
    quarenta cinquenta sessenta oitenta cem \
    ноль один одна два две три четыре пять шесть семь восемь девять десять сорок девяносто сто \
    двести триста четыреста тысяча тысячи тысяч миллион";
/// Endings of further words of numbers: `zwanzig`, `zweihundert`, `quinientos`, `двадцать`.
const NUMBER_ENDINGS: [&str; 9] =
    ["zig", "ßig", "zehn", "hundert", "tausend", "ientos", "cento", "дцать", "десят"];
const NUMERALS: &str =
    "零〇一二两兩三四五六七八九十百千万萬亿億半廿卅幺壹贰貳叁參肆伍陆陸柒捌玖拾佰仟";
/// Words between numbers, and measures, divided by spaces.
const BETWEEN: &str = "point dot comma dash double triple punkt komma punto oh plus minus times \
    multiplied divided by over and to negative equals percent degree degrees celsius fahrenheit \
    dollar dollars euro euros pound pounds yuan second seconds minute minutes hour hours day days \
    week weeks month months year years oclock am pm meter meters metre metres mile miles kilo \
    kilos gram grams kilometer kilometers inch inches foot feet liter liters und mal más por et";
/// The same in Chinese; each character is a word.
const BETWEEN_HAN: &str = "点杠加减乘除以和到等于负正第分之倍块元角毛钱度个個只位次号號楼层天日月年岁周秒时時刻钟鐘小公里米斤克吨升厘毫平方条张杯页";
/// Words before `one` in which it is no number: `this one`.
const BEFORE_ONE: [&str; 10] =
    ["this", "that", "which", "no", "the", "each", "every", "any", "another", "some"];
/// Characters after `一` with which it is no number: `一下`.
const AFTER_ONE: &str = "下起样樣直定些会切般旦边邊";
/// How often a phrase with a number must be said to be a loop of the decoder: as a sentence of its
/// own, and within one.
const SENTENCES_WITH_NUMBER: usize = 3;
const PHRASES_WITH_NUMBER: usize = 8;

/// What a token is for a number.
#[derive(PartialEq, Clone, Copy)]
enum Kind {
    /// Number, or a part of one.
    Number,
    /// Operator, measure or punctuation.
    Between,
    Other,
}

/// Token in the form for comparison.
struct Key {
    word: String,
    letters: usize,
    kind: Kind,
    /// True if a sentence ends after the token.
    ends: bool,
}

impl Key {
    /// Returns the key of the token at `at`. `words` are all tokens as [`bare`] returns them.
    fn of(at: usize, tokens: &[&str], words: &[String]) -> Self {
        let word = &words[at];
        let before = at.checked_sub(1).map_or("", |before| words[before].as_str());
        let after = words.get(at + 1).map_or("", String::as_str);
        let kind = if is_number(word) && !is_other_sense(before, word, after) {
            Kind::Number
        } else if word.chars().all(|c| BETWEEN_HAN.contains(c)) || is_in(BETWEEN, word) {
            Kind::Between
        } else {
            Kind::Other
        };
        let ends = ends_sentence(tokens[at], at + 1 == tokens.len());
        Self { word: word.clone(), letters: word.chars().count(), kind, ends }
    }
}

/// Returns true if a word is a number or a part of one.
fn is_number(word: &str) -> bool {
    if word.chars().any(char::is_numeric) || is_in(NUMBERS, word) {
        return true;
    }
    is_numeral(word) || NUMBER_ENDINGS.iter().any(|ending| word.ends_with(ending))
}

/// Returns true if a word consists of Chinese numerals.
fn is_numeral(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| NUMERALS.contains(c))
}

/// Returns true if a word that may be a number is none between these words.
fn is_other_sense(before: &str, word: &str, after: &str) -> bool {
    match word {
        "one" => BEFORE_ONE.contains(&before),
        "second" => before == "a",
        "一" => !after.is_empty() && AFTER_ONE.contains(after) && !is_numeral(before),
        _ => false,
    }
}

/// Returns true if a sentence ends after the word of a token. A point within a number is no end.
fn ends_sentence(token: &str, is_last: bool) -> bool {
    let end = token.trim_end();
    let has_space = is_last || end.len() < token.len();
    end.ends_with(['。', '！', '？', '!', '?', '…']) || has_space && end.ends_with('.')
}

/// Collapses the repeats of a looping decoder to one occurrence: a phrase of two or more long words
/// (or four or more characters) that is said twice in a row, a shorter one that is said four times,
/// a single word that is said six times. Whole words only; short doubled words (`看看`, `谢谢谢谢`, `no
/// no`) stay. Numbers with their operators and measures always stay, because each one counts
/// (`twenty plus twenty plus twenty`); a phrase with a number among other words only if it is not
/// said very often, or as several sentences.
pub(super) fn collapse_repeats(text: &str) -> String {
    let tokens = tokens(text);
    let words: Vec<String> = tokens.iter().map(|token| bare(token)).collect();
    let keys: Vec<Key> = (0..tokens.len()).map(|at| Key::of(at, &tokens, &words)).collect();
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

/// Returns how often a phrase must be said in a row to be a loop of the decoder; `None` if it never
/// is.
fn loop_length(unit: &[Key]) -> Option<usize> {
    if unit.iter().any(|key| key.kind == Kind::Number) {
        if unit.iter().all(|key| key.kind != Kind::Other) {
            return None;
        }
        let is_sentence = unit.last().is_some_and(|key| key.ends);
        return Some(if is_sentence { SENTENCES_WITH_NUMBER } else { PHRASES_WITH_NUMBER });
    }
    let words = unit.iter().filter(|key| !key.word.is_empty()).count();
    let letters: usize = unit.iter().map(|key| key.letters).sum();
    let is_phrase = words >= 4 || words >= 2 && letters >= 10;
    Some(match words {
        _ if is_phrase => 2,
        1 => 6,
        _ => 4,
    })
}

/// Finds the longest repeat that starts here. Returns its length in tokens and the number of
/// occurrences; `(1, 1)` for none.
fn longest_repeat(keys: &[Key]) -> (usize, usize) {
    let most = (keys.len() / 2).min(60);
    for len in 1..=most {
        let unit = &keys[..len];
        if unit[0].word.is_empty() {
            continue;
        }
        let Some(needed) = loop_length(unit) else { continue };
        let is_same = |chunk: &&[Key]| chunk.iter().zip(unit).all(|(a, b)| a.word == b.word);
        let times = 1 + keys[len..].chunks_exact(len).take_while(is_same).count();
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
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

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
            ("打开1号灯。打开1号灯。打开1号灯", "打开1号灯。"),
            ("点点点点点点点点", "点"),
            ("等一下吧等一下吧等一下吧", "等一下吧"),
            ("I want this one I want this one", "I want this one"),
            ("Set it to 3.5. Set it to 3.5. Set it to 3.5.", "Set it to 3.5."),
            ("", ""),
        ] {
            assert_eq!(collapse_repeats(heard), expected, "{heard}");
        }
        let heard = "打开1号灯，".repeat(8);
        assert_eq!(collapse_repeats(&heard), "打开1号灯，");
    }

    #[test]
    fn numbers_that_are_said_again_stay() {
        for said in [
            "What is twenty plus twenty plus twenty?",
            "how much is one hundred plus one hundred plus one hundred",
            "20 plus 20 plus 20 plus 20 plus 20",
            "my number is twenty three twenty three",
            "the code is eleven twelve eleven twelve",
            "the 20th and the 20th and the 20th and the 20th",
            "two apples plus two apples plus two apples",
            "was ist zwanzig plus zwanzig plus zwanzig plus zwanzig",
            "一百二十加一百二十加一百二十等于多少",
            "五加五加五加五加五等于几",
            "两块五加两块五加两块五",
            "三个苹果加三个苹果加三个苹果",
            "一点半一点半",
            "二十一起二十一起二十一起二十一起",
            "version 3.5 version 3.5 version 3.5",
        ] {
            assert_eq!(collapse_repeats(said), said);
        }
    }

    proptest! {
        #[test]
        fn sums_stay(
            numbers in vec(select(NUMBERS.split(' ').collect::<Vec<_>>()), 1..4),
            measure in select(vec!["", " dollars", " degrees", " percent", " minutes"]),
            operator in select(vec![" ", " plus ", " minus ", " times ", " divided by ", " and "]),
            times in 1_usize..12,
        ) {
            let one = format!("{}{measure}", numbers.join(" "));
            let said = vec![one; times].join(operator);
            prop_assert_eq!(collapse_repeats(&said), said);
        }

        #[test]
        fn sums_in_chinese_stay(
            numerals in vec(select(NUMERALS.chars().collect::<Vec<_>>()), 1..5),
            measure in select(vec!["", "块", "度", "个", "分钟", "公里", "号"]),
            operator in select(vec!["", "加", "减", "乘以", "除以", "和", "点"]),
            times in 1_usize..12,
        ) {
            let one: String = numerals.into_iter().chain(measure.chars()).collect();
            let said = vec![one; times].join(operator);
            prop_assert_eq!(collapse_repeats(&said), said);
        }
    }
}
