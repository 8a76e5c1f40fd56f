//! Writes plain text: filters characters, and normalises spaces and line ends where marks and
//! ornaments were removed. Not for parsing marks.

use hearken_base::language::is_han;

use super::symbols::{Treatment, treatment};

/// Receiver of plain text.
pub(crate) trait TextSink {
    /// Receives the next character.
    fn put(&mut self, c: char);

    /// Reports white space at once, before it is written. The white space itself is written only
    /// with the character after it. It is dropped at the end of the text, and if only an ornament
    /// follows it.
    fn gap(&mut self, line_ends: bool);
}

impl TextSink for String {
    fn put(&mut self, c: char) {
        self.push(c);
    }

    fn gap(&mut self, _line_ends: bool) {}
}

/// Separator before the next character. The greater one wins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Space,
    /// Separator of table cells.
    Cell,
    /// Separator after the number of a list item.
    Number,
    Line,
    Paragraph,
}

/// Writer of plain text.
#[derive(Debug, Default)]
pub(super) struct Spacing {
    gap: Gap,
    last: Option<char>,
    /// Set if an ornament was removed since the last character.
    lost: bool,
    /// Set if a part was removed that is not spoken.
    left_out: bool,
}

impl Spacing {
    /// Returns the last character that was written.
    pub(super) fn last(&self) -> Option<char> {
        self.last
    }

    /// Writes a character, if it is spoken.
    pub(super) fn write(&mut self, c: char, out: &mut impl TextSink) {
        if c.is_whitespace() {
            return self.space(out);
        }
        match treatment(c) {
            Treatment::Said => self.put(c, out),
            Treatment::Part => {}
            Treatment::Ornament => self.lose(),
            Treatment::Separator => self.space(out),
            Treatment::Number(number) => {
                self.space(out);
                number.to_string().chars().for_each(|digit| self.put(digit, out));
                self.space(out);
            }
        }
    }

    /// Records that a part was removed here, like an ornament.
    pub(super) fn lose(&mut self) {
        (self.lost, self.left_out) = (true, true);
    }

    /// Reports whether a part was removed that is not spoken.
    pub(super) fn has_left_out(&self) -> bool {
        self.left_out
    }

    pub(super) fn space(&mut self, out: &mut impl TextSink) {
        self.widen(Gap::Space);
        out.gap(false);
    }

    /// Writes a bar between two cells.
    pub(super) fn cell(&mut self, out: &mut impl TextSink) {
        self.widen(Gap::Cell);
        out.gap(false);
    }

    /// Writes the number of a list item.
    pub(super) fn number(&mut self, digits: &str, out: &mut impl TextSink) {
        digits.chars().for_each(|digit| self.put(digit, out));
        self.widen(Gap::Number);
    }

    /// Ends a line. A blank line separates paragraphs.
    pub(super) fn end_line(&mut self, blank: bool, out: &mut impl TextSink) {
        let parts = blank && self.gap >= Gap::Line;
        self.widen(if parts { Gap::Paragraph } else { Gap::Line });
        out.gap(true);
    }

    fn widen(&mut self, gap: Gap) {
        self.gap = self.gap.max(gap);
    }

    fn put(&mut self, c: char, out: &mut impl TextSink) {
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
