//! Fuzz target: what a peer sends on its socket, byte by byte.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Waker};

use actix_http::ws::{CloseReason, Codec, Message};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use hearken_base::fuzzing::pieces;
use hearken_proto::fault::Fault;
use tokio_util::codec::Encoder as _;

use super::frames::{Frame, Frames, Reader, SocketFrame};
use super::{Inbound, Incoming};

/// Largest frame, and largest joined message: small, so that inputs reach it.
const MAX_BYTES: usize = 1_000;

/// What a socket's bytes were read as.
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

/// Reads what comes in these pieces, as a socket actor does.
fn read(pieces: &[&[u8]]) -> Vec<SocketEvent> {
    let bytes: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let reader = Rc::new(RefCell::new(Reader::new(stream::iter(bytes), MAX_BYTES)));
    let mut frames = Frames::new(Rc::clone(&reader), None);
    let mut inbound = Inbound::with_limit(MAX_BYTES);
    let mut told = Vec::new();
    loop {
        // Between frames, others have their turn.
        let frame = std::iter::repeat_with(|| frames.next().now_or_never()).take(2);
        let frame = frame.flatten().next().expect("nothing waits");
        let Some(SocketFrame(frame)) = frame else { break };
        told.push(match frame {
            Ok(Frame::Data(data)) => {
                SocketEvent::Message(inbound.join(data).unwrap_or_else(Incoming::Broken))
            }
            Ok(Frame::Ping(payload)) => SocketEvent::Ping(payload),
            Ok(Frame::Pong) => SocketEvent::Pong,
            Ok(Frame::Close(reason)) => SocketEvent::Closed(reason),
            Err(fault) => SocketEvent::Message(Incoming::Broken(fault)),
        });
        // An actor closes then; what it has read is not asked for any more.
        if matches!(told.last(), Some(SocketEvent::Message(Incoming::Broken(_)))) {
            break;
        }
    }
    let mut reader = reader.borrow_mut();
    if reader.is_gone() {
        told.push(SocketEvent::Gone);
    }
    let over = reader.poll_over(&mut Context::from_waker(Waker::noop()));
    told.push(SocketEvent::Over(over.is_ready()));
    told
}

/// Anything is read or refused, the same however it is cut, and within the limits; what was encoded
/// is read as it was.
///
/// # Panics
/// Panics if that is not so.
pub fn inbound_frames(bytes: &[u8]) {
    let cut = pieces(bytes);
    let told = read(&[bytes]);
    assert_eq!(read(&cut), told, "the cut changes nothing");
    for one in &told {
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
