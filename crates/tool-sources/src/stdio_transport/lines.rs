//! Lines that a program writes, and messages that span several lines. A line that is too long loses
//! no other one. Not for the content of a message.

use bytes::BytesMut;
use tokio_util::codec::Decoder;

/// Stored part of a line that is too long, in bytes: its id may show which call it answers.
const KEPT_BYTES: usize = 1 << 10;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text(String),
    /// Beginning of a line that is too long.
    TooLong(String),
}

/// Decoder of lines of at most `most` bytes. It returns no errors, because an error would end the
/// reading.
pub(super) struct Lines {
    most: usize,
    /// Number of bytes already searched without finding the end of a line.
    searched: usize,
    /// Beginning of an incomplete line that is too long.
    kept: Option<String>,
}

impl Lines {
    pub(super) fn new(most: usize) -> Self {
        Self { most, searched: 0, kept: None }
    }

    fn line(&mut self, bytes: &[u8]) -> Line {
        self.searched = 0;
        match self.kept.take() {
            Some(kept) => Line::TooLong(kept),
            None if bytes.len() > self.most => Line::TooLong(begin(bytes)),
            // Programs write their logs in any encoding; a message with an odd character is still a
            // message.
            None => Line::Text(String::from_utf8_lossy(bytes).into_owned()),
        }
    }
}

fn begin(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..KEPT_BYTES).unwrap_or(bytes)).into_owned()
}

impl Decoder for Lines {
    type Item = Line;
    type Error = std::io::Error;

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Line>, Self::Error> {
        let unsearched = buffer.get(self.searched..).unwrap_or_default();
        if let Some(end) = unsearched.iter().position(|byte| *byte == b'\n') {
            let bytes = buffer.split_to(self.searched + end + 1);
            return Ok(Some(self.line(bytes.strip_suffix(b"\n").unwrap_or(&bytes))));
        }
        if self.kept.is_some() || buffer.len() > self.most {
            if self.kept.is_none() {
                self.kept = Some(begin(buffer));
            }
            buffer.clear();
        }
        self.searched = buffer.len();
        Ok(None)
    }

    fn decode_eof(&mut self, buffer: &mut BytesMut) -> Result<Option<Line>, Self::Error> {
        if let Some(line) = self.decode(buffer)? {
            return Ok(Some(line));
        }
        if buffer.is_empty() && self.kept.is_none() {
            return Ok(None);
        }
        let bytes = buffer.split();
        Ok(Some(self.line(&bytes)))
    }
}

/// Joins the lines of a message that spans several, as programs with indented JSON write it.
pub(super) struct JoinedLines {
    most: usize,
    text: String,
    outline: Outline,
}

impl JoinedLines {
    /// Creates the joiner of messages of at most `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self { most, text: String::new(), outline: Outline::default() }
    }

    /// Adds a line. Returns the texts that it completes: first the beginning of a message that
    /// another one interrupts.
    pub(super) fn push(&mut self, line: String) -> Vec<String> {
        let begins = line.trim_start_matches('\u{feff}').trim_start().starts_with('{');
        let mut outline = Outline::default();
        if begins {
            outline.read(&line);
        }
        let mut whole = Vec::new();
        if self.text.is_empty() {
            if begins && outline.is_open() {
                (self.text, self.outline) = (line, outline);
            } else {
                whole.push(line);
            }
        } else if begins && !outline.is_open() && line.contains("\"jsonrpc\"") {
            whole.extend([self.take(), line]);
        } else {
            self.text.push('\n');
            self.text.push_str(&line);
            self.outline.read("\n");
            self.outline.read(&line);
        }
        if !self.text.is_empty() && (!self.outline.is_open() || self.text.len() > self.most) {
            whole.push(self.take());
        }
        whole
    }

    fn take(&mut self) -> String {
        self.outline = Outline::default();
        std::mem::take(&mut self.text)
    }
}

