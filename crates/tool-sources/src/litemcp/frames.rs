//! Framing of messages on standard streams: UTF-8 text, each message ended by three line feeds. Not
//! for the contents of messages.

use bytes::{Buf as _, BytesMut};
use hearken_proto::litemcp::STDIO_END;
use tokio_util::codec::{Decoder, Encoder};

/// Codec: splits a stream of bytes into messages, and writes the end mark of each message.
#[derive(Debug)]
pub(super) struct Frames {
    max_bytes: usize,
    /// Number of bytes that were searched and contain no end mark.
    searched: usize,
}

/// Reason why the stream cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub(super) enum FramesError {
    /// A message is longer than this limit, in bytes.
    #[error("a message is longer than {0} bytes")]
    TooLong(usize),
    /// The stream failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Frames {
    /// Creates a codec for messages of at most `max_bytes` bytes.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, searched: 0 }
    }
}

impl Decoder for Frames {
    type Item = String;
    type Error = FramesError;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<String>, FramesError> {
        loop {
            // Additional line feeds after an end mark are ignored.
            let blank = bytes.iter().take_while(|b| **b == b'\n').count();
            if blank > 0 {
                bytes.advance(blank);
                self.searched = 0;
            }
            let from = self.searched.saturating_sub(STDIO_END.len() - 1);
            let end = bytes[from..].windows(STDIO_END.len()).position(|w| w == STDIO_END);
            // The last bytes may be a part of the end mark.
            let last = bytes.len().saturating_sub(STDIO_END.len() - 1);
            let begun = bytes[last..].iter().rev().take_while(|b| **b == b'\n').count();
            let length = end.map_or(bytes.len() - begun, |end| from + end);
            if length > self.max_bytes {
                return Err(FramesError::TooLong(self.max_bytes));
            }
            let Some(end) = end else {
                self.searched = bytes.len();
                return Ok(None);
            };
            let message = bytes.split_to(from + end);
            bytes.advance(STDIO_END.len());
            self.searched = 0;
            let text = String::from_utf8_lossy(&message);
            if !text.trim().is_empty() {
                return Ok(Some(text.into_owned()));
            }
        }
    }

    /// Decodes the last message, which may lack its end mark.
    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<String>, FramesError> {
        if let Some(text) = self.decode(bytes)? {
            return Ok(Some(text));
        }
        let rest = bytes.split();
        self.searched = 0;
        // A part of an end mark does not count as part of the message, nor towards its length.
        let begun = rest.iter().rev().take_while(|b| **b == b'\n').count();
        let text = String::from_utf8_lossy(&rest[..rest.len() - begun]);
        Ok((!text.trim().is_empty()).then(|| text.into_owned()))
    }
}

impl Encoder<String> for Frames {
    type Error = FramesError;

    fn encode(&mut self, text: String, bytes: &mut BytesMut) -> Result<(), FramesError> {
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(STDIO_END);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads the messages from these pieces of a stream, which then ends.
    fn read(pieces: &[&[u8]], max_bytes: usize) -> Result<Vec<String>, FramesError> {
        let mut frames = Frames::new(max_bytes);
        let mut bytes = BytesMut::new();
        let mut all = vec![];
        for piece in pieces {
            bytes.extend_from_slice(piece);
            while let Some(text) = frames.decode(&mut bytes)? {
                all.push(text);
            }
        }
        while let Some(text) = frames.decode_eof(&mut bytes)? {
            all.push(text);
        }
        Ok(all)
    }

    #[test]
    fn three_line_feeds_end_a_message() {
        let all = read(&[b"a\n\nb\n\n\n\n\n\n\nc\n", b"\n", b"\n \n\n\nd"], 10).unwrap();
        assert_eq!(all, ["a\n\nb", "c", "d"]);
        assert_eq!(read(&[b"\xff\n\n\n"], 10).unwrap(), ["\u{fffd}"]);
    }

    #[test]
    fn an_endless_message_is_refused() {
        let told = read(&[b"12345", b"678901"], 10).unwrap_err().to_string();
        assert_eq!(told, "a message is longer than 10 bytes");
        assert_eq!(read(&[b"1234567890\n\n\n"], 10).unwrap().len(), 1);
        // The end mark arrives in pieces.
        assert_eq!(read(&[b"1234567890\n", b"\n", b"\n"], 10).unwrap().len(), 1);
        assert_eq!(read(&[b"1234567890\n\n", b"\n1"], 10).unwrap().len(), 2);
        // The end mark is incomplete.
        assert_eq!(read(&[b"1234567890\n\n"], 10).unwrap(), ["1234567890"]);
    }

    proptest! {
        #[test]
        fn messages_are_the_same_however_the_stream_is_split(
            texts in prop::collection::vec("[a-z好]{1,9}", 0..5),
            cut in 1..7usize,
        ) {
            let mut frames = Frames::new(100);
            let mut bytes = BytesMut::new();
            for text in &texts {
                frames.encode(text.clone(), &mut bytes).unwrap();
            }
            let pieces: Vec<&[u8]> = bytes.chunks(cut).collect();
            prop_assert_eq!(read(&pieces, 100).unwrap(), texts);
        }
    }
}
