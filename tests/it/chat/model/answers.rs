//! Responses of a server, each read from its own connection: status, body, and the events of a
//! streamed answer. Not for requests.

use serde_json::Value;

use super::known::{Pieces, Reply, Wire};

/// A complete response.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) status: u16,
    /// The answer was streamed as server-sent events.
    streamed: bool,
    pub(super) body: String,
}

impl Told {
    /// Parses a response; `None` if it is incomplete.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (head, rest) = text.split_once("\r\n\r\n")?;
        let head = head.to_ascii_lowercase();
        let chunked = head.contains("\r\ntransfer-encoding: chunked");
        Some(Self {
            status: head.split(' ').nth(1)?.parse().ok()?,
            streamed: head.contains("\r\ncontent-type: text/event-stream"),
            body: if chunked { joined(rest)? } else { rest.to_owned() },
        })
    }
}

/// Joins a chunked body (RFC 9112, section 7.1).
fn joined(mut rest: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (size, more) = rest.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.push_str(more.get(..size)?);
        rest = more.get(size + 2..)?;
    }
}

/// The reply as a client understands it.
pub(super) fn reply(told: &Told) -> Reply {
    if told.streamed {
        return pieces(told);
    }
    let body: Value = serde_json::from_str(&told.body).unwrap();
    let wire = Some(Wire { status: told.status, pieces: None });
    Reply { code: code(&body), body, wire }
}

/// The code of an error body; empty for other bodies.
fn code(body: &Value) -> String {
    body["error"]["code"].as_str().unwrap_or_default().to_owned()
}

fn pieces(told: &Told) -> Reply {
    let mut pieces = Pieces::default();
    let mut end = None;
    for event in told.body.split_terminator("\n\n") {
        assert!(end.is_none(), "there is data after the end: {}", told.body);
        let (kind, data) = event.split_once("\ndata: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        match kind {
            "event: delta" => pieces.said.push_str(data["content"].as_str().unwrap()),
            "event: event" => pieces.events += 1,
            "event: done" | "event: error" => end = Some(data),
            other => panic!("{other} is no event: {}", told.body),
        }
    }
    let body = end.expect("an answer has an end");
    let wire = Some(Wire { status: told.status, pieces: Some(pieces) });
    Reply { code: code(&body), body, wire }
}
