//! Parses the start of a line: quotes, headings, bullets, numbers, checkboxes, code fences, rules
//! and link definitions. Accepts what models write: `##标题` is a heading. Not for the rest of the
//! line.

use super::links::{Definition, definition};
use super::{Found, Line};

/// Maximum look-ahead in a line of only rules or markers, in characters.
const REACH: usize = 256;
/// Maximum length of a fence's language name, in bytes.
const LANGUAGE_MAX: usize = 32;

/// Start of a line, with its length in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Opening<'a> {
    /// Blank line, its newline included.
    Blank(usize),
    /// Line that is not spoken: a rule, a table's separator or a definition. Its newline is
    /// included.
    Unsaid(usize),
    /// Start of code, its newline included.
    Fence(usize, Fence),
    /// Start of text.
    Text(usize, Markers<'a>),
}

/// Marks that open and close a code block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence {
    mark: char,
    run: usize,
    /// Set if the fence is in a quote.
    quoted: bool,
}

/// Markers before the text of a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Markers<'a> {
    /// Number of a list item.
    pub(super) number: Option<&'a str>,
    pub(super) heading: bool,
    /// Set for a bullet or number, which a checkbox may follow.
    item: bool,
}

/// Parses the start of the line at `rest`. Returns `None` if more text is needed.
pub(super) fn open(rest: &str, end: bool) -> Option<Opening<'_>> {
    let line = Line::of(rest, REACH, end);
    let start = line.text.len() - unquoted(line.text).len();
    let body = &line.text[start..];
    let whole = line.text.len() + line.newline;
    if body.is_empty() {
        return line.known.then_some(Opening::Blank(whole));
    }
    let quoted = line.text[..start].contains('>');
    match fence(&rest[start..], end) {
        Found::Yes((len, fence)) => {
            return Some(Opening::Fence(start + len, Fence { quoted, ..fence }));
        }
        Found::Wait => return None,
        Found::No => {}
    }
    if body.chars().all(is_rule) {
        if !line.known {
            return None;
        }
        if body.trim_end().len() >= 3 {
            return Some(Opening::Unsaid(whole));
        }
    }
    match definition(body, &line) {
        Found::Yes(Definition::Link) => return Some(Opening::Unsaid(whole)),
        Found::Yes(Definition::Footnote(len)) => {
            return Some(Opening::Text(start + len, Markers::default()));
        }
        Found::Wait => return None,
        Found::No => {}
    }
    let (len, markers) = markers(body, line.known)?;
    Some(Opening::Text(start + len, markers))
}

/// Reports whether `c` can be part of a rule or of a table's separator.
fn is_rule(c: char) -> bool {
    matches!(c, '|' | '-' | ':' | '*' | '_' | '=') || c.is_whitespace()
}

/// Returns the text without leading white space and quote marks. `>=` is a comparison, not a quote.
fn unquoted(text: &str) -> &str {
    let mut text = text.trim_start();
    while let Some(inner) = text.strip_prefix('>') {
        if inner.starts_with('=') {
            break;
        }
        text = inner.trim_start();
    }
    text
}

/// Parses a fence with an optional language name, up to the end of the line and its newline.
pub(super) fn fence(rest: &str, end: bool) -> Found<(usize, Fence)> {
    let line = Line::of(rest, REACH, end);
    let Some(mark @ ('`' | '~')) = line.text.chars().next() else { return Found::No };
    let behind = line.text.trim_start_matches(mark);
    let run = line.text.len() - behind.len();
    if run < 3 {
        return if behind.is_empty() { Found::ran_out(line.known) } else { Found::No };
    }
    let (name, settings) = match behind.trim().split_once(char::is_whitespace) {
        Some((name, settings)) => (name, settings),
        None => (behind.trim(), ""),
    };
    let is_name = name.len() <= LANGUAGE_MAX && name.is_ascii();
    if !is_name || behind.contains(['`', '~']) {
        return Found::No;
    }
    if !line.ended {
        return Found::ran_out(line.known);
    }
    if !settings.is_empty() && !settings.contains('=') {
        return Found::No;
    }
    Found::Yes((line.text.len() + line.newline, Fence { mark, run, quoted: false }))
}

