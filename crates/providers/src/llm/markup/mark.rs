//! The meaning of a mark, and the comparison of a text with one. Not for the marks themselves.

/// Meaning of a mark for the text after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Start of thinking.
    Think,
    /// End of thinking, one level.
    Thought,
    /// End of all thinking: the answer follows.
    Answer,
    /// End of the current message.
    End,
    /// Start of a tool call that ends with this text. An empty text is never found: the call then
    /// runs to the end.
    Call(&'static str),
    /// Start of something that is not the answer and ends with this text: a tool result that the
    /// model made up, or its own prompt.
    Drop(&'static str),
    /// No meaning: the mark is only removed.
    Silent,
}

/// Result of a search for a mark at the beginning of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// A mark of this length, in bytes.
    Yes(Mark, usize),
    /// No mark.
    No,
    /// Undecided: more text is needed.
    More,
}

/// Names of elements and tokens that contain thinking.
pub(super) const THINKING: [&str; 13] = [
    "think",
    "thinking",
    "thought",
    "thoughts",
    "reasoning",
    "reflection",
    "analysis",
    "scratchpad",
    "scratch_pad",
    "inner_monologue",
    // As `<antThinking>`.
    "antthinking",
    "longcat_think",
    "internal_thoughts",
];

/// Converts a full-width letter to a plain one.
pub(super) fn narrow(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        _ => c,
    }
}

/// Reports whether an element or a token of this name, in lower case, contains thinking.
pub(super) fn thinks(name: &str) -> bool {
    THINKING.contains(&name)
}

/// Compares the beginning of the text with `pattern`: found with its length in bytes, undecided if
/// the text is too short, or no match.
pub(super) fn begins(text: &str, pattern: &str) -> Found {
    compare(text, pattern, |c, wanted| c == wanted)
}

/// Compares the beginning of the text with a closing mark, ignoring case.
pub(super) fn closes(text: &str, close: &str) -> Found {
    compare(text, close, |c, wanted| c.eq_ignore_ascii_case(&wanted))
}

fn compare(text: &str, pattern: &str, same: impl Fn(char, char) -> bool) -> Found {
    let mut letters = text.char_indices();
    for wanted in pattern.chars() {
        match letters.next() {
            None => return Found::More,
            Some((_, c)) if same(narrow(c), wanted) => {}
            Some(_) => return Found::No,
        }
    }
    let len = letters.next().map_or(text.len(), |(at, _)| at);
    Found::Yes(Mark::Silent, len)
}
