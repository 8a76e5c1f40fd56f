//! Reads messages of a server on a WebSocket. Not for sending.

use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// A client's socket.
pub type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// The next message, or the close code of the connection. Must arrive within `soon`.
pub async fn frame(socket: &mut Socket, soon: Duration) -> Result<Value, Option<u16>> {
    loop {
        let frame = tokio::time::timeout(soon, socket.next()).await.expect("a frame");
        match frame {
            Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Close(reason))) => return Err(reason.map(|r| r.code.into())),
            Some(Ok(_)) => {}
            Some(Err(Error::ConnectionClosed)) | None => return Err(None),
            Some(Err(error)) => panic!("{error}"),
        }
    }
}
