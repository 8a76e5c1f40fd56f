//! Parses the text within a line, one step at a time. A step reads the available text, writes the
//! part that is certain and returns the length that it read. Not for the start of lines.

use std::ops::Range;

use super::blocks::{self, Fence, Opening};
use super::marks::{self, MarkEffect, Run};
use super::spacing::{Spacing, TextSink};
use super::tags::{self, Tag};
use super::{Found, asides, formula, links};

/// Number of kinds of mark runs.
const KINDS: usize = 6;

/// Result of a step.
#[derive(Debug)]
pub(super) enum Step {
    /// More text is needed.
    Wait,
    /// This number of bytes was read.
    Take(usize),
    /// Of the next `whole` bytes, only the `inner` ones are read further.
    Unwrap { whole: usize, inner: Range<usize> },
}

/// Context of the next character.
#[derive(Debug, Clone, Copy, Default)]
enum Place {
    #[default]
    LineStart,
    Text,
    /// Inside an address, within this number of round brackets.
    Address(usize),
    /// Inside inline code that is delimited by runs of this many bytes.
    Code(usize),
    /// Inside a line of a code block.
    Fenced,
}

/// Parser of marks that writes plain text.
#[derive(Debug, Default)]
pub(super) struct Writer {
    place: Place,
    fence: Option<Fence>,
    spacing: Spacing,
    /// Previous character, marks included. `None` at the start of a line.
    before: Option<char>,
    /// Open runs of marks in this line, by [`kind`].
    open: [u8; KINDS],
    heading: bool,
    /// Set if this line contained a bar.
    table: bool,
}

impl Writer {
    /// Reads on from `rest`, which is not empty. `end` is true if no text will follow.
    pub(super) fn step(&mut self, rest: &str, end: bool, out: &mut impl TextSink) -> Step {
        match self.place {
            Place::LineStart => match self.fence {
                Some(fence) => self.fenced(fence, rest, end, out),
                None => self.line(rest, end, out),
            },
            Place::Text => self.text(rest, end, out),
            Place::Address(depth) => self.address(depth, rest, end, out),
            Place::Code(run) => self.code(run, rest, end, out),
            Place::Fenced => self.as_it_is(rest, out),
        }
    }

    fn line(&mut self, rest: &str, end: bool, out: &mut impl TextSink) -> Step {
        let Some(opening) = blocks::open(rest, end) else { return Step::Wait };
        match opening {
            Opening::Blank(len) => {
                self.spacing.end_line(true, out);
                Step::Take(len)
            }
            Opening::Unsaid(len) => {
                self.spacing.end_line(false, out);
                Step::Take(len)
            }
            Opening::Fence(len, fence) => self.open_fence(len, fence, out),
            Opening::Text(len, markers) => {
                self.place = Place::Text;
                (self.heading, self.table) = (markers.heading, false);
                if let Some(number) = markers.number {
                    self.spacing.number(number, out);
                }
                Step::Take(len)
            }
        }
    }

    fn open_fence(&mut self, len: usize, fence: Fence, out: &mut impl TextSink) -> Step {
        self.end_line(out);
        self.fence = Some(fence);
        Step::Take(len)
    }

    fn fenced(&mut self, fence: Fence, rest: &str, end: bool, out: &mut impl TextSink) -> Step {
        match fence.next(rest, end) {
            Found::Yes((len, true)) => {
                self.fence = None;
                self.spacing.end_line(false, out);
                Step::Take(len)
            }
            Found::Yes((len, false)) => {
                if rest[len..].starts_with('\n') {
                    self.spacing.end_line(true, out);
                    return Step::Take(len + 1);
                }
                self.place = Place::Fenced;
                Step::Take(len)
            }
            Found::No | Found::Wait => Step::Wait,
        }
    }

    /// Writes a character of code unchanged.
    fn as_it_is(&mut self, rest: &str, out: &mut impl TextSink) -> Step {
        for (at, c) in rest.char_indices() {
            if c == '\n' {
                self.end_line(out);
                return Step::Take(at + 1);
            }
            self.spacing.write(c, out);
        }
        Step::Take(rest.len())
    }

    fn end_line(&mut self, out: &mut impl TextSink) {
        self.spacing.end_line(false, out);
        (self.place, self.before, self.open) = (Place::LineStart, None, [0; KINDS]);
    }

    fn text(&mut self, rest: &str, end: bool, out: &mut impl TextSink) -> Step {
        for (at, c) in rest.char_indices() {
            if is_mark(c) || !is_name(self.before) && begins_address(c) {
                if at > 0 {
                    return Step::Take(at);
                }
                return self.mark(c, rest, end, out);
            }
            self.say(c, out);
        }
        Step::Take(rest.len())
    }

