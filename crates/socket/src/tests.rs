//! Ways in which a socket ends, byte by byte and in virtual time. Not for the messages of actors.

use std::time::Duration;

use actix::{Actor, StreamHandler};
use actix_http::ws::{CloseCode, CloseReason, Codec, Frame, Item, Message};
use actix_web::error::PayloadError;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use hearken_proto::fault::{Fault, TABLE};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::codec::{Decoder as _, Encoder as _};

use super::{CLOSE_WITHIN, Inbound, Incoming, SocketContext, SocketFrame, attach, close};

/// Tolerance for timers, which may fire some ticks late.
const SLACK: Duration = Duration::from_millis(10);

/// Actor that echoes each message; `leave CODE` closes it with this fault, between two other
/// messages.
struct Echo(Inbound);

impl Actor for Echo {
    type Context = SocketContext<Self>;
}

impl StreamHandler<SocketFrame> for Echo {
    fn handle(&mut self, frame: SocketFrame, ctx: &mut Self::Context) {
        match self.0.accept(frame, ctx) {
            Incoming::Text(text) => match text.strip_prefix("leave ") {
                Some(code) => {
                    let row = TABLE.iter().find(|row| row.code == code).unwrap();
                    ctx.text("before");
                    close(ctx, row.fault);
                    ctx.text("after");
                }
                None => ctx.text(text),
            },
            Incoming::Binary(bytes) => ctx.binary(bytes),
            Incoming::Alive | Incoming::Closed => {}
            Incoming::Broken(fault) => close(ctx, fault),
        }
    }
}

/// Peer of an echo.
struct Peer {
    up: Option<UnboundedSender<Result<Bytes, PayloadError>>>,
    down: std::pin::Pin<Box<dyn futures_util::Stream<Item = Result<Bytes, actix_web::Error>>>>,
    read: BytesMut,
}

impl Peer {
    fn open() -> Self {
        let (up, bytes) = unbounded_channel();
        let down = attach(Echo(Inbound::with_limit(200)), UnboundedReceiverStream::new(bytes));
        Self { up: Some(up), down: Box::pin(down), read: BytesMut::new() }
    }

    fn send_bytes(&self, bytes: impl AsRef<[u8]>) {
        let up = self.up.as_ref().unwrap();
        // The echo may have stopped reading; tests assert that afterwards.
        up.send(Ok(Bytes::copy_from_slice(bytes.as_ref()))).ok();
    }

    fn send(&self, message: Message) {
        self.send_bytes(encoded(message));
    }

    /// Returns the next frame, or `None` at the end.
    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = Codec::new().client_mode().decode(&mut self.read).unwrap() {
                return Some(frame);
            }
            self.read.extend_from_slice(&self.down.next().await?.unwrap());
        }
    }

    async fn closed(&mut self) -> (u16, String) {
        match self.next().await {
            Some(Frame::Close(Some(CloseReason { code, description }))) => {
                (code.into(), description.unwrap_or_default())
            }
            other => panic!("{other:?}"),
        }
    }
}

fn encoded(message: Message) -> Bytes {
    let mut bytes = BytesMut::new();
    Codec::new().client_mode().encode(message, &mut bytes).unwrap();
    bytes.freeze()
}

fn closing(code: u16, reason: &str) -> Message {
    let description = (!reason.is_empty()).then(|| reason.to_owned());
    Message::Close(Some(CloseReason { code: CloseCode::from(code), description }))
}

/// Builds a frame with these first two bytes, masked with zeros.
fn raw(first: u8, length: u8, payload: &[u8]) -> Vec<u8> {
    [&[first, length | 0x80, 0, 0, 0, 0][..], payload].concat()
}

/// Runs a test in virtual time; returns how long it took.
fn timed(test: impl AsyncFnOnce(Peer)) -> Duration {
    actix::System::new().block_on(async {
        tokio::time::pause();
        let begun = Instant::now();
        timeout(Duration::from_secs(60), test(Peer::open())).await.expect("it ends");
        begun.elapsed()
    })
}

#[test]
fn a_close_is_answered_with_its_own_reason_after_all_messages() {
    let took = timed(async |mut peer| {
        peer.send(Message::Text("one".into()));
        peer.send(Message::Text("two".into()));
        peer.send(closing(4001, "done"));
        peer.send(Message::Text("three".into()));
        assert_eq!(peer.next().await, Some(Frame::Text("one".into())));
        assert_eq!(peer.next().await, Some(Frame::Text("two".into())));
        assert_eq!(peer.closed().await, (4001, "done".into()));
        assert_eq!(peer.next().await, None);
    });
    assert_eq!(took, Duration::ZERO);
}

