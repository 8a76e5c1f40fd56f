//! A WebSocket of a client to one instance, which may be killed. Not for its messages.

use actix::{Actor, StreamHandler};
use actix_http::ws;
use bytes::Bytes;
use hearken_socket::testkit::{MemorySocket, Received};
use hearken_socket::{SocketContext, SocketFrame};
use serde_json::Value;
use tokio::time::Instant;

use crate::instance::Instance;

/// An open connection.
pub(crate) struct Connection {
    /// Number of the instance.
    pub(crate) number: usize,
    instance: Instance,
    socket: MemorySocket,
}

/// The server has disconnected or was killed.
pub(crate) struct Lost;

impl Connection {
    pub(crate) fn open<A>(number: usize, instance: Instance, actor: A) -> Self
    where
        A: Actor<Context = SocketContext<A>> + StreamHandler<SocketFrame>,
    {
        Self { number, instance, socket: MemorySocket::open(actor, true) }
    }

    pub(crate) fn send(&self, message: &Value) {
        self.socket.send(ws::Message::Text(message.to_string().into()));
    }

    pub(crate) fn send_audio(&self, packet: Bytes) {
        self.socket.send(ws::Message::Binary(packet));
    }

    /// The next message, if it arrives by this time.
    pub(crate) async fn next(&mut self, by: Instant) -> Result<Option<Received>, Lost> {
        let down = tokio::select! {
            biased;
            () = self.instance.life.over() => return Err(Lost),
            down = self.socket.next_by(by) => down.map(|down| down.what),
        };
        if matches!(down, Some(Received::Gone | Received::Closed(_))) {
            return Err(Lost);
        }
        Ok(down)
    }
}
