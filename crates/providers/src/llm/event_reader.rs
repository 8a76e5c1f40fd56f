//! Reader of a model's answer as it arrives: the data of server-sent events, with leniency for
//! servers that only resemble the standard. Not for the meaning of the data.
//!
//! - Data are JSON or one word, such as `[DONE]`. A value is complete at its last closing bracket:
//!   some servers omit the empty line between events or at the end, write several values in one
//!   event, or one value in several lines.
//! - Lines that are JSON are data too: some servers answer without a stream, or with one value per
//!   line.
//! - A byte-order mark, half a character, and other fields and comments of the standard are not
//!   data.

use std::collections::VecDeque;

/// Maximum length of a line, in bytes: a whole answer fits.
const MAX_LINE_BYTES: usize = 256 << 10;

/// A line of the answer exceeds the maximum length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineTooLong;

/// Reader of the data of an answer that arrives in pieces.
#[derive(Default)]
pub(super) struct EventReader {
    line: Vec<u8>,
    /// True after a carriage return; a line feed there is its second half.
    after_return: bool,
    /// True after the first line.
    begun: bool,
    /// Incomplete value.
    value: String,
    /// True if the value is on lines of its own, and not in the lines of events.
    is_bare: bool,
    brackets: Brackets,
    ready: VecDeque<String>,
}

impl EventReader {
    /// Reads the next piece.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), LineTooLong> {
        for part in piece.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (content, end) = match part.split_last() {
                Some((end @ (b'\n' | b'\r'), content)) => (content, Some(*end)),
                _ => (part, None),
            };
            if self.line.len() + content.len() > MAX_LINE_BYTES {
                return Err(LineTooLong);
            }
            let second_half = end == Some(b'\n') && self.after_return && content.is_empty();
            self.after_return = end == Some(b'\r');
            self.line.extend_from_slice(content);
            if end.is_some() && !second_half {
                self.end_line();
            }
        }
        Ok(())
    }

    /// Reads what is left at the end of the answer.
    pub(super) fn finish(&mut self) {
        self.end_line();
        self.end_value();
    }

    /// Returns the next data.
    pub(super) fn next(&mut self) -> Option<String> {
        self.ready.pop_front()
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = if self.begun { &line } else { line.trim_start_matches('\u{feff}') };
        self.begun |= !line.is_empty();
        if line.trim().is_empty() {
            // An empty line ends an event, whatever is in it.
            if !(self.is_bare && self.brackets.are_open()) {
                self.end_value();
            }
        } else if let Some(mut data) = line.strip_prefix("data:") {
            // Some proxies wrap an event in another one.
            while let Some(inner) = data.trim_start().strip_prefix("data:") {
                data = inner;
            }
            self.add(data.strip_prefix(' ').unwrap_or(data), false);
        } else if (self.is_bare && self.brackets.are_open())
            || line.trim_start().starts_with(['{', '['])
        {
            self.add(line, true);
        }
    }

    /// Adds a line of data, on its own or from an event.
    fn add(&mut self, line: &str, is_bare: bool) {
        // The start of a value completes a word before it.
        if !self.brackets.are_open()
            && (line.trim_start().starts_with(['{', '[']) || line.trim() == "[DONE]")
        {
            self.end_value();
        }
        self.is_bare = is_bare;
        if !self.value.is_empty() {
            self.value.push('\n');
        }
        let mut from = 0;
        for (at, byte) in line.bytes().enumerate() {
            if self.brackets.closes(byte) {
                // A bracket is one byte, and not part of another character.
                self.value.push_str(&line[from..=at]);
                from = at + 1;
                self.end_value();
            }
        }
        let rest = &line[from..];
        if !rest.trim().is_empty() {
            self.value.push_str(rest);
        }
    }

    fn end_value(&mut self) {
        self.brackets = Brackets::default();
        self.is_bare = false;
        let value = std::mem::take(&mut self.value);
        let value = value.trim();
        if !value.is_empty() {
            self.ready.push_back(value.to_owned());
        }
    }
}

/// Brackets of a JSON value that are open.
#[derive(Default)]
struct Brackets {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Brackets {
    fn are_open(&self) -> bool {
        self.depth > 0
    }

