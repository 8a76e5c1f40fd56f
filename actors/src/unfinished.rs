//! Words that indicate an unfinished sentence: "because", "然后", half of a number. Lists and the
//! decision; pure. Not for its effects, which are in `crate::turn_detection`.

use hearken_base::language::bare;

/// Minimum number of digits that may start a long number, if they are spoken one by one.
const FEWEST_DIGITS: usize = 3;
/// The same for figures in the transcript: shorter numbers are often complete.
const FEWEST_FIGURES: usize = 5;
/// Numbers with at least this many digits count as complete.
const WHOLE_NUMBER: usize = 11;
/// Digits as words; the Chinese ones are single characters.
const DIGIT_WORDS: [&str; 11] =
    ["zero", "oh", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
const DIGIT_LETTERS: &str = "零〇一二三四五六七八九幺";

/// Lists of words with which a sentence does not end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnfinishedWords {
    /// Endings of texts, bare.
    chinese: Vec<String>,
    /// Words at the end of texts.
    english: Vec<Vec<String>>,
}

impl UnfinishedWords {
    /// Creates the lists from the configuration; case and punctuation do not matter.
    pub fn new(chinese: &[String], english: &[String]) -> Self {
        let chinese = chinese.iter().map(|words| bare(words)).filter(|w| !w.is_empty()).collect();
        let english = english.iter().map(|words| tokens(words)).filter(|w| !w.is_empty()).collect();
        Self { chinese, english }
    }

    /// Returns true if these words indicate that more will be said.
    pub fn end(&self, words: &str) -> bool {
        let tokens = tokens(words);
        let text = bare(words);
        self.english.iter().any(|end| tokens.ends_with(end))
            || self.chinese.iter().any(|end| text.ends_with(end.as_str()))
            || is_half_a_number(&tokens, &text)
    }
}

/// Returns the words of a text, without case and punctuation.
fn tokens(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '\'');
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Returns true if a text ends within a number that is spoken digit by digit.
fn is_half_a_number(tokens: &[String], text: &str) -> bool {
    let is_half = |digits: usize, fewest| (fewest..WHOLE_NUMBER).contains(&digits);
    let words = tokens.iter().rev().take_while(|word| DIGIT_WORDS.contains(&word.as_str()));
    let letters = text.chars().rev().take_while(|c| DIGIT_LETTERS.contains(*c));
    let figures = text.chars().rev().take_while(char::is_ascii_digit);
    is_half(words.count(), FEWEST_DIGITS)
        || is_half(letters.count(), FEWEST_DIGITS)
        || is_half(figures.count(), FEWEST_FIGURES)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::turn_detection::TurnDetectionSettings;

    fn lists() -> UnfinishedWords {
        TurnDetectionSettings::default().unfinished_words()
    }

    #[test]
    fn conjunctions_articles_and_hesitation_are_unfinished() {
        for words in [
            "I would like to go because",
            "Tell me a story and.",
            "play the",
            "um",
            "Well, uh...",
            "我想去，因为",
            "然后。",
            "帮我订票，如果",
        ] {
            assert!(lists().end(words), "{words}");
        }
        for words in [
            "Turn on the light",
            "Is it the end?",
            "sand",
            "I was asked who",
            "我要那个",
            "今天天气怎么样？",
            "",
            "...",
            "What is that for?",
            "我觉得很温和。",
        ] {
            assert!(!lists().end(words), "{words}");
        }
    }

    #[test]
    fn a_number_spoken_digit_by_digit_is_unfinished_until_it_is_complete() {
        for words in [
            "my number is one three eight",
            "call 13812",
            "我的电话是一三八",
            "幺三八零零",
            "138 1234.",
        ] {
            assert!(lists().end(words), "{words}");
        }
        for words in [
            "set a timer for 10",
            "in 2024",
            "page 138",
            "room one two",
            "二十三",
            "13812345678",
            "it is one",
        ] {
            assert!(!lists().end(words), "{words}");
        }
    }

    #[test]
    fn empty_lists_and_empty_words_end_nothing() {
        let none = UnfinishedWords::new(&["。".into(), String::new()], &[" ".into()]);
        assert!(!none.end("because") && !none.end(""));
    }

    proptest! {
        #[test]
        fn any_words_are_handled(words in any::<String>(), list in proptest::collection::vec(any::<String>(), 0..5)) {
            UnfinishedWords::new(&list, &list).end(&words);
        }
    }
}