#[test]
fn a_close_without_a_code_is_answered_by_one_without_a_code() {
    timed(async |mut peer| {
        peer.send(Message::Close(None));
        assert_eq!(peer.next().await, Some(Frame::Close(None)));
        assert_eq!(peer.next().await, None);
    });
}

#[test]
fn every_fault_closes_with_its_code_and_meaning_and_nothing_follows() {
    for row in &TABLE {
        let took = timed(async |mut peer| {
            peer.send(Message::Text(format!("leave {}", row.code).into()));
            assert_eq!(peer.next().await, Some(Frame::Text("before".into())));
            assert_eq!(peer.closed().await, (row.close_code, row.meaning.into()));
            peer.send(closing(row.close_code, row.meaning));
            assert_eq!(peer.next().await, None);
        });
        assert_eq!(took, Duration::ZERO, "the peer has answered");
    }
}

#[test]
fn the_wait_for_a_peers_close_is_limited() {
    let took = timed(async |mut peer| {
        peer.send(Message::Text("leave IDLE".into()));
        peer.next().await;
        assert_eq!(peer.closed().await.0, 1000);
        assert_eq!(peer.next().await, None);
    });
    assert!((CLOSE_WITHIN..CLOSE_WITHIN + SLACK).contains(&took), "{took:?}");
}

#[test]
fn a_peer_that_floods_us_after_our_close_is_not_read_forever() {
    let took = timed(async |mut peer| {
        peer.send(Message::Text("leave REPLACED".into()));
        peer.next().await;
        peer.closed().await;
        let up = peer.up.clone().unwrap();
        let flood = actix::spawn(async move {
            let mut often = tokio::time::interval(Duration::from_millis(1));
            while up.send(Ok(encoded(Message::Binary(vec![0; 150].into())))).is_ok() {
                often.tick().await;
            }
        });
        assert_eq!(peer.next().await, None);
        drop(peer);
        flood.await.unwrap();
    });
    assert!(took < CLOSE_WITHIN + SLACK, "{took:?}");
}

/// A frame is split at the time of our Close, and a ping and others come before the peer's Close.
#[test]
fn the_answer_to_our_close_is_found_behind_earlier_frames() {
    let took = timed(async |mut peer| {
        let long = encoded(Message::Binary(vec![8; 190].into()));
        peer.send(Message::Text("leave BUSY".into()));
        peer.send_bytes(&long[..100]);
        peer.next().await;
        peer.closed().await;
        peer.send_bytes(&long[100..]);
        peer.send(Message::Ping("there?".into()));
        peer.send(Message::Continuation(Item::FirstText("half".into())));
        let answer = encoded(closing(1013, ""));
        peer.send_bytes(&answer[..1]);
        peer.send_bytes(&answer[1..]);
        assert_eq!(peer.next().await, None, "no pong after a Close");
    });
    assert_eq!(took, Duration::ZERO);
}

#[test]
fn a_peer_that_drops_its_side_gets_no_close_and_no_wait() {
    let took = timed(async |mut peer| {
        peer.send(Message::Text("leave IDLE".into()));
        peer.next().await;
        peer.closed().await;
        peer.up = None;
        assert_eq!(peer.next().await, None);
    });
    assert_eq!(took, Duration::ZERO, "dropped after our Close");
    let took = timed(async |mut peer| {
        peer.send(Message::Text("an unfinished text".into()));
        assert!(peer.next().await.is_some());
        peer.up = None;
        assert_eq!(peer.next().await, None);
    });
    assert_eq!(took, Duration::ZERO, "dropped before any Close");
}

