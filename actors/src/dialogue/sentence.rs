//! A stream of plain text cut into sentences, Chinese and English, as early as can be. Where a cut
//! falls depends on the characters alone, never on how the stream was chunked. Not for making
//! text plain.

use super::phrases::is_han;

/// Weight (2 a Han character, 1 any other) that a first clause needs to go alone at a comma.
const FIRST_CLAUSE_WEIGHT: usize = 10;
/// Beyond this weight a sentence is cut at the next comma, beyond twice at the next space, beyond
/// three times anywhere: no sentence is unbounded.
const LONG_WEIGHT: usize = 120;

/// English words that end in a full stop without ending a sentence.
const ABBREVIATIONS: [&str; 19] = [
    "mr", "mrs", "ms", "dr", "prof", "st", "vs", "etc", "e.g", "i.e", "no", "approx", "inc", "ltd",
    "co", "jr", "sr", "u.s", "a.m",
];

/// Cuts one reply into sentences.
#[derive(Debug, Default)]
pub struct SentenceSplitter {
    /// Text of the sentence that is being gathered.
    buffer: String,
    weight: usize,
    /// The last character could end the sentence; the next one tells.
    ending: Option<Ending>,
    /// A sentence has been cut already.
    begun: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// A full stop of Chinese, or of English with a space to come.
    Stop { needs_space: bool },
    /// A comma, where the clause may go alone.
    Comma { needs_space: bool },
}

impl SentenceSplitter {
    /// Takes some text and returns the sentences that are now complete, untrimmed.
    pub fn push(&mut self, text: &str) -> Vec<String> {
        let mut done = Vec::new();
        text.chars().for_each(|c| self.add(c, &mut done));
        done
    }

    /// Takes one character, and adds what is now complete to `done`.
    pub(super) fn add(&mut self, c: char, done: &mut Vec<String>) {
        if self.cut_before(c) {
            done.extend(self.take());
        }
        self.buffer.push(c);
        self.weight += if is_han(c) { 2 } else { 1 };
        self.ending = self.ending_at(c);
        if c == '\n' || self.weight > 3 * LONG_WEIGHT {
            done.extend(self.take());
        }
    }

    /// White space comes next, or the end of a line: returns the sentence that this ends.
    pub(super) fn gap(&mut self, line_ends: bool) -> Option<String> {
        let ends = line_ends || self.cut_before(' ');
        ends.then(|| self.take()).flatten()
    }

    /// The text has ended: what is left is the last sentence.
    pub fn finish(&mut self) -> Option<String> {
        let last = self.take();
        *self = Self::default();
        last
    }

    /// The sentence gathered so far ends before this character.
    fn cut_before(&self, next: char) -> bool {
        let Some(ending) = self.ending else { return false };
        if is_stop(next) || is_closer(next) {
            return false;
        }
        match ending {
            Ending::Stop { needs_space } | Ending::Comma { needs_space } => {
                !needs_space || next.is_whitespace() || is_han(next)
            }
        }
    }

    fn ending_at(&self, c: char) -> Option<Ending> {
        match c {
            '。' | '！' | '？' | '；' | '…' => Some(Ending::Stop { needs_space: false }),
            '!' | '?' => Some(Ending::Stop { needs_space: true }),
            '.' if !self.is_abbreviation() => Some(Ending::Stop { needs_space: true }),
            c if is_closer(c) => self.ending,
            '，' | '、' | '：' if self.may_cut_clause() => {
                Some(Ending::Comma { needs_space: false })
            }
            ',' | ';' | ':' if self.may_cut_clause() => Some(Ending::Comma { needs_space: true }),
            ' ' if self.weight > 2 * LONG_WEIGHT => Some(Ending::Comma { needs_space: false }),
            _ => None,
        }
    }

    fn may_cut_clause(&self) -> bool {
        let needed = if self.begun { LONG_WEIGHT } else { FIRST_CLAUSE_WEIGHT };
        self.weight >= needed
    }