    fn say(&mut self, c: char, out: &mut impl TextSink) {
        self.spacing.write(c, out);
        self.before = Some(c);
    }

    /// Writes one character as ordinary text.
    fn literal(&mut self, c: char, out: &mut impl TextSink) -> Step {
        self.say(c, out);
        Step::Take(c.len_utf8())
    }

    /// Drops this many bytes without output.
    fn drop(&mut self, mark: char, len: usize) -> Step {
        self.before = Some(mark);
        Step::Take(len)
    }

    fn mark(&mut self, c: char, rest: &str, end: bool, out: &mut impl TextSink) -> Step {
        match c {
            '\n' => {
                self.end_line(out);
                Step::Take(1)
            }
            '(' | '（' | '*' if self.begins_sentence() => match asides::direction(rest, end) {
                Found::Yes(len) => self.aside(len),
                Found::No if c == '*' => self.emphasis(c, rest, end, out),
                Found::No => self.face(c, rest, end, out),
                Found::Wait => Step::Wait,
            },
            '*' | '_' | '~' => self.emphasis(c, rest, end, out),
            '(' | '（' | 'ʕ' => self.face(c, rest, end, out),
            ':' | ';' if self.before.is_none_or(char::is_whitespace) => {
                self.left_out(asides::smiley(rest, end), c, out)
            }
            '^' => self.left_out(links::raised_citation(rest, end), c, out),
            '【' | '［' | '〔' => {
                let found = match self.source(rest, end) {
                    Found::No if c == '【' && self.begins_sentence() => {
                        asides::direction(rest, end)
                    }
                    found => found,
                };
                self.left_out(found, c, out)
            }
            c if asides::is_left_arm(c) => self.face(c, rest, end, out),
            '`' => self.open_code(rest, end, out),
            '[' => self.link(rest, end, out),
            '!' => self.image(rest, end, out),
            '<' => self.tag(rest, end, out),
            '&' => match tags::entity(rest, end) {
                Found::Yes((c, len)) => {
                    self.say(c, out);
                    Step::Take(len)
                }
                Found::No => self.literal(c, out),
                Found::Wait => Step::Wait,
            },
            '\\' => self.escape(rest, end, out),
            '$' => match marks::formula(rest, end) {
                Found::Yes(len) => self.formula(&rest[..len], out),
                Found::No => self.literal(c, out),
                Found::Wait => Step::Wait,
            },
            '|' => {
                self.table = true;
                self.spacing.cell(out);
                self.drop(' ', 1)
            }
            '#' if self.heading => self.heading_end(rest, end, out),
            c if begins_address(c) => match marks::address(rest, end) {
                Found::Yes(()) => {
                    self.place = Place::Address(0);
                    Step::Take(0)
                }
                Found::No => self.literal(c, out),
                Found::Wait => Step::Wait,
            },
            c => self.literal(c, out),
        }
    }

    pub(super) fn has_left_out(&self) -> bool {
        self.spacing.has_left_out()
    }

    /// Reports whether the next word starts a sentence.
    fn begins_sentence(&self) -> bool {
        self.before.is_none() || self.spacing.last().is_none_or(|c| "。！？…!?.".contains(c))
    }

    fn face(&mut self, c: char, rest: &str, end: bool, out: &mut impl TextSink) -> Step {
        self.left_out(asides::face(rest, end), c, out)
    }

    /// Drops an unspoken part, or else writes its first character.
    fn left_out(&mut self, found: Found<usize>, c: char, out: &mut impl TextSink) -> Step {
        match found {
            Found::Yes(len) => self.aside(len),
            Found::No => self.literal(c, out),
            Found::Wait => Step::Wait,
        }
    }

    /// Drops an unspoken part.
    fn aside(&mut self, len: usize) -> Step {
        self.spacing.lose();
        self.drop(')', len)
    }

    fn emphasis(&mut self, mark: char, rest: &str, end: bool, out: &mut impl TextSink) -> Step {
        let Found::Yes((len, after)) = marks::run(rest, mark, end) else { return Step::Wait };
        let kind = kind(mark, len);
        let before = self.before;
        let open = self.open[kind];
        let behind_digit = self.spacing.last().is_some_and(|c| c.is_ascii_digit());
        let run = Run { mark, len, before, after, rest: &rest[len..], open, behind_digit, end };
        let Found::Yes(does) = run.effect() else { return Step::Wait };
        match does {
            MarkEffect::Stay => {
                rest[..len].chars().for_each(|c| self.say(c, out));
                return Step::Take(len);
            }
            MarkEffect::Open => self.open[kind] = open.saturating_add(1),
            MarkEffect::Close => self.open[kind] = open - 1,
            MarkEffect::Stray => {}
        }
        self.drop(mark, len)
    }

