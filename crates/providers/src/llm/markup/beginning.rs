//! What an answer begins with, and whether it is over. Not for the formats of calls.

use super::mark::{Found, Mark};
use super::marks::mark;

/// Content at the beginning of an answer.
pub(super) enum Beginning {
    /// Not decided yet.
    Unknown,
    /// Text.
    Text,
    /// Calls, each with its tool and arguments, and their length in bytes. The list may be empty:
    /// an intended call that cannot be made is not text either.
    Calls(Vec<(String, String)>, usize),
}

/// Reports whether the answer is over, except for special tokens; none if undecided.
pub(super) fn is_over(behind: &str, end: bool) -> Option<bool> {
    let behind = behind.trim_start();
    if behind.is_empty() {
        return end.then_some(true);
    }
    match mark(behind, end) {
        Found::More => None,
        Found::Yes(mark, _) => Some(matches!(mark, Mark::Silent | Mark::End | Mark::Drop(_))),
        Found::No => Some(false),
    }
}
