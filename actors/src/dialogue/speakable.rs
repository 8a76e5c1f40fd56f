//! Written sentences made speakable: Markdown, emoji and decorative symbols go, words, digits,
//! units and addresses stay. Works on whole sentences of a [`SentenceSplitter`], so that the
//! chunks of a stream do not matter. Not for numbers to words, which is the synthesiser's.
//!
//! [`SentenceSplitter`]: super::sentence::SentenceSplitter

use unicode_properties::{EmojiStatus, GeneralCategory, UnicodeEmoji, UnicodeGeneralCategory};

/// Symbols that are said aloud, though their Unicode category is "other symbol".
const SPOKEN_SYMBOLS: &str = "°℃℉№㎡㎏㎝㎞㎜©®™";

/// Cleans the sentences of one reply, in order.
#[derive(Debug, Default)]
pub struct Speakable {
    in_code_fence: bool,
}

impl Speakable {
    /// The sentence in plain words; none where nothing of it can be said.
    pub fn clean(&mut self, sentence: &str) -> Option<String> {
        let mut out = String::with_capacity(sentence.len());
        for line in sentence.lines() {
            let line = line.trim();
            if line.starts_with("```") || line.starts_with("~~~") {
                self.in_code_fence = !self.in_code_fence;
                continue;
            }
            if is_rule(line) {
                continue;
            }
            if !out.is_empty() {
                out.push(' ');
            }
            if self.in_code_fence {
                out.push_str(line)
            } else {
                inline(strip_block(line), &mut out)
            }
        }
        let plain = squeeze(&drop_symbols(&out));
        plain.chars().any(char::is_alphanumeric).then_some(plain)
    }
}

/// A table's separator row or a horizontal rule.
fn is_rule(line: &str) -> bool {
    line.len() >= 3 && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ' | '*' | '_' | '='))
}

/// Drops the marks of headings, quotes and lists; a list's number stays, as a pause.
fn strip_block(line: &str) -> std::borrow::Cow<'_, str> {
    let line = line.trim_start_matches(['>', ' ']);
    let heading = line.trim_start_matches('#');
    if heading.len() < line.len() && heading.starts_with(' ') {
        return heading.trim_start().into();
    }
    for bullet in ["- ", "* ", "+ ", "• "] {
        if let Some(rest) = line.strip_prefix(bullet) {
            return rest.trim_start().into();
        }
    }
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    if (1..=3).contains(&digits) {
        let (number, rest) = line.split_at(digits);
        if let Some(rest) = rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") ")) {
            return format!("{number}, {}", rest.trim_start()).into();
        }
    }
    line.into()
}

/// Drops emphasis, code marks, link targets, table bars and tags.
fn inline(line: impl AsRef<str>, out: &mut String) {
    let chars: Vec<char> = line.as_ref().chars().collect();
    let mut i = 0;
    while i < chars.len() {
        let before = i.checked_sub(1).map(|j| chars[j]);
        let run = chars[i..].iter().take_while(|c| **c == chars[i]).count();
        let after = chars.get(i + run).copied();
        match chars[i] {
            '`' => i += run,
            '~' if run >= 2 => i += run,
            '*' if !(run == 1 && spaced(before) && spaced(after)) => i += run,
            '_' if !(in_word(before) && in_word(after)) => i += run,
            '!' if after == Some('[') && run == 1 => i += 1,
            '[' if let Some((text, end)) = link_at(&chars, i) => {
                inline(text, out);
                i = end;
            }
            '<' if let Some(end) = tag_end(&chars, i) => i = end,
            '|' => {
                let edge = before.is_none() || chars[i + run..].iter().all(|c| *c == ' ');
                out.push_str(if edge { " " } else { ", " });
                i += run;
            }
            c => {
                out.push(c);
                i += 1;
            }
        }
    }
}

fn spaced(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_whitespace())
}

