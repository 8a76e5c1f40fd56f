//! Fuzz target: what a peer sends on its socket, byte by byte.

use std::future::poll_fn;
use std::task::{Context, Waker};

use actix_http::ws::{CloseReason, Codec, Message};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, stream};
use hearken_base::fuzzing::pieces;
use hearken_proto::fault::Fault;
use tokio_util::codec::Encoder as _;

use super::frames::{Frame, Reader, SocketFrame};
use super::{Inbound, Incoming};

/// Largest frame, and largest joined message: small, so that inputs reach it.
const MAX_BYTES: usize = 1_000;

/// Event that a socket's bytes were read as.
#[derive(Debug, PartialEq)]
enum SocketEvent {
    Message(Incoming),
    Ping(Bytes),
    Pong,
    Closed(Option<CloseReason>),
    /// The peer is gone without a Close.
    Gone,
    /// The peer has closed, or is gone, after its last frame.
    Over(bool),
}

/// Reads these pieces as a socket actor does, but without its rate limit, which needs a clock.
fn read(pieces: &[&[u8]]) -> Vec<SocketEvent> {
    let bytes: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let mut reader = Reader::new(stream::iter(bytes), MAX_BYTES);
    let mut inbound = Inbound::with_limit(MAX_BYTES);
    let mut events = Vec::new();
    loop {
        let frame = poll_fn(|cx| reader.poll_frame(cx)).now_or_never();
        let frame = frame.expect("the reader never waits for more bytes");
        let Some(SocketFrame(frame)) = frame else { break };
        events.push(match frame {
            Ok(Frame::Data(data)) => {
                SocketEvent::Message(inbound.join(data).unwrap_or_else(Incoming::Broken))
            }
            Ok(Frame::Ping(payload)) => SocketEvent::Ping(payload),
            Ok(Frame::Pong) => SocketEvent::Pong,
            Ok(Frame::Close(reason)) => SocketEvent::Closed(reason),
            Err(fault) => SocketEvent::Message(Incoming::Broken(fault)),
        });
        // An actor closes then; the rest of its results is not used.
        if matches!(events.last(), Some(SocketEvent::Message(Incoming::Broken(_)))) {
            break;
        }
    }
    if reader.is_gone() {
        events.push(SocketEvent::Gone);
    }
    let over = reader.poll_over(&mut Context::from_waker(Waker::noop()));
    events.push(SocketEvent::Over(over.is_ready()));
    events
}

/// Any bytes are read or refused, independent of how they are split, and within the limits; an
/// encoded message is read unchanged.
///
/// # Panics
/// Panics if a property is broken.
pub fn inbound_frames(bytes: &[u8]) {
    let cut = pieces(bytes);
    let events = read(&[bytes]);
    assert_eq!(read(&cut), events, "splitting changes nothing");
    for one in &events {
        match one {
            SocketEvent::Message(Incoming::Text(text)) => assert!(text.len() <= MAX_BYTES),
            SocketEvent::Message(Incoming::Binary(bytes)) => assert!(bytes.len() <= MAX_BYTES),
            SocketEvent::Message(Incoming::Broken(fault)) => {
                assert!(matches!(fault, Fault::Protocol | Fault::TooLarge | Fault::NotText));
            }
            SocketEvent::Ping(payload) => assert!(payload.len() <= 125),
            SocketEvent::Over(over) => assert!(over, "the bytes have ended"),
            _ => {}
        }
    }
    let fitting = || cut.iter().filter(|piece| piece.len() <= MAX_BYTES);
    let mut wire = BytesMut::new();
    for piece in fitting() {
        let message = Message::Binary(Bytes::copy_from_slice(piece));
        Codec::new().client_mode().encode(message, &mut wire).expect("a message is encoded");
    }
    let expected = fitting()
        .map(|piece| SocketEvent::Message(Incoming::Binary(Bytes::copy_from_slice(piece))));
    let expected: Vec<_> = expected.chain([SocketEvent::Gone, SocketEvent::Over(true)]).collect();
    assert_eq!(read(&pieces(&wire)), expected);
}
