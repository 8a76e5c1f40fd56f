//! Written answers made plain speech, as they come: Markdown, emoji and ornaments go; words,
//! digits, units and addresses stay, line by line. Where the chunks of a stream end changes
//! nothing. Not for cutting into sentences, nor for numbers to words, which is the synthesiser's.
//!
//! `blocks` reads how lines open, `inline` what stands in them (`links`, `tags` and
//! `marks` help it), `symbols` knows which characters are said, `spacing` writes them down.

mod blocks;
mod inline;
mod links;
mod marks;
mod spacing;
mod symbols;
mod tags;
#[cfg(test)]
mod tests;

use inline::{Step, Writer};
pub(super) use spacing::Outlet;
pub(super) use symbols::is_emoji;

/// Makes one answer plain speech, chunk by chunk. What it gives out never depends on the chunks,
/// and what it holds back of a text that goes on is bounded by about 1,300 characters (a link
/// with a very long target). Plain words go out at once, but for letters that can begin an address.
///
/// The result has no space at its ends, one between words, one newline between lines and two
/// between paragraphs. It can hold marks again where the text did not mean them as such (`\*`,
/// code, `&lt;`), so cleaning twice can say less.
#[derive(Debug, Default)]
pub struct Cleaner {
    /// Text that cannot be judged before more of it comes.
    held: String,
    writer: Writer,
}

impl Cleaner {
    /// Takes a chunk and returns the plain text that is now certain.
    pub fn push(&mut self, chunk: &str) -> String {
        let mut out = String::with_capacity(chunk.len());
        self.feed(chunk, &mut out);
        out
    }

    /// The text has ended: returns the rest of it, and begins anew.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        self.end(&mut out);
        out
    }

    /// The plain text of a whole answer: what the pieces of its stream make together.
    pub fn whole(text: &str) -> String {
        let mut cleaner = Self::default();
        let mut out = cleaner.push(text);
        out.push_str(&cleaner.finish());
        out
    }

    /// As [`Self::push`], telling of gaps as well.
    pub(super) fn feed(&mut self, chunk: &str, out: &mut impl Outlet) {
        self.held.push_str(chunk);
        self.read(false, out);
    }

    /// As [`Self::finish`], telling of gaps as well.
    pub(super) fn end(&mut self, out: &mut impl Outlet) {
        self.read(true, out);
        debug_assert!(self.held.is_empty(), "at the end nothing is undecided");
        *self = Self::default();
    }

    fn read(&mut self, end: bool, out: &mut impl Outlet) {
        let mut at = 0;
        while at < self.held.len() {
            match self.writer.step(&self.held[at..], end, out) {
                Step::Wait => break,
                Step::Take(len) => at += len,
                Step::Unwrap { whole, inner } => {
                    self.held.replace_range(at + inner.end..at + whole, "");
                    at += inner.start;
                }
            }
        }
        self.held.drain(..at);
    }
}

/// What a look ahead found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found<T> {
    /// It is there.
    Yes(T),
    /// It is not, whatever comes.
    No,
    /// What comes will tell.
    Wait,
}

impl<T> Found<T> {
    /// What it means that the text ran out: nothing more is looked at, or more is to come.
    fn ran_out(known: bool) -> Self {
        if known { Self::No } else { Self::Wait }
    }

    fn map<U>(self, f: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Self::Yes(found) => Found::Yes(f(found)),
            Self::No => Found::No,
            Self::Wait => Found::Wait,
        }
    }
}

/// The line that begins here, without its newline, at most `most` characters of it.
struct Line<'a> {
    text: &'a str,
    /// The newline or the end of the text follows.
    ended: bool,
    /// Bytes of the newline.
    newline: usize,
    /// No more of it will be looked at.
    known: bool,
}

impl<'a> Line<'a> {
    fn of(rest: &'a str, most: usize, end: bool) -> Self {
        let mut len = rest.len();
        for (count, (at, c)) in rest.char_indices().enumerate() {
            if c == '\n' {
                return Self { text: &rest[..at], ended: true, newline: 1, known: true };
            }
            if count == most {
                len = at;
                break;
            }
        }
        let full = len < rest.len();
        Self { text: &rest[..len], ended: end && !full, newline: 0, known: end || full }
    }
}
