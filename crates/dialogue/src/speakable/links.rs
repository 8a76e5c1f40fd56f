//! Parses links, images, footnotes and definitions in brackets: their ends and their spoken part.
//! Not for bare addresses.

use std::ops::Range;

use super::{Found, Line};

/// Maximum length of a link's text, in characters.
const TEXT_MAX: usize = 256;
/// Maximum length of a link's target and title, in characters.
const TARGET_MAX: usize = 1024;
/// Maximum length of a footnote's label, in characters.
const LABEL_MAX: usize = 32;

/// Maximum length of a citation mark, in bytes.
const CITATION_MAX: usize = 24;

/// Maximum length of a mark that names a source, in bytes.
const SOURCE_MAX: usize = 40;
/// Words before a source's number.
const SOURCES: [&str; 8] = ["citation", "cite", "webpage", "source", "ref", "来源", "引用", "网页"];

/// Prefixes of addresses in link definitions.
const ADDRESSES: [&str; 5] = ["http://", "https://", "www.", "mailto:", "<"];

/// Kinds of definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Definition {
    /// Target of a link: the whole line.
    Link,
    /// Text of a footnote, after this number of bytes.
    Footnote(usize),
}

/// Parses a link that opens with `[`. Returns its length and the range of its text, in bytes. After
/// a name, `[i][j]` are indices.
pub(super) fn link(rest: &str, behind_name: bool, end: bool) -> Found<(usize, Range<usize>)> {
    let close = match closing(rest, TEXT_MAX, end) {
        Found::Yes(close) => close,
        Found::No => return Found::No,
        Found::Wait => return Found::Wait,
    };
    let behind = &rest[close + 1..];
    let target = match behind.chars().next() {
        None => return Found::ran_out(end),
        Some('(') => target(behind, end),
        // Two citations, `[1][2]`, are not a link.
        Some('[') if !behind_name && rest[1..close].contains(|c: char| !c.is_ascii_digit()) => {
            closing(behind, TEXT_MAX, end).map(|close| close + 1)
        }
        Some(_) => return Found::No,
    };
    target.map(|len| (close + 1 + len, 1..close))
}

/// Parses a citation mark such as `[1]`, `[1, 2]` or `[2-4]`. Returns its length in bytes.
pub(super) fn citation(rest: &str, end: bool) -> Found<usize> {
    let mut before = '[';
    for (at, c) in rest.char_indices().skip(1) {
        let fits = match c {
            ']' => return if before.is_ascii_digit() { Found::Yes(at + 1) } else { Found::No },
            '1'..='9' => true,
            '0' => before.is_ascii_digit(),
            ',' | '，' | '、' | '-' | '–' => before.is_ascii_digit(),
            ' ' => matches!(before, ',' | '，' | '、'),
            _ => false,
        };
        if !fits || at > CITATION_MAX {
            return Found::No;
        }
        before = c;
    }
    Found::ran_out(end)
}

/// Parses a citation mark between circumflexes, `^[1]^`. Returns its length in bytes.
pub(super) fn raised_citation(rest: &str, end: bool) -> Found<usize> {
    let len = match rest[1..].chars().next() {
        None => return Found::ran_out(end),
        Some('[') => match citation(&rest[1..], end) {
            Found::Yes(len) => len + 1,
            other => return other,
        },
        Some(_) => return Found::No,
    };
    match rest[len..].chars().next() {
        None => Found::ran_out(end),
        Some('^') => Found::Yes(len + 1),
        Some(_) => Found::No,
    }
}

/// Parses a mark that names a source by its number, in brackets of any script: `【1】`,
/// `【4:0†source】`, `[citation:1]`. Returns its length in bytes.
pub(super) fn source(rest: &str, end: bool) -> Found<usize> {
    let Some(open) = rest.chars().next() else { return Found::ran_out(end) };
    let close = match open {
        '[' => ']',
        '【' => '】',
        '［' => '］',
        '〔' => '〕',
        _ => return Found::No,
    };
    for (at, c) in rest.char_indices().skip(1) {
        if c == close {
            let is_source = is_source(&rest[open.len_utf8()..at], open != '[');
            return if is_source { Found::Yes(at + c.len_utf8()) } else { Found::No };
        }
        if c == '\n' || at > SOURCE_MAX {
            return Found::No;
        }
    }
    Found::ran_out(end)
}