    /// The full stop at the end of the buffer belongs to an abbreviation, an initial or a list
    /// number.
    fn is_abbreviation(&self) -> bool {
        let text = self.buffer.trim_end_matches('.');
        let word = text.rsplit(|c: char| c.is_whitespace() || is_han(c)).next().unwrap_or("");
        let word = word.trim_start_matches(is_opener);
        let initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase);
        let alone = text.trim_start().len() == word.len();
        let number = alone && !word.is_empty() && word.chars().all(|c| c.is_ascii_digit());
        initial || number || ABBREVIATIONS.contains(&word.to_lowercase().as_str())
    }

    fn take(&mut self) -> Option<String> {
        let text = std::mem::take(&mut self.buffer);
        (self.weight, self.ending) = (0, None);
        if text.trim().is_empty() {
            return None;
        }
        self.begun = true;
        Some(text)
    }
}

fn is_stop(c: char) -> bool {
    matches!(c, '。' | '！' | '？' | '；' | '…' | '.' | '!' | '?')
}

fn is_closer(c: char) -> bool {
    matches!(c, '”' | '’' | '」' | '』' | '）' | '》' | '】' | '"' | '\'' | ')' | ']')
}

fn is_opener(c: char) -> bool {
    matches!(c, '“' | '‘' | '「' | '『' | '（' | '《' | '【' | '"' | '\'' | '(' | '[')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(text: &str) -> Vec<String> {
        let mut splitter = SentenceSplitter::default();
        let mut out = splitter.push(text);
        out.extend(splitter.finish());
        out.iter().map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).collect()
    }

    #[test]
    fn chinese_and_english_sentences_are_told_apart() {
        assert_eq!(split("你好！今天天气不错。去哪儿？"), ["你好！", "今天天气不错。", "去哪儿？"]);
        assert_eq!(
            split("It is 3.5 degrees. Really? Yes!"),
            ["It is 3.5 degrees.", "Really?", "Yes!"]
        );
        assert_eq!(split("他说：“好。”然后走了。"), ["他说：“好。”", "然后走了。"]);
        assert_eq!(split("Wait... what?! No."), ["Wait...", "what?!", "No."]);
        assert_eq!(split("好的.我来了"), ["好的.", "我来了"]);
    }

    #[test]
    fn a_first_clause_goes_alone_and_later_ones_wait() {
        assert_eq!(
            split("今天北京的天气很好，适合出门，记得带水，谢谢。"),
            ["今天北京的天气很好，", "适合出门，记得带水，谢谢。"]
        );
        assert_eq!(split("好，我来帮你。"), ["好，我来帮你。"]);
        assert_eq!(
            split("Once upon a time, there was a cat, a dog."),
            ["Once upon a time,", "there was a cat, a dog."]
        );
        assert_eq!(split("Exactly 1,000,000 people came."), ["Exactly 1,000,000 people came."]);
    }

    #[test]
    fn abbreviations_initials_and_addresses_do_not_end_a_sentence() {
        assert_eq!(
            split("Dr. Smith met J. Doe at 5 p.m. sharp."),
            ["Dr. Smith met J. Doe at 5 p.m.", "sharp."]
        );
        assert_eq!(
            split("See www.example.com/a.b for more."),
            ["See www.example.com/a.b for more."]
        );
        assert_eq!(split("1. Open it.\n2. Close it."), ["1. Open it.", "2. Close it."]);
    }

    #[test]
    fn no_sentence_is_unbounded() {
        for text in ["哈".repeat(2_000), "a ".repeat(2_000), "x".repeat(5_000)] {
            let longest = split(&text).iter().map(|s| s.chars().count()).max();
            assert!(longest <= Some(3 * LONG_WEIGHT + 1), "{longest:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_chunks_do_not_matter(
            text in "([a-zA-Z0-9.,!? \n\"')(*]|你|好|。|，|！|”|“|…){0,120}",
            cuts in prop::collection::vec(0usize..120, 0..8),
        ) {
            let mut whole = SentenceSplitter::default();
            let mut expected = whole.push(&text);
            expected.extend(whole.finish());
            let squeeze = |s: &str| s.split_whitespace().collect::<String>();
            prop_assert_eq!(squeeze(&expected.concat()), squeeze(&text));

            let mut chunked = SentenceSplitter::default();
            let chars: Vec<char> = text.chars().collect();
            let mut points: Vec<usize> = cuts.into_iter().map(|c| c.min(chars.len())).collect();
            points.extend([0, chars.len()]);
            points.sort_unstable();
            let mut got = Vec::new();
            for pair in points.windows(2) {
                got.extend(chunked.push(&chars[pair[0]..pair[1]].iter().collect::<String>()));
            }
            got.extend(chunked.finish());
            prop_assert_eq!(got, expected);
        }
    }
}
