//! Events of an answer, as real servers write them: with meaningless lines, without the blank line
//! at the end, or as JSON labelled as a stream of events. Not for the content of an event.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt as _};
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;

pub(super) type Events = BoxStream<'static, Result<Sse, SseError>>;

/// Maximum size of an event's id and of its name, in bytes. Longer ones are ignored: the id is
/// copied for each message of the event, kept for the whole stream, and returned in a header.
pub(super) const MAX_FIELD_BYTES: usize = 1 << 10;

/// Error of a stream of events.
#[derive(Debug, thiserror::Error)]
enum StreamError {
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    #[error("an event is longer than {0} bytes")]
    TooLong(usize),
}

/// Stream that is read.
struct Reading {
    pieces: BoxStream<'static, reqwest::Result<Bytes>>,
    parser: Parser,
    events: VecDeque<Result<Sse, SseError>>,
    is_over: bool,
}

/// Returns the events of a body, each of at most `most` bytes.
pub(super) fn events(
    pieces: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    most: usize,
) -> Events {
    let reading = Reading {
        pieces: pieces.boxed(),
        parser: Parser::new(most),
        events: VecDeque::new(),
        is_over: false,
    };
    let next = |mut reading: Reading| async move {
        loop {
            if let Some(event) = reading.events.pop_front() {
                return Some((event, reading));
            }
            if reading.is_over {
                return None;
            }
            let read = match reading.pieces.next().await {
                Some(Ok(piece)) => reading.parser.push(&piece, &mut reading.events),
                Some(Err(error)) => Err(error.into()),
                None => {
                    reading.is_over = true;
                    reading.parser.end(&mut reading.events);
                    Ok(())
                }
            };
            if let Err(error) = read {
                reading.is_over = true;
                reading.events.push_back(Err(SseError::Body(Box::new(error))));
            }
        }
    };
    stream::unfold(reading, next).boxed()
}

/// Parser of the lines of a stream of events.
struct Parser {
    most: usize,
    line: Vec<u8>,
    /// True if the last line ended with a CR, which a following LF belongs to.
    is_after_cr: bool,
    event: Option<Sse>,
    /// Form of the body; `None` before its first line.
    form: Option<Form>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Events,
    /// JSON, which ends with the body.
    Json,
}

impl Parser {
    fn new(most: usize) -> Self {
        Self { most, line: Vec::new(), is_after_cr: false, event: None, form: None }
    }

    /// Parses a piece of the body, and adds the events that end in it.
    fn push(
        &mut self,
        mut piece: &[u8],
        events: &mut VecDeque<Result<Sse, SseError>>,
    ) -> Result<(), StreamError> {
        if self.is_after_cr && !piece.is_empty() {
            self.is_after_cr = false;
            piece = piece.strip_prefix(b"\n").unwrap_or(piece);
        }
        while let Some(end) = piece.iter().position(|byte| matches!(*byte, b'\n' | b'\r')) {
            let (line, rest) = piece.split_at(end);
            self.line.extend_from_slice(line);
            self.end_line(events);
            piece = match rest {
                [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
                [] => rest,
            };
            self.is_after_cr = piece.is_empty() && rest == b"\r";
        }
        self.line.extend_from_slice(piece);
        let data = self.event.as_ref().and_then(|event| event.data.as_ref()).map_or(0, String::len);
        if data + self.line.len() > self.most {
            return Err(StreamError::TooLong(self.most));
        }
        Ok(())
    }

    /// Ends the body, and with it the last event.
    fn end(&mut self, events: &mut VecDeque<Result<Sse, SseError>>) {
        self.end_line(events);
        events.extend(self.event.take().map(Ok));
    }

    fn end_line(&mut self, events: &mut VecDeque<Result<Sse, SseError>>) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = if self.form.is_none() { line.trim_start_matches('\u{feff}') } else { &*line };
        if self.form.is_none() && !line.trim().is_empty() {
            let begin = line.trim_start();
            let list = begin.strip_prefix('[').map(str::trim_start);
            let is_json = begin.starts_with('{')
                || list.is_some_and(|list| list.is_empty() || list.starts_with('{'));
            self.form = Some(if is_json { Form::Json } else { Form::Events });
        }
        if self.form == Some(Form::Json) {
            self.add_data(line);
        } else if line.is_empty() {
            events.extend(self.event.take().map(Ok));
        } else {
            self.read_field(line);
        }
    }