fn in_word(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// The text and the end of a link `[text](target)` that opens here.
fn link_at(chars: &[char], open: usize) -> Option<(String, usize)> {
    if chars[open] != '[' {
        return None;
    }
    let close = open + chars[open..].iter().position(|c| *c == ']')?;
    if chars.get(close + 1) != Some(&'(') {
        return None;
    }
    let end = close + chars[close..].iter().position(|c| *c == ')')?;
    Some((chars[open + 1..close].iter().collect(), end + 1))
}

/// The end of an HTML tag that opens here.
fn tag_end(chars: &[char], open: usize) -> Option<usize> {
    let first = chars.get(open + 1)?;
    if !(first.is_ascii_alphabetic() || *first == '/') {
        return None;
    }
    let end = open + chars[open..].iter().position(|c| *c == '>')?;
    let name = &chars[open + 1..end];
    name.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | ' ')).then_some(end + 1)
}

/// Drops emoji with all that joins them, and symbols that have no sound.
fn drop_symbols(text: &str) -> String {
    text.chars().filter(|c| is_spoken(*c)).collect()
}

fn is_spoken(c: char) -> bool {
    if c.is_ascii() || SPOKEN_SYMBOLS.contains(c) {
        return c == ' ' || !c.is_ascii_control();
    }
    if c.is_alphanumeric() {
        return true;
    }
    let emoji = !matches!(c.emoji_status(), EmojiStatus::NonEmoji);
    let unspoken = matches!(
        c.general_category(),
        GeneralCategory::OtherSymbol
            | GeneralCategory::ModifierSymbol
            | GeneralCategory::EnclosingMark
            | GeneralCategory::Format
            | GeneralCategory::Control
            | GeneralCategory::PrivateUse
            | GeneralCategory::Unassigned
    );
    let joiner = matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{200d}' | '\u{e0020}'..='\u{e007f}');
    !(emoji || unspoken || joiner)
}

/// Single spaces, none at the ends or before punctuation.
fn squeeze(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        let closes = word.starts_with([',', '.', '!', '?', '，', '。', '！', '？']);
        if !out.is_empty() && !closes {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clean(text: &str) -> String {
        Speakable::default().clean(text).unwrap_or_default()
    }

    #[test]
    fn markdown_becomes_plain_words() {
        for (written, spoken) in [
            ("**Bold** and *soft* and __under__ `code`.", "Bold and soft and under code."),
            ("## 天气预报", "天气预报"),
            ("- 第一项", "第一项"),
            ("> quoted", "quoted"),
            ("1. Open the door.", "1, Open the door."),
            ("See [the docs](https://example.com/a_b).", "See the docs."),
            ("![a cat](cat.png) sleeps", "a cat sleeps"),
            ("| city | temp |", "city, temp"),
            ("|---|:--:|", ""),
            ("---", ""),
            ("~~old~~ new<br>line", "old newline"),
            ("snake_case and 3 * 4 stay", "snake_case and 3 * 4 stay"),
            ("https://example.com/a_b?x=1 stays", "https://example.com/a_b?x=1 stays"),
        ] {
            assert_eq!(clean(written), spoken, "{written}");
        }
    }

    #[test]
    fn emoji_and_ornaments_go_with_all_their_parts() {
        for (written, spoken) in [
            ("好的😊！", "好的！"),
            ("family 👨‍👩‍👧‍👦 here", "family here"),
            ("flag 🇨🇳 and 👍🏽 done", "flag and done"),
            ("1️⃣ first", "1 first"),
            ("★★ great ♪", "great"),
            ("It is 25°C, 25℃, $5, 50% & 3+4=7.", "It is 25°C, 25℃, $5, 50% & 3+4=7."),
            ("🎉🎉", ""),
        ] {
            assert_eq!(clean(written), spoken, "{written}");
        }
    }

    #[test]
    fn code_fences_lose_their_marks_and_keep_their_lines() {
        let mut speakable = Speakable::default();
        let said: Vec<_> = ["```rust\n", "let a_b = *c;\n", "```\n", "**Done.**"]
            .iter()
            .filter_map(|s| speakable.clean(s))
            .collect();
        assert_eq!(said, ["let a_b = *c;", "Done."]);
    }

    proptest! {
        #[test]
        fn cleaning_never_panics_and_is_stable(text in ".{0,80}") {
            let once = clean(&text);
            prop_assert!(once.chars().all(is_spoken));
        }

        #[test]
        fn plain_words_stay_as_they_are(text in "[a-z]{1,8}( [a-z]{1,8}){0,5}[.!?]") {
            prop_assert_eq!(clean(&text), text);
        }
    }
}
