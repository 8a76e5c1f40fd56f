//! The faults of the gauntlet, and what a person may meet in each. Not for how they are made.

use std::time::Duration;

use hearken_test_support::fault_proxy::{Answer, Event, Fault, retry_after, status};
use hearken_test_support::scripted_server::answer;

/// What bytes a service speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    Http,
    Socket,
}

/// What a person meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// The whole answer.
    Answered,
    /// As much of the answer as there was, and an apology that is heard.
    Apology,
    /// Another answer than that of the service, or other sound.
    Damaged,
    /// Shown words, but no sound.
    Silence,
}

/// One fault.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) fault: Fault,
    pub(super) expected: &'static [Expected],
}

const ANSWERED: &[Expected] = &[Expected::Answered];
const APOLOGY: &[Expected] = &[Expected::Apology];
/// Whatever comes of it, the person is told something.
const ANY: &[Expected] = &[Expected::Answered, Expected::Apology, Expected::Damaged];

fn row(name: &'static str, fault: Fault, expected: &'static [Expected]) -> Row {
    Row { name, fault, expected }
}

/// All faults of an adapter; an answer of its service has begun after `midst` bytes.
pub(super) fn all(wire: Wire, midst: usize) -> Vec<Row> {
    let ms = Duration::from_millis;
    let mut rows = vec![
        row("reset at once", Fault::Reset, APOLOGY),
        row("half open", Fault::HalfOpen, APOLOGY),
        row("latency of 60 ms", Fault::Latency(ms(60)), ANSWERED),
        row("jitter up to 60 ms", Fault::Jitter(ms(60)), ANSWERED),
        row("60 kB/s", Fault::Bandwidth(60_000), ANSWERED),
        row("drip, a byte a ms", Fault::Drip(ms(1)), ANY),
        row("reset in the head", Fault::At(20, Event::Reset), APOLOGY),
        row("reset in the midst", Fault::At(midst, Event::Reset), APOLOGY),
        row("cut in the head", Fault::At(20, Event::Truncate), APOLOGY),
        row("cut in the midst", Fault::At(midst, Event::Truncate), APOLOGY),
        row("stall in the head", Fault::At(20, Event::Stall), APOLOGY),
        row("stall in the midst", Fault::At(midst, Event::Stall), APOLOGY),
        row("pause of 300 ms in the midst", Fault::At(midst, Event::Pause(ms(300))), ANSWERED),
        row("corrupt status line", Fault::At(3, Event::Corrupt), APOLOGY),
        row("corrupt byte in the midst", Fault::At(midst, Event::Corrupt), ANY),
        row("bytes twice in the midst", Fault::At(midst, Event::Duplicate), ANY),
        row("zeros without end in the midst", Fault::At(midst, Event::Flood), ANY),
        row("no connection is free", Fault::ConnectionLimit(0), APOLOGY),
        row("redirect loop", Fault::Answers(Answer::RedirectLoop), APOLOGY),
        row("wrong content type", Fault::Answers(page()), APOLOGY),
        row("429 with seconds", Fault::Answers(retry_after("7")), APOLOGY),
        row("429 with a fraction", Fault::Answers(retry_after("0.2")), APOLOGY),
        row(
            "429 with a date",
            Fault::Answers(retry_after("Fri, 31 Dec 1999 23:59:59 GMT")),
            APOLOGY,
        ),
        row("429 with nonsense", Fault::Answers(retry_after("soon")), APOLOGY),
        row("500", Fault::Answers(status(500, "")), APOLOGY),
        row("502", Fault::Answers(status(502, "")), APOLOGY),
        row("503 with a wait", Fault::Answers(status(503, "retry-after: 1\r\n")), APOLOGY),
        row("504", Fault::Answers(status(504, "")), APOLOGY),
    ];
    rows.extend(match wire {
        Wire::Http => vec![
            row("endless head", Fault::Answers(Answer::Endless("HTTP/1.1 200 OK\r\nx: ")), APOLOGY),
            row("endless answer", Fault::Answers(Answer::Endless(ENDLESS)), ANY),
            row("no UTF-8", Fault::Answers(bad_text_over_http()), ANY),
        ],
        Wire::Socket => vec![
            row(
                "endless message",
                Fault::Answers(socket(&[0x81, 127, 0, 0, 1, 0, 0, 0, 0, 0])),
                APOLOGY,
            ),
            row("no UTF-8", Fault::Answers(socket(b"\x81\x02\xC3\x28")), APOLOGY),
            row("a message of nothing", Fault::Answers(socket(b"\x81\x00")), APOLOGY),
        ],
    });
    rows
}

const ENDLESS: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";

fn page() -> Answer {
    success("text/html", b"<!doctype html><title>Sign in to the network</title>")
}

fn bad_text_over_http() -> Answer {
    success("application/json", b"{\"text\": \"\xC3\x28\", \"choices\": [], \"x\": \"\xFF\"}")
}

fn success(content_type: &str, body: &[u8]) -> Answer {
    let head = format!("content-type: {content_type}\r\n");
    Answer::Http(answer(200, &head, body).into())
}

fn socket(bytes: &[u8]) -> Answer {
    Answer::Socket(bytes.into())
}