    /// Reads a field. Unknown fields, comments and invalid values are ignored.
    fn read_field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => self.add_data(value),
            "event" | "id" if value.len() > MAX_FIELD_BYTES => {}
            "event" => self.event().event = Some(value.to_owned()),
            "id" if !value.contains('\0') => self.event().id = Some(value.to_owned()),
            "retry" => {
                if let Ok(retry) = value.trim().parse() {
                    self.event().retry = Some(retry);
                }
            }
            _ => {}
        }
    }

    fn event(&mut self) -> &mut Sse {
        self.event.get_or_insert_default()
    }

    fn add_data(&mut self, line: &str) {
        match &mut self.event().data {
            Some(data) => {
                data.push('\n');
                data.push_str(line);
            }
            none => *none = Some(line.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use proptest::prelude::*;

    use super::*;

    const MOST: usize = 40;

    /// Returns the data of the events of a body that arrives in pieces of this length.
    fn read(body: &[u8], length: usize) -> Vec<Result<Sse, SseError>> {
        let pieces: Vec<_> =
            body.chunks(length).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        events(stream::iter(pieces), MOST).collect::<Vec<_>>().now_or_never().unwrap()
    }

    fn data(body: &[u8], length: usize) -> Vec<Option<String>> {
        read(body, length).into_iter().map(|event| event.unwrap().data).collect()
    }

    #[test]
    fn events_are_read_in_every_notation() {
        for body in [
            &b"data: hello\n\n"[..],
            b"data:hello\r\n\r\n",
            b"event: message\rdata: hello\r\r",
            b"\xef\xbb\xbfdata: hello\n\n",
            b"data: hello",
            b"data: hello\n",
            b": ping\n\ndata: hello\n\n",
            b"retry: abc\nid\nnonsense\nodd: line\n: \xff\ndata: hello\n\n",
            b"id: 1\nid: 2\nevent: a\nevent: b\ndata: hello\n\n",
        ] {
            for length in [1, 2, 7, 99] {
                let text = String::from_utf8_lossy(body);
                let data: Vec<_> = data(body, length).into_iter().flatten().collect();
                assert_eq!(data, ["hello"], "{text:?} {length}");
            }
        }
        assert_eq!(
            data(b"data: a\xff\n\ndata: b\n\n", 3),
            ["a\u{fffd}", "b"].map(|d| Some(d.to_owned()))
        );
        assert_eq!(data(b"data: {\ndata: }\n\n", 3), [Some("{\n}".to_owned())]);
        assert!(data(b"", 1).is_empty());
        let told = read(b"id: 7\nretry: 10\nevent: response\ndata:\n\n", 5);
        let told = told.into_iter().next().unwrap().unwrap();
        assert_eq!((told.id.as_deref(), told.retry), (Some("7"), Some(10)));
        assert_eq!((told.event.as_deref(), told.data.as_deref()), (Some("response"), Some("")));
    }

    #[test]
    fn an_id_and_a_name_have_a_maximum_length() {
        for (length, is_kept) in [(MAX_FIELD_BYTES, true), (MAX_FIELD_BYTES + 1, false)] {
            let field = "x".repeat(length);
            let body = Bytes::from(format!("id: {field}\nevent: {field}\ndata: hello\n\n"));
            let read = events(stream::iter([Ok(body)]), 1 << 20);
            let event = read.collect::<Vec<_>>().now_or_never().unwrap().swap_remove(0).unwrap();
            assert_eq!((event.id.is_some(), event.event.is_some()), (is_kept, is_kept), "{length}");
            assert_eq!(event.data.as_deref(), Some("hello"));
        }
    }

    #[test]
    fn json_labelled_as_a_stream_is_one_event() {
        for body in [r#"{"id":1}"#, "\n{\"id\":1}\n", "{\n\n \"id\": 1\n}", "[\n{\"id\":1}]"] {
            let data: String = data(body.as_bytes(), 4).into_iter().flatten().collect();
            let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(value(&data), value(body), "{body}");
        }
    }

    #[test]
    fn an_event_has_a_maximum_size_and_a_stream_has_none() {
        let many = "data: x\n\n".repeat(MOST) + &": nothing\n".repeat(MOST);
        assert_eq!(data(many.as_bytes(), 7).len(), MOST);
        for long in ["x".repeat(MOST), "x\ndata: ".repeat(MOST)] {
            let told = read(format!("data: a\n\ndata: {long}").as_bytes(), 7);
            assert_eq!(told.len(), 2, "{long}");
            assert!(told[0].is_ok() && told[1].is_err(), "{long}");
        }
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(body in "([a-z{}:\n\r]|data: |id:){0,6}", length in 1_usize..9) {
            prop_assert_eq!(data(body.as_bytes(), length), data(body.as_bytes(), 99));
        }
    }
}
