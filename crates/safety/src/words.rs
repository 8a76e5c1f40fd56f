//! Splits a text into words: one for each Han character, lower case, contractions written out, fillers left out. Ends of
//! sentences stay as breaks. Of a long text, only its begin and its end. Not for what the words mean.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use hearken_base::language::is_han;
use serde::Deserialize;
use unicode_normalization::UnicodeNormalization;

/// A break between sentences: no pattern goes across it.
pub(crate) const BREAK: &str = ".";

/// A pause inside a sentence: patterns go across it, and it is no word. It ends a clause.
pub(crate) const PAUSE: &str = ",";

/// Most words of a text that are looked at: of a longer one the first and the last half of them.
pub(crate) const MOST_WORDS: usize = 300;

/// Most characters of a text that are looked at at its begin, and at its end: half of [`MOST_WORDS`] take far fewer.
const LONGEST_END: usize = 2_000;

/// Longest word that is kept, in characters.
const LONGEST_WORD: usize = 40;

/// Returns a text as it is looked at: of a long one, its begin and its end as two sentences, so that the time does not grow with
/// its length.
pub(crate) fn ends(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    let begin = text.char_indices().nth(LONGEST_END).map_or(text.len(), |(at, _)| at);
    let rest = &text[begin..];
    let end = rest.char_indices().nth_back(LONGEST_END - 1).map_or(0, |(at, _)| at);
    if end == 0 {
        Cow::Borrowed(text)
    } else {
        Cow::Owned([&text[..begin], &rest[end..]].join("\n"))
    }
}

/// How words are written: what both texts and patterns go through.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    /// Traditional characters, each followed by its simplified one.
    traditional: String,
    /// Characters and words that say nothing, with spaces between them.
    fillers: String,
    /// Characters that are said twice by mistake.
    repeated: String,
    /// Contractions without their apostrophe, and the words that they stand for.
    contractions: HashMap<String, String>,
}

/// Adds the end of a sentence or of a clause, if a word is before it.
fn mark_end(mark: &str, words: &mut Vec<String>) {
    if mark == BREAK && words.last().is_some_and(|last| last == PAUSE) {
        words.pop();
    }
    if words.last().is_some_and(|last| last != BREAK && last != PAUSE) {
        words.push(mark.to_owned());
    }
}

/// Splitter of texts into words.
#[derive(Debug)]
pub(crate) struct Splitter {
    simplified: HashMap<char, char>,
    fillers: HashSet<String>,
    repeated: String,
    contractions: HashMap<String, Vec<String>>,
}

impl Splitter {
    /// Reads `script.toml`.
    pub(crate) fn read(toml: &str) -> Result<Self, String> {
        let script: Script = toml::from_str(toml).map_err(|e| format!("script.toml: {e}"))?;
        let characters: Vec<char> =
            script.traditional.chars().filter(|c| !c.is_whitespace()).collect();
        let pairs = characters.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        let expanded = |words: String| words.split_whitespace().map(str::to_owned).collect();
        Ok(Self {
            simplified: pairs.collect(),
            fillers: script.fillers.split_whitespace().map(str::to_owned).collect(),
            repeated: script.repeated,
            contractions: script.contractions.into_iter().map(|(k, v)| (k, expanded(v))).collect(),
        })
    }

    /// Returns the words of a text, in order, with [`BREAK`] between sentences and [`PAUSE`] between clauses.
    pub(crate) fn words(&self, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut word = String::new();
        let mut characters = text.nfkc().flat_map(char::to_lowercase).peekable();
        while let Some(c) = characters.next() {
            if is_han(c) {
                self.end(&mut word, &mut words);
                self.push(self.simplified.get(&c).copied().unwrap_or(c).to_string(), &mut words);
            } else if c.is_alphanumeric() || matches!(c, '\'' | '’' | 'ʼ') {
                let c = if c.is_alphanumeric() { c } else { '\'' };
                word.extend(Some(c).filter(|_| word.chars().count() < LONGEST_WORD));
            } else {
                self.end(&mut word, &mut words);
                let next = characters.peek().copied().unwrap_or(' ');
                let ends = matches!(c, '!' | '?' | ';' | '。' | '\n')
                    || c == '.' && (next.is_whitespace() || is_han(next));
                let digits =
                    words.last().is_some_and(|word| word.ends_with(|c: char| c.is_ascii_digit()));
                let pauses = c == '—' || c == ',' && !(digits && next.is_ascii_digit());
                if let Some(mark) = ends.then_some(BREAK).or(pauses.then_some(PAUSE)) {
                    mark_end(mark, &mut words);
                }
            }
        }
        self.end(&mut word, &mut words);
        if words.len() > MOST_WORDS {
            words.drain(MOST_WORDS / 2..words.len() - MOST_WORDS / 2);
        }
        words
    }

    /// Ends a word of letters: writes out what it contracts.
    fn end(&self, word: &mut String, words: &mut Vec<String>) {
        let written = std::mem::take(word);
        let written = written.trim_matches('\'');
        let bare: String = written.chars().filter(|c| *c != '\'').collect();
        if bare.is_empty() {
            return;
        }
        if let Some(expanded) = self.contractions.get(&bare) {
            expanded.iter().for_each(|word| self.push(word.clone(), words));
            return;
        }
        let Some((stem, end)) = written.rsplit_once('\'') else { return self.push(bare, words) };
        let (stem, end) = match (stem.strip_suffix('n'), end) {
            (Some(stem), "t") => (stem, "not"),
            (_, "m") => (stem, "am"),
            (_, "re") => (stem, "are"),
            (_, "ve") => (stem, "have"),
            (_, "ll") => (stem, "will"),
            _ => (stem, end),
        };
        for part in [stem, end] {
            self.push(part.chars().filter(|c| *c != '\'').collect(), words);
        }
    }

    /// Adds a word, unless it is a filler or said twice by mistake.
    fn push(&self, word: String, words: &mut Vec<String>) {
        let last = words.iter().rev().find(|last| *last != PAUSE);
        let again = last.is_some_and(|last| *last == word)
            && (self.repeated.contains(&word) || !word.chars().any(is_han));
        if !word.is_empty() && !again && !self.fillers.contains(&word) {
            words.push(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_to_its_ends() {
        for c in ["a", "火", "😀"] {
            let whole = c.repeat(2 * LONGEST_END);
            assert_eq!(ends(&format!("  {whole}\n")), whole);
            let begin = c.repeat(LONGEST_END);
            for between in ["x", "字", &"y".repeat(100_000)] {
                let cut = ends(&format!("{begin}{between}{begin}")).into_owned();
                assert_eq!(cut, format!("{begin}\n{begin}"), "{c}");
            }
        }
        assert_eq!(ends(" "), "");
    }
}
