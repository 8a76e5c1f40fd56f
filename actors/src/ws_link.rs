//! The WebSocket under an edge actor: upgrade, frames joined and bounded, pings answered, closes
//! with the codes of the fault table. The only file that knows `actix_web_actors`, which is
//! deprecated: to swap it, rewrite this file.

use actix::{Actor, StreamHandler};
use actix_http::ws::{Codec, Item};
use actix_web::error::PayloadError;
use actix_web::{HttpRequest, HttpResponse};
use actix_web_actors::ws;
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use hearken_proto::fault::Fault;

/// Largest frame, and largest message joined from fragments: firmware sends up to 65,535 bytes.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Frames of one socket that may be unreadable (no UTF-8) before it is closed.
const MAX_UNREADABLE: u32 = 100;

/// The context of an actor that is a socket.
pub type SocketContext<A> = ws::WebsocketContext<A>;

/// What the stream of a socket's frames yields.
pub type SocketFrame = Result<ws::Message, ws::ProtocolError>;

/// What came in, after joining fragments and answering pings.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A whole text message; invalid UTF-8 is replaced.
    Text(String),
    /// A whole binary message.
    Binary(Bytes),
    /// A sign of life without content.
    Alive,
    /// The peer closed.
    Closed,
    /// The peer broke the protocol or a limit; close with this fault.
    Broken(Fault),
}

/// Joins fragments of one socket.
#[derive(Debug)]
pub struct Inbound {
    joining: Option<(bool, BytesMut)>,
    unreadable: u32,
    max_bytes: usize,
}

impl Default for Inbound {
    fn default() -> Self {
        Self::with_limit(MAX_MESSAGE_BYTES)
    }
}

impl Inbound {
    /// One whose joined messages may have this many bytes.
    pub fn with_limit(max_bytes: usize) -> Self {
        Self { joining: None, unreadable: 0, max_bytes }
    }

    /// Takes one frame; answers pings by itself.
    pub fn accept<A>(&mut self, frame: SocketFrame, ctx: &mut SocketContext<A>) -> Incoming
    where
        A: Actor<Context = SocketContext<A>>,
    {
        match frame {
            Ok(ws::Message::Text(text)) => Incoming::Text(text.to_string()),
            Ok(ws::Message::Binary(bytes)) => Incoming::Binary(bytes),
            Ok(ws::Message::Ping(payload)) => {
                ctx.pong(&payload);
                Incoming::Alive
            }
            Ok(ws::Message::Pong(_) | ws::Message::Nop) => Incoming::Alive,
            Ok(ws::Message::Continuation(item)) => self.join(item),
            Ok(ws::Message::Close(_)) => Incoming::Closed,
            Err(ws::ProtocolError::Overflow) => Incoming::Broken(Fault::TooLarge),
            // Text that is no UTF-8 comes as this error, and the socket lives on; so does a
            // broken payload, after which the stream ends by itself.
            Err(ws::ProtocolError::Io(_)) => {
                self.unreadable += 1;
                if self.unreadable > MAX_UNREADABLE { Incoming::Closed } else { Incoming::Alive }
            }
            Err(_) => Incoming::Broken(Fault::Protocol),
        }
    }

    fn join(&mut self, item: Item) -> Incoming {
        let (part, last) = match item {
            Item::FirstText(b) => {
                self.joining = Some((true, BytesMut::new()));
                (b, false)
            }
            Item::FirstBinary(b) => {
                self.joining = Some((false, BytesMut::new()));
                (b, false)
            }
            Item::Continue(b) => (b, false),
            Item::Last(b) => (b, true),
        };
        let Some((text, buffer)) = &mut self.joining else {
            return Incoming::Broken(Fault::Protocol);
        };
        if buffer.len() + part.len() > self.max_bytes {
            return Incoming::Broken(Fault::TooLarge);
        }
        buffer.extend_from_slice(&part);
        if !last {
            return Incoming::Alive;
        }
        let (text, whole) = (*text, buffer.split().freeze());
        self.joining = None;
        if text {
            Incoming::Text(String::from_utf8_lossy(&whole).into_owned())
        } else {
            Incoming::Binary(whole)
        }
    }
}

/// Tells the peer why, and closes. The peer is not waited for: firmware never echoes a Close.
pub fn close<A>(ctx: &mut SocketContext<A>, fault: Fault)
where
    A: Actor<Context = SocketContext<A>>,
{
    let row = fault.row();
    ctx.close(Some(ws::CloseReason {
        code: ws::CloseCode::from(row.close_code),
        description: Some(row.meaning.into()),
    }));
}

/// Answers a WebSocket handshake and starts the actor on the socket.
///
/// # Errors
/// The request is no WebSocket handshake.
pub fn upgrade<A>(
    actor: A,
    request: &HttpRequest,
    payload: actix_web::web::Payload,
) -> Result<HttpResponse, actix_web::Error>
where
    A: Actor<Context = SocketContext<A>> + StreamHandler<SocketFrame>,
{
    upgrade_with_limit(actor, request, payload, MAX_MESSAGE_BYTES)
}

/// The same for peers whose frames may have this many bytes.
///
/// # Errors
/// The request is no WebSocket handshake.
pub fn upgrade_with_limit<A>(
    actor: A,
    request: &HttpRequest,
    payload: actix_web::web::Payload,
    max_bytes: usize,
) -> Result<HttpResponse, actix_web::Error>
where
    A: Actor<Context = SocketContext<A>> + StreamHandler<SocketFrame>,
{
    ws::WsResponseBuilder::new(actor, request, payload).frame_size(max_bytes).start()
}

/// Starts the actor on a stream of raw WebSocket bytes, without a handshake; the result is the
/// bytes that it sends.
pub fn attach<A, S>(
    actor: A,
    bytes: S,
) -> impl Stream<Item = Result<Bytes, actix_web::Error>> + use<A, S>
where
    A: Actor<Context = SocketContext<A>> + StreamHandler<SocketFrame>,
    S: Stream<Item = Result<Bytes, PayloadError>> + 'static,
{
    ws::WebsocketContext::with_codec(actor, bytes, Codec::new().max_size(MAX_MESSAGE_BYTES))
}
