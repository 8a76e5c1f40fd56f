//! The stubs' side of HTTP and WebSocket connections, without a library if they must misbehave. Not
//! for the messages of vendors.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::{Behaviour, SLOW, Shared};

/// An HTTP request: its head as text, its body as bytes.
pub struct Request {
    /// The request line and the headers.
    pub head: String,
    /// Its body.
    pub body: Vec<u8>,
}

/// Reads one HTTP request with a `Content-Length` or without a body.
pub async fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = content_length(&head);
            if bytes.len() >= end + 4 + length {
                return Some(Request { head, body: bytes[end + 4..][..length].to_vec() });
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

fn content_length(head: &str) -> usize {
    let lower = head.to_ascii_lowercase();
    let line = lower.lines().find_map(|line| line.strip_prefix("content-length:"));
    line.map_or(0, |value| value.trim().parse().unwrap())
}

/// Writes a complete response and closes the connection.
pub async fn respond(stream: &mut TcpStream, status: u16, headers: &str, body: &[u8]) {
    let head = format!(
        "HTTP/1.1 {status} Stub\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n",
        body.len()
    );
    let mut whole = head.into_bytes();
    whole.extend_from_slice(body);
    // The client may be gone, which is fine.
    stream.write_all(&whole).await.ok();
}

/// The response of [`Behaviour::HttpStatus`].
pub(super) async fn respond_status(stream: &mut TcpStream, status: u16, wait: Option<u64>) {
    let headers = wait.map(|seconds| format!("retry-after: {seconds}\r\n")).unwrap_or_default();
    let body = br#"{"error":{"message":"the stub was told to","type":"stub_error","code":null}}"#;
    respond(stream, status, &headers, body).await;
}

/// Writes a response in pieces, according to the behaviour; stops early if the client disconnects.
pub(super) async fn respond_in_pieces(
    stream: &mut TcpStream,
    behaviour: Behaviour,
    content_type: &str,
    pieces: &[Vec<u8>],
) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\
         connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    for (at, piece) in pieces.iter().enumerate() {
        if at > 0 && behaviour == Behaviour::ResetMidStream {
            return Ok(());
        }
        if behaviour == Behaviour::Slow && gone(stream, SLOW).await {
            return Ok(());
        }
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend_from_slice(piece);
        chunk.extend_from_slice(b"\r\n");
        stream.write_all(&chunk).await?;
        stream.flush().await?;
    }
    stream.write_all(b"0\r\n\r\n").await
}

/// Waits for this long; returns true as soon as the client has closed.
pub async fn gone(stream: &mut TcpStream, wait: Duration) -> bool {
    let mut more = [0; 64];
    matches!(timeout(wait, stream.read(&mut more)).await, Ok(Ok(0) | Err(_)))
}

/// A WebSocket connection of a stub.
pub(super) struct Link {
    socket: WebSocketStream<TcpStream>,
}

impl Link {
    /// Accepts the handshake, unless the behaviour is a status.
    pub(super) async fn accept(mut stream: TcpStream, shared: &Shared) -> Option<Self> {
        if let Behaviour::HttpStatus(status, wait) = shared.behaviour() {
            read_request(&mut stream).await?;
            respond_status(&mut stream, status, wait).await;
            return None;
        }
        let socket = tokio_tungstenite::accept_async(stream).await.ok()?;
        Some(Self { socket })
    }

    /// The next text or binary message, which is recorded; `None` at the end.
    pub(super) async fn next(&mut self, shared: &Shared) -> Option<Message> {
        loop {
            let message = self.socket.next().await?.ok()?;
            match &message {
                Message::Text(text) => shared.note(|seen| seen.texts.push(text.to_string())),
                Message::Binary(audio) => shared.note(|seen| {
                    seen.audio_bytes += audio.len();
                    seen.audio_messages += 1;
                }),
                Message::Close(_) => return None,
                Message::Ping(_) => {
                    shared.note(|seen| seen.pings += 1);
                    continue;
                }
                _ => continue,
            }
            return Some(message);
        }
    }

    /// The next message, if it arrives within this time.
    pub(super) async fn next_within(&mut self, shared: &Shared, wait: Duration) -> Option<Message> {
        timeout(wait, self.next(shared)).await.ok().flatten()
    }

    /// Sends one message; the client may be gone.
    pub(super) async fn send(&mut self, message: Message) {
        self.socket.send(message).await.ok();
    }
}