/// Nesting of an incomplete piece of JSON, to find its end.
#[derive(Debug, Default)]
struct Outline {
    depth: usize,
    is_string: bool,
    is_escaped: bool,
}

impl Outline {
    fn read(&mut self, text: &str) {
        for byte in text.bytes() {
            if self.is_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.is_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.is_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn is_open(&self) -> bool {
        self.depth > 0 || self.is_string
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST: usize = 20;

    /// Returns the lines of a program's output in these pieces.
    fn lines(pieces: &[&[u8]]) -> Vec<Line> {
        let mut decoder = Lines::new(MOST);
        let mut buffer = BytesMut::new();
        let mut lines = Vec::new();
        for piece in pieces {
            buffer.extend_from_slice(piece);
            while let Some(line) = decoder.decode(&mut buffer).unwrap() {
                lines.push(line);
            }
            assert!(buffer.len() <= MOST);
        }
        while let Some(line) = decoder.decode_eof(&mut buffer).unwrap() {
            lines.push(line);
        }
        lines
    }

    fn text(text: &str) -> Line {
        Line::Text(text.into())
    }

    #[test]
    fn odd_lines_lose_no_other_one() {
        let long = "x".repeat(MOST + 1);
        let too_long = || Line::TooLong(long.clone());
        let ended = format!("{long}\na\n");
        let cases: [(&[&[u8]], Vec<Line>); 8] = [
            (&[b"a\nb\r\n\nc"], vec![text("a"), text("b\r"), text(""), text("c")]),
            (&[b"a\xff\nb\n"], vec![text("a\u{fffd}"), text("b")]),
            (&[b"\xb5\xc6\xb9\xe2\n", b"b\n"], vec![text("\u{fffd}\u{1b9}\u{fffd}"), text("b")]),
            (&[ended.as_bytes()], vec![too_long(), text("a")]),
            (&[long.as_bytes(), b"more", b"\n", b"a\n"], vec![too_long(), text("a")]),
            (&[long.as_bytes()], vec![too_long()]),
            (&[b"ab", b"c\nd"], vec![text("abc"), text("d")]),
            (&[], vec![]),
        ];
        for (pieces, expected) in cases {
            assert_eq!(lines(pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn messages_over_several_lines_are_joined() {
        let pretty = ["{", " \"jsonrpc\": \"2.0\",", " \"a\": {", "\"b\": \"}\"}", "}"];
        let message = r#"{"jsonrpc":"2.0"}"#;
        let joined = pretty.join("\n");
        let cases: [(Vec<&str>, Vec<&str>); 8] = [
            (vec![message, "log", message], vec![message, "log", message]),
            ([&pretty[..], &[message]].concat(), vec![joined.as_str(), message]),
            (vec!["{", message], vec!["{", message]),
            (vec!["{ it's \"open", message, "x"], vec!["{ it's \"open", message, "x"]),
            (vec!["{not json}", "}", "[1,2", message], vec!["{not json}", "}", "[1,2", message]),
            (vec!["{\"a\":\"x", "y\"}"], vec!["{\"a\":\"x\ny\"}"]),
            (vec!["DEBUG {", message], vec!["DEBUG {", message]),
            (vec!["", "{\"a\": [", "{\"b\":1}", "]}"], vec!["", "{\"a\": [\n{\"b\":1}\n]}"]),
        ];
        for (lines, expected) in cases {
            let mut all = JoinedLines::new(1 << 10);
            let whole: Vec<String> =
                lines.iter().flat_map(|line| all.push((*line).to_owned())).collect();
            assert_eq!(whole, expected, "{lines:?}");
        }
        let mut short = JoinedLines::new(4);
        assert!(short.push("{".into()).is_empty());
        assert_eq!(short.push("xxxxx".into()), ["{\nxxxxx"]);
        assert_eq!(short.push("a".into()), ["a"]);
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let whole = lines(&[&bytes]);
            let pieces: Vec<&[u8]> = bytes.chunks(3).collect();
            prop_assert_eq!(lines(&pieces).len(), whole.len());
        }
    }
}
