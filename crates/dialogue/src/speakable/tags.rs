//! Parses HTML in answers: tags, comments, entities, and addresses in angle brackets. Only known
//! HTML names are tags: `Vec<String>` and `<your name>` are text.

use super::{Found, Line};

/// Maximum length of a tag, in characters.
const TAG_MAX: usize = 256;
/// Maximum length of an entity, in bytes.
const ENTITY_MAX: usize = 12;

/// Tags that end a line, but not a table row.
const BREAKS: &str = "br div li ol p ul";

/// Tags that end a line or row.
const BLOCKS: &str = "blockquote h1 h2 h3 h4 h5 h6 hr table tr";

/// Tags that open or close a table cell.
const CELLS: &str = "td th";

/// Tags that are removed without a trace. The last ones are not HTML, but models write them.
const TAGS: &str = "a abbr b big body center cite code dd del details dl dt em font html i img ins \
    kbd mark pre q s samp small span strike strong sub summary sup tbody thead tt u var \
    answer think thinking speak laugh laughs laughter sigh chuckle cough breath gasp pause script style";

/// SSML tags that are removed without a trace; vendor tags have a prefix.
const SSML: &str = "break prosody emphasis phoneme voice audio lang say-as express-as par seq media token \
    amazon:effect amazon:domain mstts:express-as mstts:silence google:style";

const ENTITIES: [(&str, char); 24] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("ensp", ' '),
    ("emsp", ' '),
    ("thinsp", ' '),
    ("hellip", '…'),
    ("mdash", '—'),
    ("ndash", '–'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("middot", '·'),
    ("times", '×'),
    ("divide", '÷'),
    ("deg", '°'),
    ("plusmn", '±'),
    ("yen", '¥'),
    ("euro", '€'),
    ("pound", '£'),
];

/// Content of angle brackets, with its length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    /// Tag or comment that is removed without a trace.
    Silent(usize),
    /// Tag that ends a line, but not a table row.
    Break(usize),
    /// Tag that ends a line or row.
    Block(usize),
    /// Tag of a table cell.
    Cell(usize),
    /// Address, which is spoken.
    Address(usize),
}

/// Parses the tag that opens with `<`.
pub(super) fn tag(rest: &str, end: bool) -> Found<Tag> {
    let line = Line::of(rest, TAG_MAX, end);
    let inside = &line.text[1..];
    if inside.starts_with("!--") {
        return match inside.find("-->") {
            Some(at) => Found::Yes(Tag::Silent(1 + at + 3)),
            None => Found::ran_out(line.known),
        };
    }
    // `<#0.5#>` is a pause for some synthesisers.
    if let Some(pause) = inside.strip_prefix('#') {
        let behind = pause.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let seconds = pause.len() - behind.len();
        return match behind {
            "" | "#" => Found::ran_out(line.known),
            _ if seconds > 0 && behind.starts_with("#>") => Found::Yes(Tag::Silent(seconds + 4)),
            _ => Found::No,
        };
    }
    if "!--".starts_with(inside) {
        return Found::ran_out(line.known);
    }
    let closing = inside.strip_prefix('/').unwrap_or(inside);
    let is_part = |c: char| c.is_ascii_alphanumeric();
    let is_joined = |c: char| is_part(c) || matches!(c, '-' | ':');
    let joined = &closing[..closing.len() - closing.trim_start_matches(is_joined).len()];
    if joined.contains(['-', ':']) && joined.len() == closing.len() {
        return Found::ran_out(line.known);
    }
    if SSML.split(' ').any(|name| name.contains(['-', ':']) && name == joined) {
        return element(joined, &closing[joined.len()..], &line);
    }
    let name_len = closing.len() - closing.trim_start_matches(is_part).len();
    let (name, behind) = closing.split_at(name_len);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return if closing.is_empty() { Found::ran_out(line.known) } else { Found::No };
    }
    match behind.chars().next() {
        None => Found::ran_out(line.known),
        Some(':' | '@' | '.' | '_' | '+' | '-') => address(inside, line.known),
        Some(c) if c.is_whitespace() || matches!(c, '/' | '>') => element(name, behind, &line),
        Some(_) => Found::No,
    }
}

fn element(name: &str, behind: &str, line: &Line<'_>) -> Found<Tag> {
    let listed = |names: &str| names.split(' ').any(|n| n.eq_ignore_ascii_case(name));
    let tag = if listed(BREAKS) {
        Tag::Break
    } else if listed(BLOCKS) {
        Tag::Block
    } else if listed(CELLS) {
        Tag::Cell
    } else if listed(TAGS) || listed(SSML) {
        Tag::Silent
    } else {
        return Found::No;
    };
    match behind.find(['>', '<']) {
        None => Found::ran_out(line.known),
        Some(close) if behind[close..].starts_with('>') => {
            let attributes = behind[..close].trim_end_matches('/').trim();
            let len = line.text.len() - behind.len() + close + 1;
            let is_time =
                listed("break pause") && attributes.starts_with(|c: char| c.is_ascii_digit());
            if attributes.is_empty() || attributes.contains('=') || is_time {
                Found::Yes(tag(len))
            } else {
                Found::No
            }
        }
        Some(_) => Found::No,
    }
}

/// Parses a web or mail address, up to its bracket.
fn address(inside: &str, known: bool) -> Found<Tag> {
    match inside.find(|c: char| c.is_whitespace() || matches!(c, '<' | '>')) {
        None => Found::ran_out(known),
        Some(at) if inside[at..].starts_with('>') && inside[..at].contains([':', '@']) => {
            Found::Yes(Tag::Address(at + 2))
        }
        Some(_) => Found::No,
    }
}

/// Parses an entity that opens with `&`. Returns its character and its length in bytes.
pub(super) fn entity(rest: &str, end: bool) -> Found<(char, usize)> {
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            ';' => return named(&rest[1..at]).map_or(Found::No, |c| Found::Yes((c, at + 1))),
            '#' if at == 1 => {}
            c if c.is_ascii_alphanumeric() && at < ENTITY_MAX => {}
            _ => return Found::No,
        }
    }
    Found::ran_out(end)
}

fn named(name: &str) -> Option<char> {
    let Some(number) = name.strip_prefix('#') else {
        return ENTITIES.iter().find(|(known, _)| *known == name).map(|(_, c)| *c);
    };
    let code = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => number.parse(),
    };
    char::from_u32(code.ok()?)
}
