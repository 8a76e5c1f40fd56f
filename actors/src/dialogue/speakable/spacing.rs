//! The plain text as it is written down: which characters go out, and what stands between words
//! and lines where marks and ornaments have gone. Not for reading marks.

use super::super::phrases::is_han;
use super::symbols::{Voice, voice};

/// Where plain text goes.
pub(in crate::dialogue) trait Outlet {
    /// The next character.
    fn put(&mut self, c: char);

    /// White space comes next, unless the text ends or an ornament is all that it stood before;
    /// told at once, while the white space itself waits for what it stands before.
    fn gap(&mut self, line_ends: bool);
}

impl Outlet for String {
    fn put(&mut self, c: char) {
        self.push(c);
    }

    fn gap(&mut self, _line_ends: bool) {}
}

/// What is to stand before the next character; the stronger one wins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Space,
    /// Between the cells of a table.
    Cell,
    /// Behind the number of a list's item.
    Number,
    Line,
    Paragraph,
}

/// Writes plain text down.
#[derive(Debug, Default)]
pub(super) struct Spacing {
    gap: Gap,
    last: Option<char>,
    /// An ornament has gone since the last character.
    lost: bool,
}

impl Spacing {
    /// The last character that went out.
    pub(super) fn last(&self) -> Option<char> {
        self.last
    }

    /// Writes a character as it is said, if it is.
    pub(super) fn write(&mut self, c: char, out: &mut impl Outlet) {
        if c.is_whitespace() {
            return self.space(out);
        }
        match voice(c) {
            Voice::Said => self.put(c, out),
            Voice::Part => {}
            Voice::Ornament => self.lost = true,
            Voice::Parting => self.space(out),
            Voice::Number(number) => {
                self.space(out);
                number.to_string().chars().for_each(|digit| self.put(digit, out));
                self.space(out);
            }
        }
    }

    pub(super) fn space(&mut self, out: &mut impl Outlet) {
        self.widen(Gap::Space);
        out.gap(false);
    }

    /// A bar between two cells.
    pub(super) fn cell(&mut self, out: &mut impl Outlet) {
        self.widen(Gap::Cell);
        out.gap(false);
    }

    /// The number of a list's item.
    pub(super) fn number(&mut self, digits: &str, out: &mut impl Outlet) {
        digits.chars().for_each(|digit| self.put(digit, out));
        self.widen(Gap::Number);
    }

    /// The line ends; a blank one parts paragraphs.
    pub(super) fn end_line(&mut self, blank: bool, out: &mut impl Outlet) {
        let parts = blank && self.gap >= Gap::Line;
        self.widen(if parts { Gap::Paragraph } else { Gap::Line });
        out.gap(true);
    }

    fn widen(&mut self, gap: Gap) {
        self.gap = self.gap.max(gap);
    }

    fn put(&mut self, c: char, out: &mut impl Outlet) {
        let gap = std::mem::take(&mut self.gap);
        let lost = std::mem::take(&mut self.lost);
        let Some(last) = self.last.replace(c) else { return out.put(c) };
        let between = match gap {
            Gap::None if lost && last.is_ascii_alphanumeric() && c.is_ascii_alphanumeric() => " ",
            Gap::None => "",
            Gap::Space if lost && closes(c) => "",
            Gap::Space => " ",
            Gap::Cell if closes(last) || closes(c) => " ",
            Gap::Number if is_han(c) => "、",
            Gap::Cell | Gap::Number => ", ",
            Gap::Line => "\n",
            Gap::Paragraph => "\n\n",
        };
        between.chars().for_each(|c| out.put(c));
        out.put(c);
    }
}

fn closes(c: char) -> bool {
    matches!(c, ',' | '.' | '!' | '?' | ':' | ';' | '，' | '。' | '！' | '？' | '：' | '；' | '、')
}
