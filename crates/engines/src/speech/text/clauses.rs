//! Splits a text into clauses, such that its beginning is heard early and every piece still sounds
//! natural.

use hearken_base::language::is_han;

/// Speaking time of a Chinese character, relative to a Latin letter.
const HAN_WEIGHT: usize = 4;
/// Pieces lighter than this are joined to the next: about six characters.
const LIGHT: usize = 24;
/// Sentences lighter than this are not split: about fourteen characters.
const WHOLE: usize = 56;
/// Maximum weight of a text without punctuation: about thirty characters.
const HEAVY: usize = 120;

/// Splits `text` after sentence ends, at commas if a sentence is long, and, if there is neither, at
/// a space or anywhere. Pieces retain their punctuation; joined, they are the text, except for
/// spaces at the splits. Pieces without spoken content are omitted.
pub fn split(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    for sentence in cut(text, is_end) {
        if weight(&sentence) <= WHOLE {
            pieces.push(sentence);
        } else {
            pieces.extend(joined(cut(&sentence, is_pause)));
        }
    }
    pieces.into_iter().flat_map(|piece| broken(&piece)).filter(|piece| speakable(piece)).collect()
}

/// Estimates the speaking time of a text: about 18 units per second.
pub fn weight(text: &str) -> usize {
    text.chars()
        .map(|c| match c {
            c if is_han(c) => HAN_WEIGHT,
            c if is_end(c) || is_pause(c) => 4,
            _ => 1,
        })
        .sum()
}

fn speakable(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

fn is_end(c: char) -> bool {
    matches!(c, '。' | '！' | '？' | '!' | '?' | '.' | ';' | '；' | '…' | '\n')
}

fn is_pause(c: char) -> bool {
    matches!(c, '，' | ',' | '、' | '：' | ':' | '—')
}

/// Splits after each mark. ASCII marks count only before a space or the end (not in `3.5`, `e.g.`).
fn cut(text: &str, mark: fn(char) -> bool) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut current = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        current.push(c);
        let next = chars.peek().copied();
        let ends = mark(c)
            && !next.is_some_and(|n| mark(n) || matches!(n, '”' | '"' | '』' | '」' | '）' | ')'))
            && (!c.is_ascii() || next.is_none_or(|n| n.is_whitespace() || is_han(n)))
            && !(c == '.' && is_abbreviation(&current));
        if ends {
            pieces.push(current.trim().to_owned());
            current.clear();
        }
    }
    pieces.push(current.trim().to_owned());
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

fn is_abbreviation(text: &str) -> bool {
    let word = text.trim_end_matches('.').rsplit([' ', '.']).next().unwrap_or_default();
    word.len() == 1 && word != "I" || ["Mr", "Mrs", "Ms", "Dr", "St", "No", "vs"].contains(&word)
}

/// Joins light pieces to the next one, and a light last piece to the previous one.
fn joined(parts: Vec<String>) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    for part in parts {
        match pieces.last_mut() {
            Some(last) if weight(last) < LIGHT || weight(&part) < LIGHT / 2 => {
                if last.is_ascii() {
                    last.push(' ');
                }
                last.push_str(&part);
            }
            _ => pieces.push(part),
        }
    }
    pieces
}

/// Splits a piece that has no punctuation.
fn broken(piece: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut current = String::new();
    let mut heavy = 0;
    for c in piece.chars() {
        heavy += if is_han(c) { HAN_WEIGHT } else { 1 };
        let at_space = c.is_whitespace();
        let cut = heavy > HEAVY && (at_space || is_han(c)) || heavy > 2 * HEAVY;
        if cut && !current.trim().is_empty() {
            pieces.push(current.trim().to_owned());
            current.clear();
            heavy = 0;
        }
        current.push(c);
    }
    if !current.trim().is_empty() {
        pieces.push(current.trim().to_owned());
    }
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_split_at_natural_pauses() {
        for (text, pieces) in [
            ("你好。今天天气很好！", "你好。|今天天气很好！"),
            ("Hello there. How are you?", "Hello there.|How are you?"),
            ("It costs 3.5 dollars, Mr. Smith.", "It costs 3.5 dollars, Mr. Smith."),
            (
                "今天天气非常好，我们一起去公园散步吧，然后再去吃一顿好吃的午饭。",
                "今天天气非常好，|我们一起去公园散步吧，|然后再去吃一顿好吃的午饭。",
            ),
            ("好的，音量已经调到百分之五十。", "好的，音量已经调到百分之五十。"),
            ("他说：“走吧！”然后走了。", "他说：“走吧！”然后走了。"),
            ("……", ""),
            ("", ""),
        ] {
            assert_eq!(split(text).join("|"), pieces);
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_pieces_are_bounded(text in "[a-z你好0-9，。,.!? ]{0,300}") {
            let bare = |s: &str| s.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
            let pieces = split(&text);
            prop_assert_eq!(bare(&pieces.concat()), bare(&text));
            for piece in pieces {
                prop_assert!(weight(&piece) <= 12 * HEAVY);
            }
        }
    }
}
