//! Parts that the sockets of both services share: accepting, limits, keep-alive, and closing within
//! a time limit. The messages are handled in `asr_service` and `tts_service`.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use hearken_outbound::websocket;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};
use tokio_util::sync::CancellationToken;

/// Maximum size of an inbound message, in bytes; the original services have the same limit.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
const PING_EVERY: Duration = Duration::from_secs(20);
/// Idle timeout: three pings without any answer.
const IDLE_DEADLINE: Duration = Duration::from_secs(65);
const WRITE_DEADLINE: Duration = Duration::from_secs(20);

/// Maximum number of connections of one service.
pub(crate) const MAX_CONNECTIONS: usize = 128;

/// Maximum number of messages that wait for a slow client.
pub(crate) const OUT_LEN: usize = 64;

/// Accepted connection.
pub type Socket = WebSocketStream<TcpStream>;

/// Accepts connections on `listener` until `stop` is cancelled, then waits for the open ones, which
/// receive `stop` too. Answers 404 on paths other than `paths`, and 503 beyond `most` connections.
pub async fn accept<F, C>(
    listener: TcpListener,
    paths: &'static [&'static str],
    most: usize,
    stop: CancellationToken,
    connection: C,
) where
    F: Future<Output = ()> + Send + 'static,
    C: Fn(Socket) -> F + Clone + Send + 'static,
{
    let room = Arc::new(Semaphore::new(most));
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = open.join_next(), if !open.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Most likely the process has no free file descriptors: waiting lets connections
                // end.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let permit = Arc::clone(&room).try_acquire_owned().ok();
        let connection = connection.clone();
        let stop = stop.clone();
        open.spawn(async move {
            let shaking = timeout(HANDSHAKE_DEADLINE, shake(stream, paths, permit.is_some()));
            if let Some(Ok(Some(socket))) = stop.run_until_cancelled(shaking).await {
                connection(socket).await;
            }
            drop(permit);
        });
    }
    drop(listener);
    while open.join_next().await.is_some() {}
}

async fn shake(stream: TcpStream, paths: &'static [&'static str], room: bool) -> Option<Socket> {
    // Small messages are sent at once. A socket that refuses the option works without it.
    let _refused = stream.set_nodelay(true);
    let config = websocket::limited(MAX_MESSAGE_BYTES).write_buffer_size(16 << 10);
    #[expect(clippy::result_large_err, reason = "the library's signature")]
    let check = |request: &Request, response: Response| {
        if !room {
            return Err(refusal(StatusCode::SERVICE_UNAVAILABLE, "too many connections"));
        }
        if !paths.contains(&request.uri().path()) {
            return Err(refusal(StatusCode::NOT_FOUND, "no such path"));
        }
        Ok(response)
    };
    let shaken = tokio_tungstenite::accept_hdr_async_with_config(stream, check, Some(config)).await;
    shaken.inspect_err(|error| tracing::debug!(%error, "handshake failed")).ok()
}

fn refusal(status: StatusCode, reason: &str) -> ErrorResponse {
    let mut response = ErrorResponse::new(Some(reason.to_owned()));
    *response.status_mut() = status;
    response
}

/// Reason why a connection ends.
pub(crate) enum End {
    /// The service closes it, with this close frame.
    Ours(CloseFrame),
    /// The client has closed it or disappeared.
    Theirs,
}

impl End {
    fn because(code: CloseCode, reason: &'static str) -> Self {
        Self::Ours(websocket::because(code, reason))
    }

    /// Converts a read error to the end of the connection.
    fn from_error(error: &Error) -> Self {
        match error {
            Error::Capacity(_) => Self::because(CloseCode::Size, "the message is too large"),
            Error::Utf8(_) => Self::because(CloseCode::Invalid, "the text is no UTF-8"),
            Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Self::Theirs,
            Error::Protocol(_) => {
                Self::because(CloseCode::Protocol, "the WebSocket protocol was broken")
            }
            _ => Self::Theirs,
        }
    }
}

/// Returns the close frame for a service that stops.
fn stopped() -> CloseFrame {
    websocket::because(CloseCode::Away, "the service stops")
}

/// Closes a connection whose halves are no longer used.
pub(crate) async fn end(sink: SplitSink<Socket, Message>, stream: SplitStream<Socket>, why: End) {
    let Ok(socket) = stream.reunite(sink) else { return };
    let frame = match why {
        End::Ours(frame) => frame,
        // Not sent: the client's own close frame is answered.
        End::Theirs => websocket::because(CloseCode::Normal, ""),
    };
    websocket::end(socket, frame).await;
}

/// Ends a connection that is not split, with Close 1001.
pub async fn close(socket: Socket) {
    websocket::end(socket, stopped()).await;
}

/// Writes the messages from `out`, and pings in between, until the client is gone or too slow, or
/// `stop` is cancelled. Returns the reason of the end.
pub(crate) async fn write(
    sink: &mut SplitSink<Socket, Message>,
    mut out: mpsc::Receiver<Message>,
    stop: CancellationToken,
) -> End {
    let mut ping = interval(PING_EVERY);
    ping.reset();
    loop {
        let message = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            message = out.recv() => match message {
                Some(message) => message,
                None => break,
            },
            _ = ping.tick() => Message::Ping(Bytes::new()),
        };
        let sending = timeout(WRITE_DEADLINE, sink.send(message));
        match stop.run_until_cancelled(sending).await {
            None => break,
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(_))) => return End::Theirs,
            Some(Err(_)) => {
                tracing::warn!("closing a connection: the client does not read");
                return End::because(CloseCode::Policy, "the client does not read");
            }
        }
    }
    End::Ours(stopped())
}

/// Waits for the next text or binary message. Returns the reason of the end if the client has
/// closed, is gone or silent too long, or violates the protocol.
pub(crate) async fn next(stream: &mut SplitStream<Socket>) -> Result<Message, End> {
    loop {
        match timeout(IDLE_DEADLINE, stream.next()).await {
            Ok(Some(Ok(message @ (Message::Text(_) | Message::Binary(_))))) => {
                return Ok(message);
            }
            Ok(Some(Ok(Message::Close(_))) | None) => return Err(End::Theirs),
            Ok(Some(Err(error))) => return Err(End::from_error(&error)),
            Ok(Some(Ok(_))) => {}
            Err(_) => {
                tracing::debug!("closing a connection: the client is idle");
                return Err(End::because(CloseCode::Normal, "nothing was heard for too long"));
            }
        }
    }
}

/// Returns the milliseconds since 1970, the time stamp of both protocols.
pub fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use tokio_tungstenite::connect_async;

    use super::*;

    #[tokio::test]
    async fn a_silent_client_does_not_delay_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let connection = |socket: Socket| async { drop(socket) };
        let accepting = tokio::spawn(accept(listener, &["/"], 2, stop.clone(), connection));
        let _silent = TcpStream::connect(address).await.unwrap();
        // Connections are accepted in order: once this one is accepted, the service waits for the
        // silent one.
        connect_async(format!("ws://{address}/")).await.unwrap();
        stop.cancel();
        timeout(HANDSHAKE_DEADLINE / 2, accepting).await.expect("it ends at once").unwrap();
    }
}
