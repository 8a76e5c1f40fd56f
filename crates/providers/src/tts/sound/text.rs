//! Detection of text, such as an error message, in place of samples, in any script. Not for its
//! content.
//!
//! Samples are not text: quiet ones have the high byte 00 or FF, which text does not contain, and
//! loud ones do not stay above 8,192 with low bytes that are letters. Only a constant value may,
//! such as a square wave of 20,000: text must also be varied.

/// Number of bytes after which an answer is decided at the latest.
const LONGEST: usize = 256;
/// Number of leading ASCII letters that are never samples.
const LETTERS: usize = 32;
/// The same after a character that opens JSON, XML or HTML.
pub(super) const OPENED: usize = 16;
/// Number of leading bytes of text in any script that are never samples.
const ANY_SCRIPT: usize = 64;
/// Number of different bytes that samples of a constant value never have.
const VARIED: usize = 8;
/// Minimum size of a whole answer that is text, in bytes, and its number of different bytes.
const SHORTEST: usize = 4;
const SHORT_VARIED: usize = 3;
/// Number of UTF-16 units after the byte-order mark that are not samples if all are ASCII letters,
/// and the number for a whole answer.
const UNITS: usize = 16;
const SHORTEST_UNITS: usize = 4;

/// Reports whether an answer that starts with these bytes is text; none if undecided. `end`: there
/// are no more bytes.
pub(super) fn is_text(bytes: &[u8], end: bool) -> Option<bool> {
    let head = &bytes[..bytes.len().min(LONGEST)];
    match is_utf16(head, end) {
        Some(false) => {}
        told => return told,
    }
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let letters = head.iter().take_while(|byte| is_letter(**byte)).count();
    let text = text_length(head);
    let different = different(&head[..text]);
    let enough = if opens(head) { OPENED } else { LETTERS };
    if different >= VARIED && (letters >= enough || text >= ANY_SCRIPT) {
        return Some(true);
    }
    if text < head.len() || bytes.len() >= LONGEST {
        return Some(false);
    }
    end.then_some(head.len() >= SHORTEST && different >= SHORT_VARIED)
}

/// Reports whether a later piece of an answer is text such as JSON or HTML. Pieces are many, and
/// some start loud: fewer letters than [`LETTERS`] count only if there are no more bytes.
pub(super) fn opens_text(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(LETTERS)];
    let is_text = || text_length(head) == head.len() && different(head) >= VARIED;
    head.len() >= OPENED && opens(head) && is_text()
}

/// Reports whether JSON, XML, HTML or an HTTP response may start here.
fn opens(bytes: &[u8]) -> bool {
    let bytes = bytes.trim_ascii_start();
    bytes.starts_with(b"HTTP/") || bytes.first().is_some_and(|byte| b"{[<".contains(byte))
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte.is_ascii_whitespace()
}

/// Like [`is_text`], for UTF-16 with a byte-order mark.
fn is_utf16(head: &[u8], end: bool) -> Option<bool> {
    let is_little = match head {
        [0xff, 0xfe, ..] => true,
        [0xfe, 0xff, ..] => false,
        _ => return Some(false),
    };
    let mut units = head[2..].chunks_exact(2).take(UNITS);
    let count = units.len();
    let is_ascii = |unit: &[u8]| {
        let unit = [unit[0], unit[1]];
        let unit = if is_little { u16::from_le_bytes(unit) } else { u16::from_be_bytes(unit) };
        u8::try_from(unit).is_ok_and(is_letter)
    };
    if !units.all(is_ascii) {
        return Some(false);
    }
    match count {
        UNITS => Some(true),
        _ => end.then_some(count >= SHORTEST_UNITS),
    }
}

/// Returns the number of leading bytes that are UTF-8 without control characters. The last
/// character may be incomplete.
fn text_length(bytes: &[u8]) -> usize {
    let (valid, incomplete) = match std::str::from_utf8(bytes) {
        Ok(_) => (bytes.len(), 0),
        Err(error) if error.error_len().is_none() => {
            (error.valid_up_to(), bytes.len() - error.valid_up_to())
        }
        Err(error) => (error.valid_up_to(), 0),
    };
    let text = std::str::from_utf8(&bytes[..valid]).unwrap_or_default();
    let is_control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    text.find(is_control).unwrap_or(valid + incomplete)
}

/// Returns the number of different bytes.
fn different(bytes: &[u8]) -> usize {
    let mut seen = [false; 256];
    bytes.iter().filter(|byte| !std::mem::replace(&mut seen[usize::from(**byte)], true)).count()
}
