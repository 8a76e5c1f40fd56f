//! Similarity of two texts, by words, or by characters for Chinese. Not for judging a session,
//! which is in [`super::expectations`].

/// Splits a text into the tokens to compare: each CJK character separately, other letters and
/// digits as words in lower case. Drops punctuation and spaces.
pub fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut word = String::new();
    for c in text.chars() {
        if is_cjk(c) {
            flush(&mut word, &mut tokens);
            tokens.push(c.to_string());
        } else if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        } else if c != '\'' && c != '’' {
            flush(&mut word, &mut tokens);
        }
    }
    flush(&mut word, &mut tokens);
    tokens
}

fn flush(word: &mut String, tokens: &mut Vec<String>) {
    if !word.is_empty() {
        tokens.push(std::mem::take(word));
    }
}

fn is_cjk(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// Returns the edit distance (insertions, deletions and replacements of tokens) as a fraction of
/// the length of `said`; 1 or more if nothing matches, 0 for two empty texts.
pub fn error_rate(said: &str, heard: &str) -> f64 {
    let said = tokens(said);
    let heard = tokens(heard);
    let edits = strsim::generic_levenshtein(&Tokens(&said), &Tokens(&heard));
    edits as f64 / said.len().max(1) as f64
}

/// Returns the fraction of the tokens of `said` that `heard` contains in order, 0 to 1.
pub fn agreement(said: &str, heard: &str) -> f64 {
    (1.0 - error_rate(said, heard)).max(0.0)
}

struct Tokens<'a>(&'a [String]);

impl<'b> IntoIterator for &'b Tokens<'_> {
    type Item = &'b String;
    type IntoIter = std::slice::Iter<'b, String>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_characters_are_counted() {
        assert_eq!(tokens("Don't 播放 2 songs!"), ["dont", "播", "放", "2", "songs"]);
        for (said, heard, rate) in [
            ("go forward ten meters", "Go forward, ten meters.", 0.0),
            ("go forward ten meters", "Go forward 10 meters.", 0.25),
            ("几乎停滞", "几乎停止", 0.25),
            ("one two", "", 1.0),
            ("", "", 0.0),
            ("one", "one two three", 2.0),
        ] {
            assert!((error_rate(said, heard) - rate).abs() < 1e-9, "{said} / {heard}");
        }
        assert!(agreement("one", "a b c d").abs() < 1e-9);
    }
}