    fn open_code(&mut self, rest: &str, end: bool, out: &mut impl TextSink) -> Step {
        let Found::Yes((len, _)) = marks::run(rest, '`', end) else { return Step::Wait };
        match blocks::fence(rest, end) {
            Found::Yes((len, fence)) => return self.open_fence(len, fence, out),
            Found::Wait => return Step::Wait,
            Found::No => {}
        }
        self.place = Place::Code(len);
        self.drop('`', len)
    }

    fn code(&mut self, run: usize, rest: &str, end: bool, out: &mut impl TextSink) -> Step {
        for (at, c) in rest.char_indices() {
            match c {
                '`' if at > 0 => return Step::Take(at),
                '`' => {
                    let Found::Yes((len, _)) = marks::run(rest, '`', end) else {
                        return Step::Wait;
                    };
                    if len == run {
                        self.place = Place::Text;
                        return self.drop('`', len);
                    }
                    rest[..len].chars().for_each(|c| self.spacing.write(c, out));
                    return Step::Take(len);
                }
                '\n' => {
                    self.end_line(out);
                    return Step::Take(at + 1);
                }
                c => self.spacing.write(c, out),
            }
        }
        Step::Take(rest.len())
    }

    fn link(&mut self, rest: &str, end: bool, out: &mut impl TextSink) -> Step {
        match self.citation(rest, end) {
            Found::Yes(len) => {
                self.spacing.lose();
                return self.drop(']', len);
            }
            Found::Wait => return Step::Wait,
            Found::No => {}
        }
        let mut unsaid = self.source(rest, end);
        if unsaid == Found::No && self.begins_sentence() {
            unsaid = asides::direction(rest, end);
        }
        match unsaid {
            Found::Yes(len) => return self.aside(len),
            Found::Wait => return Step::Wait,
            Found::No => {}
        }
        match links::footnote(rest, end) {
            Found::Yes(len) => return self.drop(']', len),
            Found::Wait => return Step::Wait,
            Found::No => {}
        }
        match links::link(rest, is_name(self.before), end) {
            Found::Yes((whole, inner)) => Step::Unwrap { whole, inner },
            Found::No => self.literal('[', out),
            Found::Wait => Step::Wait,
        }
    }

    /// Parses a citation mark such as `[1]` after words. After a name it is an index, unless the
    /// sentence ends with it.
    fn citation(&self, rest: &str, end: bool) -> Found<usize> {
        let len = match links::citation(rest, end) {
            Found::Yes(len) if self.before.is_some() => len,
            Found::Yes(_) | Found::No => return Found::No,
            Found::Wait => return Found::Wait,
        };
        match rest[len..].chars().next() {
            None if !end => Found::Wait,
            Some('(') => Found::No,
            Some('[') if is_name(self.before) => Found::No,
            Some(next) if is_name(self.before) && !matches!(next, '.' | ',' | ';' | '!' | '?') => {
                Found::No
            }
            _ => Found::Yes(len),
        }
    }

    /// Parses a mark that names a source. A number alone names one only after words and before no
    /// word.
    fn source(&self, rest: &str, end: bool) -> Found<usize> {
        let len = match links::source(rest, end) {
            Found::Yes(len) => len,
            other => return other,
        };
        let names = rest[..len].contains(|c: char| c.is_alphabetic() || c == '†');
        match rest[len..].chars().next() {
            None if !end => Found::Wait,
            Some('(') if rest.starts_with('[') => Found::No,
            next if !names
                && (self.before.is_none() || next.is_some_and(char::is_alphanumeric)) =>
            {
                Found::No
            }
            _ => Found::Yes(len),
        }
    }

    fn image(&mut self, rest: &str, end: bool, out: &mut impl TextSink) -> Step {
        match rest[1..].chars().next() {
            None if !end => Step::Wait,
            Some('[') => match links::link(&rest[1..], false, end) {
                Found::Yes((whole, inner)) => {
                    Step::Unwrap { whole: whole + 1, inner: inner.start + 1..inner.end + 1 }
                }
                Found::No => self.literal('!', out),
                Found::Wait => Step::Wait,
            },
            _ => self.literal('!', out),
        }
    }

    fn tag(&mut self, rest: &str, end: bool, out: &mut impl TextSink) -> Step {
        match tags::tag(rest, end) {
            Found::Yes(Tag::Silent(len)) => self.drop('>', len),
            Found::Yes(Tag::Cell(len)) => {
                self.table = true;
                self.spacing.cell(out);
                self.drop(' ', len)
            }
            Found::Yes(Tag::Break(len)) if self.table => {
                self.spacing.space(out);
                self.drop(' ', len)
            }
            Found::Yes(Tag::Break(len) | Tag::Block(len)) => {
                self.table = false;
                self.spacing.end_line(false, out);
                self.drop(' ', len)
            }
            Found::Yes(Tag::Address(len)) => Step::Unwrap { whole: len, inner: 1..len - 1 },
            Found::No => self.literal('<', out),
            Found::Wait => Step::Wait,
        }
    }

