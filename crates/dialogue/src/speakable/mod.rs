//! Converts streamed Markdown answers to plain text for speech. Markdown, emoji and ornaments are
//! removed. Words, digits, units and addresses stay, line by line. The result does not depend on
//! the chunks of the stream. Not for splitting into sentences. Not for writing numbers as words:
//! the synthesiser does that.
//!
//! `blocks` parses the start of lines and `inline` the rest, with the help of `links`, `tags`,
//! `marks`, `asides` and `formula`. `symbols` decides which characters are spoken. `spacing` writes
//! the plain text.

mod asides;
mod blocks;
mod formula;
mod inline;
mod links;
mod marks;
mod spacing;
mod symbols;
mod tags;
#[cfg(test)]
mod tests;

use inline::{Step, Writer};

/// Length of the parts in which a chunk is read, in bytes: the end of a link is removed from the
/// text that is held, which must be short.
const PART_BYTES: usize = 1 << 10;

pub(super) use spacing::TextSink;
pub(super) use symbols::is_emoji;

/// Converter of one answer to plain text, chunk by chunk. The output never depends on the chunks.
/// The held-back text is bounded by about 1,300 characters (a link with a very long target). Plain
/// words are returned at once, except letters that can start an address.
///
/// The result has no space at its ends, one between words, one newline between lines and two
/// between paragraphs. It can contain marks again if they were literal in the text (`\*`, code,
/// `&lt;`). A second conversion can therefore remove more.
#[derive(Debug, Default)]
pub struct Cleaner {
    /// Text that cannot be interpreted before more of it arrives.
    held: String,
    writer: Writer,
    /// Set if a finished text had a part that is not spoken.
    left_out: bool,
    /// Bytes that were moved.
    #[cfg(test)]
    moved: usize,
}

impl Cleaner {
    /// Adds a chunk and returns the plain text that is now certain.
    pub fn push(&mut self, chunk: &str) -> String {
        let mut out = String::with_capacity(chunk.len());
        self.feed(chunk, &mut out);
        out
    }

    /// Ends the text, returns the rest of it, and resets the converter.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        self.end(&mut out);
        out
    }

    /// Returns the plain text of a whole answer. Equal to the joined output of its stream.
    pub fn whole(text: &str) -> String {
        let mut cleaner = Self::default();
        let mut out = cleaner.push(text);
        out.push_str(&cleaner.finish());
        out
    }

    /// Writes a chunk's plain text to `out`, like [`Self::push`], and reports gaps.
    pub(super) fn feed(&mut self, chunk: &str, out: &mut impl TextSink) {
        let mut rest = chunk;
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(rest.floor_char_boundary(PART_BYTES));
            self.held.push_str(part);
            self.read(false, out);
            rest = behind;
        }
    }

    /// Writes the rest of the text to `out`, like [`Self::finish`], and reports gaps.
    pub(super) fn end(&mut self, out: &mut impl TextSink) {
        self.read(true, out);
        debug_assert!(self.held.is_empty(), "no text is undecided at the end");
        *self = Self { left_out: self.has_left_out(), ..Self::default() };
    }

    /// Reports whether any part of the texts is not spoken: an emoji, an emoticon, a stage
    /// direction. An answer may consist of such parts only, without words.
    pub fn has_left_out(&self) -> bool {
        self.left_out || self.writer.has_left_out()
    }

    fn read(&mut self, end: bool, out: &mut impl TextSink) {
        let mut at = 0;
        while at < self.held.len() {
            match self.writer.step(&self.held[at..], end, out) {
                Step::Wait => break,
                Step::Take(len) => at += len,
                Step::Unwrap { whole, inner } => {
                    self.held.replace_range(at + inner.end..at + whole, "");
                    #[cfg(test)]
                    {
                        self.moved += self.held.len() - at;
                    }
                    at += inner.start;
                }
            }
        }
        self.held.drain(..at);
        #[cfg(test)]
        {
            self.moved += self.held.len();
        }
    }
}

/// Result of a look-ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found<T> {
    /// Found.
    Yes(T),
    /// Absent, whatever text follows.
    No,
    /// Undecided until more text arrives.
    Wait,
}

impl<T> Found<T> {
    /// Returns the result for text that ran out: `No` if nothing more is examined, else `Wait`.
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

/// Line at the start of a text, without its newline, cut to at most `most` characters.
struct Line<'a> {
    text: &'a str,
    /// Set if the newline or the end of the text follows.
    ended: bool,
    /// Length of the newline, in bytes.
    newline: usize,
    /// Set if no more of the line will be examined.
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