impl Fence {
    /// Returns the length of the text to skip, and whether it is the line that closes the fence. If
    /// not, the next line of code starts after it.
    pub(super) fn next(self, rest: &str, end: bool) -> Found<(usize, bool)> {
        let line = Line::of(rest, REACH, end);
        let text = if self.quoted { unquoted(line.text) } else { line.text.trim_start() };
        let marks = text.trim_end();
        if marks.chars().all(|c| c == self.mark) {
            if !line.known {
                return Found::Wait;
            }
            if marks.chars().count() >= self.run {
                return Found::Yes((line.text.len() + line.newline, true));
            }
        }
        Found::Yes((line.text.len() - text.len(), false))
    }
}

/// Parses the markers at the start of a line, with their length in bytes. Returns `None` if more
/// text is needed.
fn markers(body: &str, known: bool) -> Option<(usize, Markers<'_>)> {
    let mut markers = Markers::default();
    let mut at = 0;
    loop {
        let here = body[at..].trim_start();
        at = body.len() - here.len();
        match marker(here, &mut markers, known) {
            Found::Yes(len) => at += len,
            Found::No => return Some((at, markers)),
            Found::Wait => return None,
        }
    }
}

/// Returns the length of the marker at `here`, in bytes.
fn marker<'a>(here: &'a str, markers: &mut Markers<'a>, known: bool) -> Found<usize> {
    let Some(first) = here.chars().next() else { return Found::ran_out(known) };
    match first {
        '>' if markers.item => quote(here, known),
        '#' if !markers.heading => {
            let found = heading(here, known);
            markers.heading |= matches!(found, Found::Yes(_));
            found
        }
        '-' | '*' | '+' | '•' | '·' | '–' if !markers.heading && markers.number.is_none() => {
            let found = bullet(here, first.len_utf8(), known);
            markers.item |= matches!(found, Found::Yes(_));
            found
        }
        '[' if markers.item => tick(here, known),
        '0'..='9' if markers.number.is_none() => {
            let found = number(here, known);
            if let Found::Yes(len) = found {
                markers.number = Some(&here[..len - 1]);
                markers.item = true;
            }
            found
        }
        _ => Found::No,
    }
}

fn quote(here: &str, known: bool) -> Found<usize> {
    match here[1..].chars().next() {
        None => {
            if known {
                Found::Yes(1)
            } else {
                Found::Wait
            }
        }
        Some('=') => Found::No,
        Some(_) => Found::Yes(1),
    }
}

fn heading(here: &str, known: bool) -> Found<usize> {
    let text = here.trim_start_matches('#');
    let run = here.len() - text.len();
    match text.chars().next() {
        None if !known => Found::Wait,
        _ if run > 6 => Found::No,
        Some(next) if !next.is_whitespace() && run == 1 => Found::No,
        _ => Found::Yes(run),
    }
}

fn bullet(here: &str, len: usize, known: bool) -> Found<usize> {
    match here[len..].chars().next() {
        None if !known => Found::Wait,
        Some(next) if !next.is_whitespace() => Found::No,
        _ => Found::Yes(len),
    }
}

/// Parses a checkbox, `[ ]` or `[x]`.
fn tick(here: &str, known: bool) -> Found<usize> {
    let mut chars = here.chars().skip(1);
    for fits in [|c| matches!(c, ' ' | 'x' | 'X'), |c| c == ']', char::is_whitespace] {
        match chars.next() {
            None => return Found::ran_out(known),
            Some(c) if !fits(c) => return Found::No,
            Some(_) => {}
        }
    }
    Found::Yes(3)
}

/// Parses a number of at most three digits with its full stop or bracket.
fn number(here: &str, known: bool) -> Found<usize> {
    let digits = here.len() - here.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mut behind = here[digits..].chars();
    if digits > 3 {
        return Found::No;
    }
    match (behind.next(), behind.next()) {
        (None, _) | (Some('.' | ')'), None) => Found::ran_out(known),
        (Some('.' | ')'), Some(next))
            if next.is_whitespace() || next == '*' || !next.is_ascii() =>
        {
            Found::Yes(digits + 1)
        }
        _ => Found::No,
    }
}
