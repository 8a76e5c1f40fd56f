//! The faults for every adapter, and the permitted outcomes of each. Not for how faults are
//! injected, nor for how an adapter is run.

use std::time::Duration;

use super::{Answer, Event, Fault, retry_after, status};
use crate::scripted_server::answer;

/// Transport of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Requests over HTTP.
    Http,
    /// A WebSocket.
    Socket,
    /// Messages with a terminator, over a byte stream.
    Lines,
    /// A database protocol.
    Bytes,
}

/// Outcome of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The complete answer.
    Answered,
    /// The part of the answer before the fault, and an error: users hear an apology, programs get an error.
    Failed,
    /// Another answer or other sound than that of the service.
    Damaged,
    /// Text on the display, but no sound.
    Silence,
}

/// One fault.
pub struct Row {
    /// Its name in the table.
    pub name: &'static str,
    /// The fault.
    pub fault: Fault,
    /// Permitted outcomes.
    pub expected: &'static [Expected],
}

const ANSWERED: &[Expected] = &[Expected::Answered];
const FAILED: &[Expected] = &[Expected::Failed];
/// Any outcome that is reported.
const ANY: &[Expected] = &[Expected::Answered, Expected::Failed, Expected::Damaged];

fn row(name: &'static str, fault: Fault, expected: &'static [Expected]) -> Row {
    Row { name, fault, expected }
}

/// All faults of an adapter; its service's answer has started after `midst` bytes.
pub fn all(wire: Wire, midst: usize) -> Vec<Row> {
    let mut rows = of_connections();
    rows.extend(within_answers(midst));
    rows.extend(match wire {
        Wire::Http => of_http(),
        Wire::Socket => of_sockets(),
        Wire::Lines => of_lines(),
        Wire::Bytes => of_bytes(),
    });
    rows
}

/// Faults of any connection.
fn of_connections() -> Vec<Row> {
    let ms = Duration::from_millis;
    vec![
        row("reset at once", Fault::Reset, FAILED),
        row("half open", Fault::HalfOpen, FAILED),
        row("silent from now on", Fault::Frozen, ANY),
        row("latency of 60 ms", Fault::Latency(ms(60)), ANSWERED),
        row("jitter up to 60 ms", Fault::Jitter(ms(60)), ANSWERED),
        row("60 kB/s", Fault::Bandwidth(60_000), ANSWERED),
        row("drip, a byte a ms", Fault::Drip(ms(1)), ANY),
        row("no free connection", Fault::ConnectionLimit(0), FAILED),
    ]
}

/// Faults during an answer.
fn within_answers(midst: usize) -> Vec<Row> {
    let pause = Event::Pause(Duration::from_millis(300));
    vec![
        row("reset in the head", Fault::At(20, Event::Reset), FAILED),
        row("reset in the midst", Fault::At(midst, Event::Reset), FAILED),
        row("cut in the head", Fault::At(20, Event::Truncate), FAILED),
        row("cut in the midst", Fault::At(midst, Event::Truncate), FAILED),
        row("stall in the head", Fault::At(20, Event::Stall), FAILED),
        row("stall in the midst", Fault::At(midst, Event::Stall), FAILED),
        row("pause of 300 ms in the midst", Fault::At(midst, pause), ANSWERED),
        row("corrupt first bytes", Fault::At(3, Event::Corrupt), FAILED),
        row("corrupt byte in the midst", Fault::At(midst, Event::Corrupt), ANY),
        row("duplicate bytes in the midst", Fault::At(midst, Event::Duplicate), ANY),
        row("endless zeros in the midst", Fault::At(midst, Event::Flood), ANY),
    ]
}

/// Responses of another server to requests and to WebSocket handshakes.
fn refusals() -> Vec<Row> {
    let date = "Fri, 31 Dec 1999 23:59:59 GMT";
    vec![
        row("redirect loop", Fault::Answers(Answer::RedirectLoop), FAILED),
        row("wrong content type", Fault::Answers(page()), FAILED),
        row("429 with seconds", Fault::Answers(retry_after("7")), FAILED),
        row("429 with a fraction", Fault::Answers(retry_after("0.2")), FAILED),
        row("429 with a date", Fault::Answers(retry_after(date)), FAILED),
        row("429 with nonsense", Fault::Answers(retry_after("soon")), FAILED),
        row("500", Fault::Answers(status(500, "")), FAILED),
        row("502", Fault::Answers(status(502, "")), FAILED),
        row("503 with a wait", Fault::Answers(status(503, "retry-after: 1\r\n")), FAILED),
        row("504", Fault::Answers(status(504, "")), FAILED),
    ]
}

fn of_http() -> Vec<Row> {
    let mut rows = refusals();
    let head = Answer::Endless("HTTP/1.1 200 OK\r\nx: ");
    rows.extend([
        row("endless head", Fault::Answers(head), FAILED),
        row("endless answer", Fault::Answers(Answer::Endless(ENDLESS)), ANY),
        row("no UTF-8", Fault::Answers(bad_text_over_http()), ANY),
    ]);
    rows
}

fn of_sockets() -> Vec<Row> {
    let mut rows = refusals();
    let endless = socket(&[0x81, 127, 0, 0, 1, 0, 0, 0, 0, 0]);
    rows.extend([
        row("endless message", Fault::Answers(endless), FAILED),
        row("no UTF-8", Fault::Answers(socket(b"\x81\x02\xC3\x28")), FAILED),
        row("an empty message", Fault::Answers(socket(b"\x81\x00")), FAILED),
    ]);
    rows
}

fn of_lines() -> Vec<Row> {
    let bytes = |bytes: &[u8]| Fault::Answers(Answer::Bytes(bytes.into()));
    vec![
        row("endless message", Fault::At(0, Event::Flood), FAILED),
        row("no UTF-8", bytes(b"\xC3\x28\n\n\n\xFF\n\n\n"), FAILED),
        row("a page", bytes(b"<!doctype html>\n<title>Sign in</title>\n\n\n"), FAILED),
        row("empty messages", bytes(b"\n\n\n\n\n\n\n"), FAILED),
        row("another protocol", bytes(b"{\"level\":\"info\"}\n\n\n[]\n\n\n7\n\n\n"), FAILED),
    ]
}

fn of_bytes() -> Vec<Row> {
    let bytes = |bytes: &[u8]| Fault::Answers(Answer::Bytes(bytes.into()));
    vec![
        row("endless answer", Fault::At(0, Event::Flood), FAILED),
        row("another protocol", bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n"), FAILED),
        row("only zeros", bytes(&[0; 64]), FAILED),
        row("only ones", bytes(&[0xFF; 64]), FAILED),
    ]
}

const ENDLESS: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";

fn page() -> Answer {
    success("text/html", b"<!doctype html><title>Sign in to the network</title>")
}

fn bad_text_over_http() -> Answer {
    // A letter, because a transcript without one is silence.
    success("application/json", b"{\"text\": \"go \xC3\x28\", \"choices\": [], \"x\": \"\xFF\"}")
}

fn success(content_type: &str, body: &[u8]) -> Answer {
    let head = format!("content-type: {content_type}\r\n");
    Answer::Http(answer(200, &head, body).into())
}

fn socket(bytes: &[u8]) -> Answer {
    Answer::Socket(bytes.into())
}
