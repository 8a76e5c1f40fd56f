//! WebSocket of a socket actor: upgrade, joining and bounding of frames, answers to pings, and the
//! only way in which such a socket ends. Not for the content of messages.
//!
//! Reading order: this file, `context` (what an actor writes to), `frames` (what it reads),
//! `budget` (limit of unhandled bytes), `ending` (the bytes on the wire and the closing handshake).
//!
//! - Whichever side closes, both send a Close frame, ours after all that was written before it;
//!   then the TCP connection ends. The actor itself stops at once and frees all that it holds.
//! - A peer has [`CLOSE_WITHIN`] to answer our Close; anything else that it sends meanwhile is
//!   dropped.
//! - A peer that drops the connection, or half of it, gets no Close.

mod budget;
mod context;
mod ending;
mod frames;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(feature = "testkit")]
pub mod testkit;
#[cfg(test)]
mod tests;

use actix::{Actor, StreamHandler};
use actix_http::ws::{CloseCode, CloseReason, HandshakeError};
use actix_web::error::PayloadError;
use actix_web::{HttpRequest, HttpResponse};
// The only file that uses this crate, whose maintenance has slowed down. Decision 0005.
use actix_web_actors::ws;
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use hearken_base::CLOSE_WITHIN;
use hearken_proto::fault::Fault;

use self::ending::Outbound;
use self::frames::{Data, Frame, Kind};

pub use self::budget::{HeldText, SharedBudget, SocketBudget};
pub use self::context::SocketContext;
pub use self::frames::SocketFrame;

/// Maximum size of a frame, and of a message joined from fragments: firmware sends up to 65,535
/// bytes.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Result of one incoming frame, after joining fragments and answering pings and a Close.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A complete text message.
    Text(String),
    /// A complete binary message.
    Binary(Bytes),
    /// No message yet, but the peer is alive: a Ping, a Pong, or a fragment.
    Alive,
    /// The peer closed: its Close is answered, and the actor stops.
    Closed,
    /// The peer violated the protocol or a limit; close with this fault.
    Broken(Fault),
}

/// Reassembly of the fragments of one socket.
#[derive(Debug)]
pub struct Inbound {
    joining: Option<(Kind, BytesMut)>,
    max_bytes: usize,
}

impl Default for Inbound {
    fn default() -> Self {
        Self::with_limit(MAX_MESSAGE_BYTES)
    }
}

impl Inbound {
    /// Creates the reassembly of messages of up to `max_bytes` bytes.
    pub fn with_limit(max_bytes: usize) -> Self {
        Self { joining: None, max_bytes }
    }

    /// Processes one frame. Answers pings and a Close by itself.
    pub fn accept<A>(
        &mut self,
        SocketFrame(frame): SocketFrame,
        ctx: &mut SocketContext<A>,
    ) -> Incoming
    where
        A: Actor<Context = SocketContext<A>>,
    {
        match frame {
            Ok(Frame::Data(data)) => self.join(data).unwrap_or_else(Incoming::Broken),
            Ok(Frame::Ping(payload)) => {
                ctx.pong(&payload);
                Incoming::Alive
            }
            Ok(Frame::Pong) => Incoming::Alive,
            Ok(Frame::Close(reason)) => {
                ctx.close(reason);
                Incoming::Closed
            }
            Err(fault) => Incoming::Broken(fault),
        }
    }

    fn join(&mut self, Data { kind, last, payload }: Data) -> Result<Incoming, Fault> {
        let (kind, whole) = match (kind, &mut self.joining) {
            (Some(kind), None) if last => (kind, payload),
            (Some(kind), joining @ None) => {
                *joining = Some((kind, payload));
                return Ok(Incoming::Alive);
            }
            (Some(_), Some(_)) | (None, None) => return Err(Fault::Protocol),
            (None, Some((kind, joined))) => {
                if joined.len() + payload.len() > self.max_bytes {
                    return Err(Fault::TooLarge);
                }
                joined.extend_from_slice(&payload);
                if !last {
                    return Ok(Incoming::Alive);
                }
                let whole = (*kind, std::mem::take(joined));
                self.joining = None;
                whole
            }
        };
        match kind {
            Kind::Binary => Ok(Incoming::Binary(whole.freeze())),
            Kind::Text => match std::str::from_utf8(&whole) {
                Ok(text) => Ok(Incoming::Text(text.to_owned())),
                Err(_) => Err(Fault::NotText),
            },
        }
    }
}

/// Sends the peer a Close frame with the reason, and stops the actor; what it writes afterwards is
/// dropped.
pub fn close<A>(ctx: &mut SocketContext<A>, fault: Fault)
where
    A: Actor<Context = SocketContext<A>>,
{
    let row = fault.row();
    let code = CloseCode::from(row.close_code);
    ctx.close(Some(CloseReason { code, description: Some(row.meaning.into()) }));
}

/// Closes with code 1000 because the conversation is over, and stops the actor.
pub fn close_normally<A>(ctx: &mut SocketContext<A>)
where
    A: Actor<Context = SocketContext<A>>,
{
    ctx.close(Some(CloseCode::Normal.into()));
}

/// Answers a WebSocket handshake and starts the actor on the socket.
///
/// # Errors
/// Fails if the request is not a WebSocket handshake.
pub fn upgrade<A>(
    actor: A,
    request: &HttpRequest,
    payload: actix_web::web::Payload,
) -> Result<HttpResponse, HandshakeError>
where
    A: Actor<Context = SocketContext<A>> + StreamHandler<SocketFrame>,
{
    upgrade_with_limit(actor, request, payload, MAX_MESSAGE_BYTES)
}

/// Answers a WebSocket handshake as `upgrade` does, for peers whose frames may have up to
/// `max_bytes` bytes.
///
/// # Errors
/// Fails if the request is not a WebSocket handshake.
pub fn upgrade_with_limit<A>(
    actor: A,
    request: &HttpRequest,
    payload: actix_web::web::Payload,
    max_bytes: usize,
) -> Result<HttpResponse, HandshakeError>
where
    A: Actor<Context = SocketContext<A>> + StreamHandler<SocketFrame>,
{
    Ok(ws::handshake(request)?.streaming(Outbound::open(actor, payload, max_bytes, None)))
}

/// Answers a WebSocket handshake as `upgrade_with_limit` does. The socket is not read while this
/// budget is used up.
///
/// # Errors
/// Fails if the request is not a WebSocket handshake.
pub fn upgrade_with_budget<A>(
    actor: A,
    request: &HttpRequest,
    payload: actix_web::web::Payload,
    max_bytes: usize,
    budget: SocketBudget,
) -> Result<HttpResponse, HandshakeError>
where
    A: Actor<Context = SocketContext<A>> + StreamHandler<SocketFrame>,
{
    Ok(ws::handshake(request)?.streaming(Outbound::open(actor, payload, max_bytes, Some(budget))))
}

/// Starts the actor on a stream of raw WebSocket bytes, without a handshake. Returns the stream of
/// the bytes that it sends.
pub fn attach<A, S>(
    actor: A,
    bytes: S,
) -> impl Stream<Item = Result<Bytes, actix_web::Error>> + use<A, S>
where
    A: Actor<Context = SocketContext<A>> + StreamHandler<SocketFrame>,
    S: Stream<Item = Result<Bytes, PayloadError>> + Unpin + 'static,
{
    Outbound::open(actor, bytes, MAX_MESSAGE_BYTES, None)
}
