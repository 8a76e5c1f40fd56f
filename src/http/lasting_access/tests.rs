//! Responses whose clients lose access: their parts in virtual time, and a connection that is not
//! read. Not for the extractors of routes.

use std::convert::Infallible;
use std::future::{Ready, poll_fn, ready};

use actix_web::test::TestRequest;
use actix_web::{App, HttpServer};
use futures_util::stream;
use hearken_base::slots::Slots;
use hearken_proto::fault::Fault;
use hearken_test_support::PATIENCE;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::*;
use crate::http::fault::refusal;
use crate::http::kept_connections::watch;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Result of the extractor.
#[derive(Debug, Clone, Copy)]
enum Extracted {
    Value(u32),
    Refused(Fault),
}

/// Result that the extractor has next, and how often it was asked.
struct Current {
    extracted: Cell<Extracted>,
    asked: Cell<u32>,
}

impl Current {
    fn new() -> Rc<Self> {
        Rc::new(Self { extracted: Cell::new(Extracted::Value(1)), asked: Cell::new(0) })
    }
}

struct Allowed(u32);

impl FromRequest for Allowed {
    type Error = Refusal;
    type Future = Ready<Result<Self, Refusal>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let current = request.app_data::<Rc<Current>>().expect("each test sets it");
        current.asked.set(current.asked.get() + 1);
        ready(match current.extracted.get() {
            Extracted::Value(value) => Ok(Self(value)),
            Extracted::Refused(fault) => Err(refusal(fault, "by the test")),
        })
    }
}

/// Body with these parts for a client that has access while the extracted value is 1.
fn body<S>(current: &Rc<Current>, parts: S, at_end: AtEnd) -> BoxBody
where
    S: Stream<Item = Result<Bytes, Infallible>> + 'static,
{
    let request = TestRequest::default().app_data(Rc::clone(current)).to_http_request();
    let access = LastingAccess::of_same(&request, |now: &Allowed| now.0 == 1);
    access.stream(HttpResponse::Ok(), parts, at_end).into_body()
}

/// Body with parts at any time.
fn endless(current: &Rc<Current>, at_end: AtEnd) -> BoxBody {
    body(current, stream::repeat_with(|| Ok(Bytes::from_static(b"part"))), at_end)
}

/// Next part of a body: its text, `broken` for an error, nothing at the end.
async fn next(body: &mut BoxBody) -> Option<String> {
    let part = poll_fn(|cx| Pin::new(&mut *body).poll_next(cx)).await?;
    Some(part.map_or_else(|_| "broken".into(), |text| String::from_utf8_lossy(&text).into_owned()))
}

#[actix_web::test]
async fn no_part_is_sent_after_the_end_however_late_the_client_reads_again() {
    tokio::time::pause();
    type End = (fn() -> AtEnd, Option<&'static str>);
    let ends: [End; 3] = [
        (|| AtEnd::Stop, None),
        (|| AtEnd::Break, Some("broken")),
        (|| AtEnd::Tell(Bytes::from_static(b"over")), Some("over")),
    ];
    for (at_end, last) in ends {
        for ended in [
            Extracted::Refused(Fault::Unauthorized),
            Extracted::Refused(Fault::Forbidden),
            Extracted::Refused(Fault::NotFound),
            Extracted::Value(2),
        ] {
            for unread in [SECOND, HOUR] {
                let current = Current::new();
                let mut body = endless(&current, at_end());
                for _ in 0..3 {
                    assert_eq!(next(&mut body).await.as_deref(), Some("part"));
                }
                current.extracted.set(ended);
                tokio::time::sleep(unread).await;
                assert_eq!(next(&mut body).await.as_deref(), last, "{ended:?} {unread:?}");
                assert_eq!(next(&mut body).await, None, "{ended:?} {unread:?}");
            }
        }
    }
}

#[actix_web::test]
async fn a_response_that_waits_for_its_next_part_ends_within_a_second() {
    tokio::time::pause();
    let current = Current::new();
    let mut body = body(&current, stream::pending(), AtEnd::Stop);
    tokio::time::sleep(HOUR).await;
    current.extracted.set(Extracted::Refused(Fault::Unauthorized));
    let begun = Instant::now();
    assert_eq!(next(&mut body).await, None);
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
}

#[actix_web::test]
async fn while_the_store_fails_the_last_result_remains_valid() {
    tokio::time::pause();
    let current = Current::new();
    let mut body = endless(&current, AtEnd::Stop);
    for fault in [Fault::Unavailable, Fault::Busy, Fault::Internal] {
        current.extracted.set(Extracted::Refused(fault));
        tokio::time::sleep(HOUR).await;
        assert_eq!(next(&mut body).await.as_deref(), Some("part"), "{fault:?}");
    }
    current.extracted.set(Extracted::Refused(Fault::Unauthorized));
    tokio::time::sleep(SECOND).await;
    assert_eq!(next(&mut body).await, None);
}

#[actix_web::test]
async fn the_checks_end_with_the_response() {
    tokio::time::pause();
    let current = Current::new();
    let body = endless(&current, AtEnd::Stop);
    tokio::time::sleep(SECOND * 2).await;
    let asked = current.asked.get();
    assert!(asked >= 3, "{asked}");
    drop(body);
    tokio::time::sleep(HOUR).await;
    assert_eq!(current.asked.get(), asked);
}

/// Reports its end to the channel.
struct Reported(mpsc::UnboundedSender<()>);

impl Drop for Reported {
    fn drop(&mut self) {
        self.0.send(()).unwrap_or_default();
    }
}

#[actix_web::test]
async fn a_connection_that_is_not_read_is_broken_off() {
    let end = CancellationToken::new();
    let (report, mut ended) = mpsc::unbounded_channel();
    let ending = end.clone();
    let app = move || {
        let ending = ending.clone();
        let report = report.clone();
        let endless = move |request: HttpRequest| {
            let access = LastingAccess::until(&request, ending.clone().cancelled_owned());
            let reported = Reported(report.clone());
            let parts = stream::repeat_with(move || {
                let _ends_with_the_body = &reported;
                // More than the system buffers: the server asks for no second part.
                Ok::<_, Infallible>(Bytes::from(vec![b'x'; 1 << 25]))
            });
            ready(access.stream(HttpResponse::Ok(), parts, AtEnd::Stop))
        };
        App::new().route("/", web::get().to(endless))
    };
    let server = HttpServer::new(app).workers(1).disable_signals();
    let server = server.on_connect(|stream, extensions| {
        let stream = stream.downcast_ref::<actix_web::rt::net::TcpStream>().expect("without TLS");
        let idle = Slots::new(9, 9);
        watch(stream, extensions, HOUR, Box::new(move || idle.take(None).ok()));
    });
    let server = server.bind(("127.0.0.1", 0)).unwrap();
    let address = server.addrs()[0];
    actix_web::rt::spawn(server.run());

    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut status = [0; 12];
    client.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    end.cancel();
    let reported = tokio::time::timeout(PATIENCE, ended.recv()).await;
    assert_eq!(reported.expect("the response ends"), Some(()));
    let mut rest = Vec::new();
    let read = client.read_to_end(&mut rest).await;
    assert!(read.is_err(), "the client has {} bytes, as if they were all", rest.len());
}