/// Reports whether this names a source. A number alone names one only in `plain` brackets.
fn is_source(inner: &str, plain: bool) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if let Some((number, _)) = inner.split_once('†') {
        return number.split(':').all(is_number);
    }
    let lower = inner.to_lowercase();
    let behind = SOURCES.iter().find_map(|word| lower.strip_prefix(word));
    match behind {
        Some(number) => is_number(number.trim_start_matches([':', '：', '_', '-', ' '])),
        None => plain && is_number(inner),
    }
}

/// Parses a footnote's mark such as `[^1]`. Returns its length in bytes.
pub(super) fn footnote(rest: &str, end: bool) -> Found<usize> {
    for (at, c) in rest.char_indices() {
        match (at, c) {
            (0, '[') | (1, '^') => {}
            (3.., ']') => return Found::Yes(at + 1),
            (2.., c) if c.is_alphanumeric() && at < LABEL_MAX => {}
            _ => return Found::No,
        }
    }
    Found::ran_out(end)
}

/// Parses the definition in the line with this body.
pub(super) fn definition(body: &str, line: &Line<'_>) -> Found<Definition> {
    if !body.starts_with('[') {
        return Found::No;
    }
    if let Found::Yes(len) = footnote(body, line.known) {
        return match body[len..].chars().next() {
            Some(':') => Found::Yes(Definition::Footnote(len + 1)),
            None => Found::ran_out(line.known),
            Some(_) => Found::No,
        };
    }
    let close = match closing(body, LABEL_MAX, line.known) {
        Found::Yes(close) => close,
        Found::No => return Found::No,
        Found::Wait => return Found::Wait,
    };
    let Some(target) = body[close + 1..].strip_prefix(':') else {
        return if close + 1 == body.len() { Found::ran_out(line.known) } else { Found::No };
    };
    let target = target.trim();
    let (address, title) = target.split_once(char::is_whitespace).unwrap_or((target, ""));
    let quoted = title.is_empty() || title.trim_start().starts_with(['"', '\'', '(']);
    let begun = ADDRESSES.iter().any(|a| a.starts_with(address));
    match ADDRESSES.iter().any(|a| address.starts_with(a)) {
        true if quoted && line.ended => Found::Yes(Definition::Link),
        true if quoted => Found::ran_out(line.known),
        false if begun && title.is_empty() => Found::ran_out(line.known),
        _ => Found::No,
    }
}

/// Returns the position of the bracket that closes the one at the start, in bytes. Brackets nest. A
/// line end stops the search, as does a text of more than `most` characters.
fn closing(rest: &str, most: usize, end: bool) -> Found<usize> {
    let mut depth = 0;
    let mut escaped = false;
    for (count, (at, c)) in rest.char_indices().enumerate() {
        match c {
            '\n' => return Found::No,
            _ if count > most => return Found::No,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => depth += 1,
            ']' => {
                depth -= 1;
                if depth == 0 {
                    return Found::Yes(at);
                }
            }
            _ => {}
        }
    }
    Found::ran_out(end)
}

/// Parses a target in round brackets, with an optional title in quotes. Returns its length in
/// bytes.
fn target(rest: &str, end: bool) -> Found<usize> {
    /// Position within a target.
    enum At {
        Address,
        /// Inside angle brackets.
        Angle,
        Gap,
        Title(char),
    }
    let mut place = At::Address;
    let mut depth = 0usize;
    for (count, (at, c)) in rest.char_indices().enumerate() {
        if c == '\n' || count > TARGET_MAX {
            return Found::No;
        }
        place = match (place, c) {
            (At::Address, '(') => {
                depth += 1;
                At::Address
            }
            (At::Address, ')') if depth > 1 => {
                depth -= 1;
                At::Address
            }
            (At::Address | At::Gap, ')') => return Found::Yes(at + 1),
            (At::Address, '<') if at == 1 => At::Angle,
            (At::Address, c) if c.is_whitespace() && at > 1 => At::Gap,
            (At::Angle, '>') => At::Address,
            (At::Gap, '"' | '\'') => At::Title(c),
            (At::Gap, c) if !c.is_whitespace() => return Found::No,
            (At::Title(quote), c) if c == quote => At::Gap,
            (place, _) => place,
        };
    }
    Found::ran_out(end)
}