    fn escape(&mut self, rest: &str, end: bool, out: &mut impl TextSink) -> Step {
        match rest[1..].chars().next() {
            None if !end => Step::Wait,
            Some('(' | '[') => match marks::bracketed_formula(rest, end) {
                Found::Yes(len) => self.formula(&rest[..len], out),
                Found::No => self.literal_escape(rest, out),
                Found::Wait => Step::Wait,
            },
            Some(c) if c.is_ascii_punctuation() => self.literal_escape(rest, out),
            Some(c) if c.is_ascii_alphabetic() => match marks::command(rest, end) {
                Found::Yes(len) if rest.starts_with(r"\begin") || rest.starts_with(r"\end") => {
                    self.drop('}', len)
                }
                Found::Yes(len) => self.formula(&rest[..len], out),
                Found::No => self.literal('\\', out),
                Found::Wait => Step::Wait,
            },
            Some('\n') => Step::Take(1),
            _ => self.literal('\\', out),
        }
    }

    /// Writes the character after a backslash.
    fn literal_escape(&mut self, rest: &str, out: &mut impl TextSink) -> Step {
        rest[1..].chars().take(1).for_each(|c| self.say(c, out));
        Step::Take(2)
    }

    /// Writes a formula without its delimiters.
    fn formula(&mut self, written: &str, out: &mut impl TextSink) -> Step {
        let inner = written.trim_matches('$');
        let inner =
            inner.strip_prefix(r"\(").or_else(|| inner.strip_prefix(r"\[")).unwrap_or(inner);
        let inner =
            inner.strip_suffix(r"\)").or_else(|| inner.strip_suffix(r"\]")).unwrap_or(inner);
        formula::plain(inner).chars().for_each(|c| self.say(c, out));
        Step::Take(written.len())
    }

    /// Handles `#` at the end of a heading, which closes it.
    fn heading_end(&mut self, rest: &str, end: bool, out: &mut impl TextSink) -> Step {
        let Found::Yes((len, _)) = marks::run(rest, '#', end) else { return Step::Wait };
        let mut behind = rest[len..].chars().take(marks::RUN_MAX);
        if self.before.is_some_and(|c| !c.is_whitespace()) {
            return self.literal('#', out);
        }
        match behind.find(|c| *c == '\n' || !c.is_whitespace()) {
            None if !end && rest[len..].chars().count() < marks::RUN_MAX => Step::Wait,
            None | Some('\n') => self.drop('#', len),
            Some(_) => self.literal('#', out),
        }
    }

    fn address(&mut self, depth: usize, rest: &str, end: bool, out: &mut impl TextSink) -> Step {
        let mut depth = depth;
        for (at, c) in rest.char_indices() {
            self.place = Place::Address(depth);
            let ends = match c {
                '*' | '_' | '~' => {
                    let Found::Yes((len, after)) = marks::run(&rest[at..], c, end) else {
                        return if at > 0 { Step::Take(at) } else { Step::Wait };
                    };
                    let open = self.open[kind(c, len)] > 0;
                    open && len > 1 || (open || c == '*') && !marks::goes_on(after)
                }
                '(' => {
                    depth += 1;
                    false
                }
                ')' if depth > 0 => {
                    depth -= 1;
                    false
                }
                c => c == ')' || marks::ends_address(c),
            };
            if ends {
                self.place = Place::Text;
                return Step::Take(at);
            }
            self.say(c, out);
        }
        self.place = Place::Address(depth);
        Step::Take(rest.len())
    }
}

/// Returns the index in [`Writer::open`] for runs of this mark: single or longer asterisks,
/// underscores and tildes.
fn kind(mark: char, len: usize) -> usize {
    let mark = match mark {
        '*' => 0,
        '_' => 1,
        _ => 2,
    };
    2 * mark + usize::from(len > 1)
}

fn is_name(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_ascii_alphanumeric())
}

/// Reports whether this character can be a mark.
fn is_mark(c: char) -> bool {
    matches!(
        c,
        '\n' | '*'
            | '_'
            | '~'
            | '`'
            | '['
            | '!'
            | '<'
            | '&'
            | '\\'
            | '$'
            | '|'
            | '#'
            | '('
            | '（'
            | ':'
            | ';'
            | '^'
            | '【'
            | '［'
            | '〔'
            | 'ʕ'
    ) || asides::is_left_arm(c)
}

/// Reports whether an address can start with this letter.
fn begins_address(c: char) -> bool {
    matches!(c.to_ascii_lowercase(), 'h' | 'w' | 'f' | 'm')
}
