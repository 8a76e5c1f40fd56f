//! The whole server over real sockets, with stub vendors. Order, pacing and interruption of turns
//! are tested in virtual time in `actors/tests/pipeline`.

mod clocks;
mod endings;
mod failures;
mod handshake;
mod limits;
mod log;
mod many_connections;
pub(crate) mod person;
mod readiness;
mod recording;
mod replay_json;
mod secrets;
mod service_manager;
mod several;
pub(crate) mod turns;
pub(crate) mod voices;

use futures_util::StreamExt as _;
use hearken_test_support::PATIENCE;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::support::app::TestServer;

const HELLO: &str = r#"{"type":"hello","version":1,"transport":"websocket"}"#;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Opens a socket at the device URL.
async fn socket(server: &TestServer) -> Socket {
    connect_async(server.device_url()).await.expect("the server accepts the socket").0
}

/// The next message; `None` at the end.
pub(crate) async fn next<S>(socket: &mut WebSocketStream<S>) -> Option<Message>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let next = tokio::time::timeout(PATIENCE, socket.next()).await;
    next.expect("a message in time").transpose().ok().flatten()
}

/// The next message that is JSON of this type.
pub(crate) async fn json_of<S>(socket: &mut WebSocketStream<S>, kind: &str) -> Value
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    loop {
        if let Message::Text(text) = next(socket).await.expect("the socket is open") {
            let json: Value = serde_json::from_str(&text).unwrap();
            if json["type"] == kind {
                return json;
            }
        }
    }
}

/// The close code of the server; `None` if it closes without one.
async fn close_code(socket: &mut Socket) -> Option<u16> {
    while let Some(message) = next(socket).await {
        if let Message::Close(reason) = message {
            return reason.map(|r| r.code.into());
        }
    }
    None
}
