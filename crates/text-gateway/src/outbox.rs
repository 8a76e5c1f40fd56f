//! Messages on their way to one text client, in order. Ends the connection of a client that accepts
//! none. Not for writing them to the socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hearken_proto::text_gateway::ServerMessage;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Capacity of the queue; when it is full, the turn waits.
const QUEUE: usize = 16;
/// Maximum wait of a message while the queue is full. The actor of a socket that accepts nothing does
/// not run, so that none of its timers ends the connection, and the turn would never end.
const ACCEPTS_WITHIN: Duration = Duration::from_secs(30);

/// Queue of the messages to one client. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    messages: mpsc::Sender<ServerMessage>,
    /// Token of the connection.
    connection: CancellationToken,
    /// True once the client has accepted nothing for too long.
    is_stalled: Arc<AtomicBool>,
}

impl Outbox {
    /// Creates the queue of a connection, and the receiver of its messages.
    pub(crate) fn new(connection: CancellationToken) -> (Self, mpsc::Receiver<ServerMessage>) {
        let (messages, received) = mpsc::channel(QUEUE);
        (Self { messages, connection, is_stalled: Arc::default() }, received)
    }

    /// Sends a message. Returns false if the client has left. A client that accepts none for 30 s is
    /// disconnected.
    pub(crate) async fn send(&self, message: ServerMessage) -> bool {
        let sending = timeout(ACCEPTS_WITHIN, self.messages.send(message));
        let sent = tokio::select! {
            biased;
            sent = sending => sent,
            () = self.connection.cancelled() => return false,
        };
        if sent.is_err() && !self.is_stalled.swap(true, Ordering::Relaxed) {
            tracing::warn!(waited = ?ACCEPTS_WITHIN, "closing: the client does not read its messages");
            self.connection.cancel();
        }
        sent.is_ok_and(|sent| sent.is_ok())
    }

    /// Waits until the client has left.
    pub(crate) async fn closed(&self) {
        tokio::select! {
            () = self.messages.closed() => {}
            () = self.connection.cancelled() => {}
        }
    }

    /// Reports whether the connection ended because its client accepted nothing.
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Relaxed)
    }
}