    /// Reads the next byte. Returns true if it closes the last bracket.
    fn closes(&mut self, byte: u8) -> bool {
        if std::mem::take(&mut self.escaped) {
            return false;
        }
        match byte {
            b'\\' if self.in_string => self.escaped = true,
            b'"' if self.are_open() => self.in_string = !self.in_string,
            b'{' | b'[' if !self.in_string => self.depth += 1,
            b'}' | b']' if !self.in_string && self.are_open() => {
                self.depth -= 1;
                return !self.are_open();
            }
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let mut reader = EventReader::default();
        for piece in pieces {
            reader.push(piece).unwrap();
        }
        reader.finish();
        std::iter::from_fn(|| reader.next()).collect()
    }

    #[test]
    fn each_form_of_a_stream_is_read() {
        let two: &[&str] = &[r#"{"a":1}"#, r#"{"b":"}\"{"}"#];
        for text in [
            "data: {\"a\":1}\n\ndata: {\"b\":\"}\\\"{\"}\n\n",
            "data:{\"a\":1}\r\n\r\ndata:{\"b\":\"}\\\"{\"}\r\n\r\n",
            "data: {\"a\":1}\r\rdata: {\"b\":\"}\\\"{\"}\r\r",
            "\u{feff}data: {\"a\":1}\n\ndata: {\"b\":\"}\\\"{\"}\n\n",
            "data: {\"a\":1}\ndata: {\"b\":\"}\\\"{\"}\n",
            "data: {\"a\":1}\n\ndata: {\"b\":\"}\\\"{\"}",
            "data: {\"a\":1} {\"b\":\"}\\\"{\"}\n\n",
            "data: {\"a\":1}\ndata:\n\ndata: {\"b\":\"}\\\"{\"}\n\n",
            ": hello\nevent: message\nid: 1\ndata: {\"a\":1}\n\nretry: 5\ndata: {\"b\":\"}\\\"{\"}\n\n",
            "data: data: {\"a\":1}\n\ndata:data:{\"b\":\"}\\\"{\"}\n\n",
            "{\"a\":1}\n{\"b\":\"}\\\"{\"}\n",
            "\n\n{\"a\":1}\n\n{\"b\":\"}\\\"{\"}",
        ] {
            assert_eq!(read(&[text.as_bytes()]), two, "{text:?}");
        }
        for (text, data) in [
            ("data: {\"a\":1}\n\ndata: [DONE]\n\n", &[r#"{"a":1}"#, "[DONE]"][..]),
            ("data: {\"a\":1}\ndata: [DONE]\n", &[r#"{"a":1}"#, "[DONE]"]),
            ("data: {\"a\":\ndata: 1}\n\n", &["{\"a\":\n1}"]),
            ("{\n  \"a\": [\n    1\n  ]\n}\n", &["{\n  \"a\": [\n    1\n  ]\n}"]),
            ("data: ping\ndata: {\"a\":1}\n\n", &["ping", r#"{"a":1}"#]),
            ("data: {\"a\":\"data: \"}\n\ndata: data:\n\n", &[r#"{"a":"data: "}"#]),
            ("data: {\"a\":1\n", &["{\"a\":1"]),
            ("data: {\"a\":\n\ndata: {\"b\":1}\n\n", &["{\"a\":", r#"{"b":1}"#]),
            ("{\n\n\"a\": 1\n\n}", &["{\n\"a\": 1\n}"]),
            ("<html>\nno stream\n", &[]),
            ("data:\n\ndata: \n\n", &[]),
            ("", &[]),
        ] {
            assert_eq!(read(&[text.as_bytes()]), data, "{text:?}");
        }
        assert_eq!(read(&[b"data: \"\xe4\xbd", b"\n\n"]), ["\"\u{fffd}"], "half a character");
    }

    #[test]
    fn a_line_is_refused_only_above_the_maximum_length() {
        let mut reader = EventReader::default();
        let half = vec![b'x'; MAX_LINE_BYTES / 2];
        assert_eq!((reader.push(&half), reader.push(&half)), (Ok(()), Ok(())));
        assert_eq!(reader.push(b"\n\ndata"), Ok(()));
        assert_eq!((reader.push(&half), reader.push(&half)), (Ok(()), Err(LineTooLong)));
    }

    /// Parts of streams, valid and invalid.
    fn scraps() -> impl Strategy<Value = Vec<u8>> {
        let all: Vec<&[u8]> = vec![
            b"data: ",
            b"data:",
            b"{\"a\":1}",
            b"{",
            b"}",
            b"[",
            b"]",
            b"\"",
            b"\\",
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b"[DONE]",
            b"event: x",
            b":",
            b"\xef\xbb\xbf",
            b"\xe4\xbd\xa0",
            b"\xe4",
            b"x",
            b" ",
        ];
        prop::collection::vec(prop::sample::select(all), 0..40).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn data_are_the_same_however_the_stream_is_split(
            stream in prop_oneof![scraps(), prop::collection::vec(any::<u8>(), 0..200)],
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            at.extend([0, stream.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|ends| &stream[ends[0]..ends[1]]).collect();
            prop_assert_eq!(read(&pieces), read(&[&stream]));
        }
    }
}
