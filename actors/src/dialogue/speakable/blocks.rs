//! How a line opens: quotes, headings, bullets, numbers, boxes to tick, fences of code, rules and
//! definitions of links. Lenient where models are: `##标题` is a heading. Not for what stands in
//! the line.

use super::links::{Definition, definition};
use super::{Found, Line};

/// A line that is all rule or markers so far is looked at no further, in characters.
const REACH: usize = 256;
/// Longer words behind the marks of a fence are no language's name, in bytes.
const LANGUAGE_MAX: usize = 32;

/// How a line opens, with the bytes that this takes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Opening<'a> {
    /// Nothing stands in it, its newline included.
    Blank(usize),
    /// Nothing of it is said: a rule, a table's separator, a definition; its newline included.
    Unsaid(usize),
    /// Code follows; the newline included.
    Fence(usize, Fence),
    /// Text follows.
    Text(usize, Markers<'a>),
}

/// The marks that open and close lines of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence {
    mark: char,
    run: usize,
    /// The fence stands in a quote.
    quoted: bool,
}

/// What stood before the text of a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Markers<'a> {
    /// The number of a list's item.
    pub(super) number: Option<&'a str>,
    pub(super) heading: bool,
    /// A bullet or number, so that a box to tick can follow.
    item: bool,
}

/// How the line that begins here opens; none where more of it must be seen.
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

/// Rules, and the separators of tables.
fn is_rule(c: char) -> bool {
    matches!(c, '|' | '-' | ':' | '*' | '_' | '=') || c.is_whitespace()
}

/// The text without white space and marks of quotes before it. `>=` compares.
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

/// Marks of a fence with a language's name at most, up to the end of the line and over its
/// newline.
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
    /// Where the next line of code begins (none where the fence closes), with the bytes before
    /// it, or the closing line's.
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

/// The markers that open a line, and their bytes; none where more must be seen.
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

/// The marker that stands here, in bytes.
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

/// A box to tick, `[ ]` or `[x]`.
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

/// A number of at most three digits with its full stop or bracket.
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