#[test]
fn protocol_errors_close_at_once_with_the_code_of_rfc_6455() {
    let long = [&[0x82, 0xFF][..], &65_537_u64.to_be_bytes(), &[0; 4]].concat();
    let endless = [&[0x82, 0xFF][..], &u64::MAX.to_be_bytes(), &[0; 4]].concat();
    let cases: &[(&str, Vec<u8>, u16)] = &[
        ("a code that is never sent", raw(0x88, 2, &1005_u16.to_be_bytes()), 1002),
        ("another", raw(0x88, 2, &1006_u16.to_be_bytes()), 1002),
        ("a code below all", raw(0x88, 2, &999_u16.to_be_bytes()), 1002),
        ("a code above all", raw(0x88, 2, &5000_u16.to_be_bytes()), 1002),
        ("half a code", raw(0x88, 1, &[3]), 1002),
        ("a reason that is not UTF-8", raw(0x88, 4, &[3, 0xE8, 0xC3, 0x28]), 1007),
        ("a long Close", vec![0x88, 0xFE, 0, 126, 0, 0, 0, 0], 1002),
        ("half a Close", raw(0x08, 2, &[3, 0xE8]), 1002),
        ("half a ping", raw(0x09, 0, &[]), 1002),
        ("no mask", vec![0x81, 2, b'h', b'i'], 1002),
        ("a reserved bit", raw(0xC1, 2, b"hi"), 1002),
        ("an unknown kind", raw(0x83, 2, b"hi"), 1002),
        ("an unknown control frame", raw(0x8B, 0, b""), 1002),
        ("the middle of no message", raw(0x00, 2, b"hi"), 1002),
        ("the end of no message", raw(0x80, 2, b"hi"), 1002),
        ("a message within another", [raw(0x01, 2, b"hi"), raw(0x81, 2, b"hi")].concat(), 1002),
        ("text that is not UTF-8", raw(0x81, 2, &[0xC3, 0x28]), 1007),
        ("the same in two parts", [raw(0x01, 1, &[0xC3]), raw(0x80, 1, &[0x28])].concat(), 1007),
        ("a frame too large, before its content", long, 1009),
        ("one that never ends", endless, 1009),
        ("parts too large", [raw(0x02, 120, &[0; 120]), raw(0x80, 120, &[0; 120])].concat(), 1009),
    ];
    for (what, bytes, code) in cases {
        let took = timed(async |mut peer| {
            peer.send(Message::Text("one".into()));
            peer.send_bytes(bytes);
            assert_eq!(peer.next().await, Some(Frame::Text("one".into())), "{what}");
            assert_eq!(peer.closed().await.0, *code, "{what}");
            peer.up = None;
            assert_eq!(peer.next().await, None, "{what}");
        });
        assert_eq!(took, Duration::ZERO, "{what}");
    }
}

#[test]
fn tiny_frames_come_at_a_pace_and_others_have_their_turn_between_them() {
    const FRAMES: usize = 3_001;
    let took = timed(async |mut peer| {
        for _ in 0..FRAMES {
            peer.send(Message::Ping(Bytes::new()));
        }
        let mut answered = 0;
        let mut pauses = 0;
        let mut last = Instant::now();
        while answered < FRAMES {
            let frame = peer.next().await;
            assert!(matches!(frame, Some(Frame::Pong(_))), "{frame:?}");
            answered += 1;
            pauses += usize::from(last.elapsed() > Duration::from_millis(500));
            last = Instant::now();
        }
        assert_eq!(pauses, 3);
    });
    assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn control_frames_between_fragments_are_answered_and_the_fragments_joined() {
    timed(async |mut peer| {
        peer.send(Message::Continuation(Item::FirstText("gr".into())));
        peer.send(Message::Ping("1".into()));
        // A character is split between two fragments.
        peer.send_bytes(raw(0x00, 1, &"ü".as_bytes()[..1]));
        peer.send(Message::Ping("2".into()));
        peer.send_bytes(raw(0x80, 2, &[&"ü".as_bytes()[1..], b"n"].concat()));
        assert_eq!(peer.next().await, Some(Frame::Pong("1".into())));
        assert_eq!(peer.next().await, Some(Frame::Pong("2".into())));
        assert_eq!(peer.next().await, Some(Frame::Text("grün".into())));
        peer.send(Message::Continuation(Item::FirstText("never".into())));
        peer.send(closing(1000, ""));
        assert_eq!(peer.closed().await, (1000, String::new()));
    });
}

/// Actor that stops without a Close frame.
struct Silent;

impl Actor for Silent {
    type Context = SocketContext<Self>;
}

impl StreamHandler<SocketFrame> for Silent {
    fn handle(&mut self, _: SocketFrame, ctx: &mut Self::Context) {
        actix::ActorContext::stop(ctx);
    }
}

#[test]
fn an_actor_that_stops_without_a_close_reports_an_internal_error() {
    timed(async |mut peer| {
        let (up, bytes) = unbounded_channel();
        peer.down = Box::pin(attach(Silent, UnboundedReceiverStream::new(bytes)));
        peer.up = Some(up);
        peer.send(Message::Text("hello".into()));
        assert_eq!(peer.closed().await.0, Fault::Internal.row().close_code);
    });
}
