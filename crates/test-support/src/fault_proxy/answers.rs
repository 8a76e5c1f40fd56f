//! What answers instead of the service: HTTP that does not fit, sockets that say something else. Not
//! for bytes of the service itself, nor for TLS.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::vendors::{Request, read_request};

/// Answer to each request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// These bytes, whatever was asked; then the connection ends.
    Http(Arc<[u8]>),
    /// The handshake of a WebSocket is accepted; then come these bytes, and the socket stays open.
    Socket(Arc<[u8]>),
    /// These bytes, before anything was asked; then the connection stays open.
    Bytes(Arc<[u8]>),
    /// Every request is sent to the same address again.
    RedirectLoop,
    /// Success that begins with this head, and a body of zeros without end.
    Endless(&'static str),
}

/// An answer with this status, these headers (each ends with CRLF), and a body of JSON.
pub fn status(status: u16, headers: &str) -> Answer {
    let body = br#"{"error":{"message":"scripted"}}"#;
    Answer::Http(crate::scripted_server::answer(status, headers, body).into())
}

/// The status 429 that asks for this wait.
pub fn retry_after(wait: &str) -> Answer {
    status(429, &format!("content-type: application/json\r\nretry-after: {wait}\r\n"))
}

/// Answers what the client asks.
pub(super) async fn give(client: &mut TcpStream, answer: &Answer) {
    if let Answer::Bytes(bytes) = answer {
        client.write_all(bytes).await.ok();
        return until_closed(client).await;
    }
    let Some(request) = read_request(client).await else { return };
    match answer {
        Answer::Bytes(_) => {}
        Answer::Http(bytes) => {
            client.write_all(bytes).await.ok();
            client.shutdown().await.ok();
        }
        Answer::Socket(bytes) => {
            let accepted = derive_accept_key(header(&request, "sec-websocket-key").as_bytes());
            let head = format!(
                "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
                 upgrade: websocket\r\nsec-websocket-accept: {accepted}\r\n\r\n"
            );
            client.write_all(head.as_bytes()).await.ok();
            client.write_all(bytes).await.ok();
            until_closed(client).await;
        }
        Answer::RedirectLoop => {
            let to = format!("location: {}\r\n", path(&request));
            let Answer::Http(bytes) = status(307, &to) else { return };
            client.write_all(&bytes).await.ok();
        }
        Answer::Endless(head) => {
            client.write_all(head.as_bytes()).await.ok();
            let zeros = vec![b'0'; 64 << 10];
            while client.write_all(&zeros).await.is_ok() {}
        }
    }
}

/// The value of a header, and nothing where there is none.
fn header<'a>(request: &'a Request, name: &str) -> &'a str {
    let mut fields = request.head.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value.trim())
}

fn path(request: &Request) -> &str {
    request.head.split(' ').nth(1).unwrap_or("/")
}

pub(super) async fn until_closed(client: &mut TcpStream) {
    let mut read = [0; 4_096];
    while let Ok(1..) = client.read(&mut read).await {}
}
