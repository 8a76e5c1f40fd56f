//! WebSocket connections that tungstenite serves: limits and an orderly close, on either side. Not
//! for the connections of devices and clients, which actix serves, nor for any protocol.

use futures_util::StreamExt as _;
use hearken_base::CLOSE_WITHIN;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};

/// Read buffer of a connection, in bytes. Each connection allocates and zeroes all of it; a longer
/// message uses as much memory as it needs.
const READ_BUFFER_BYTES: usize = 16 << 10;

/// Returns the configuration of a connection that accepts messages up to `longest_message` bytes.
pub fn limited(longest_message: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(longest_message))
        .max_frame_size(Some(longest_message))
        .read_buffer_size(READ_BUFFER_BYTES)
}

/// Builds a close frame with a code and a reason.
pub fn because(code: CloseCode, reason: &'static str) -> CloseFrame {
    CloseFrame { code, reason: reason.into() }
}

/// Closes a connection in order: sends the close frame unless the peer has closed already, answers
/// the peer's Close or waits for its answer, then ends TCP. Takes [`CLOSE_WITHIN`] at most.
/// Dropping the future ends the connection at once.
pub async fn end<S>(mut socket: WebSocketStream<S>, why: CloseFrame)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let ending = async {
        // An error means that the peer is gone. The reads below find that out.
        socket.close(Some(why)).await.ok();
        while let Some(Ok(_)) = socket.next().await {}
        // With unread data, the system would reset the connection and drop our Close.
        let tcp = socket.get_mut();
        tcp.shutdown().await.ok();
        let mut rest = [0; 1 << 10];
        while tcp.read(&mut rest).await.is_ok_and(|bytes| bytes > 0) {}
    };
    if timeout(CLOSE_WITHIN, ending).await.is_err() {
        tracing::debug!("cannot close a connection: the peer accepts no data");
    }
}

/// Closes a connection that its user has dropped, in a background task of [`CLOSE_WITHIN`] at most.
pub fn end_behind<S>(socket: WebSocketStream<S>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Without a runtime, the process is ending.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(end(socket, because(CloseCode::Normal, "")));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::SinkExt as _;
    use tokio::io::{DuplexStream, duplex};
    use tokio::time::Instant;
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    /// Returns our side and the peer's side of one connection.
    async fn pair(role: Role) -> [WebSocketStream<DuplexStream>; 2] {
        let (ours, theirs) = duplex(1 << 10);
        let other = if role == Role::Server { Role::Client } else { Role::Server };
        let config = Some(limited(1 << 16));
        [
            WebSocketStream::from_raw_socket(ours, role, config).await,
            WebSocketStream::from_raw_socket(theirs, other, config).await,
        ]
    }

    fn going() -> CloseFrame {
        because(CloseCode::Away, "the service stops")
    }

    #[tokio::test(start_paused = true)]
    async fn the_peer_receives_all_messages_then_the_close_frame_and_answers() {
        for role in [Role::Server, Role::Client] {
            let [mut ours, mut theirs] = pair(role).await;
            ours.feed(Message::text("the last word")).await.unwrap();
            // We never read this, and we do not wait for it.
            theirs.send(Message::text("on its way")).await.unwrap();
            let begun = Instant::now();
            let reading = async {
                let said = theirs.next().await.unwrap().unwrap();
                let closed = theirs.next().await.unwrap().unwrap();
                while let Some(Ok(_)) = theirs.next().await {}
                drop(theirs);
                (said, closed)
            };
            let ((said, closed), ()) = tokio::join!(reading, end(ours, going()));
            assert_eq!(said, Message::text("the last word"));
            assert_eq!(closed, Message::Close(Some(going())));
            assert_eq!(begun.elapsed(), std::time::Duration::ZERO, "{role:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_closed_gets_its_own_code_back() {
        let [mut ours, mut theirs] = pair(Role::Server).await;
        let own = because(CloseCode::Library(4001), "that was all");
        theirs.close(Some(own.clone())).await.unwrap();
        assert_eq!(ours.next().await.unwrap().unwrap(), Message::Close(Some(own.clone())));
        let reading = async {
            let answer = theirs.next().await.unwrap().unwrap();
            drop(theirs);
            answer
        };
        let (answer, ()) = tokio::join!(reading, end(ours, going()));
        assert_eq!(answer, Message::Close(Some(own)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_for_an_unresponsive_peer_is_limited() {
        for words in [0, 100] {
            let [mut ours, theirs] = pair(Role::Client).await;
            for _ in 0..words {
                let taken = timeout(CLOSE_WITHIN, ours.feed(Message::text("x".repeat(99)))).await;
                if taken.is_err() {
                    break;
                }
            }
            let begun = Instant::now();
            end(ours, going()).await;
            assert!(begun.elapsed() >= CLOSE_WITHIN);
            assert!(begun.elapsed() < CLOSE_WITHIN * 2);
            drop(theirs);
        }
    }
}
