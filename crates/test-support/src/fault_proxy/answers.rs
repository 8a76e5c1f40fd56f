//! Responses in place of the service: unsuitable HTTP, and sockets with other messages. Not for
//! bytes of the service itself, nor for TLS.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::vendors::{Request, read_request};

/// Response to each request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// These bytes, whatever the request; then the connection closes.
    Http(Arc<[u8]>),
    /// Accepts the WebSocket handshake, sends these bytes, and leaves the socket open.
    Socket(Arc<[u8]>),
    /// Sends these bytes before any request, and leaves the connection open.
    Bytes(Arc<[u8]>),
    /// Redirects every request to the same URL.
    RedirectLoop,
    /// A successful response with this head and an endless body of zeros.
    Endless(&'static str),
}

/// A response with this status, these headers (each ends with CRLF), and a JSON body.
pub fn status(status: u16, headers: &str) -> Answer {
    let body = br#"{"error":{"message":"scripted"}}"#;
    Answer::Http(crate::scripted_server::answer(status, headers, body).into())
}

/// Status 429 with this `Retry-After` value.
pub fn retry_after(wait: &str) -> Answer {
    status(429, &format!("content-type: application/json\r\nretry-after: {wait}\r\n"))
}

/// Answers the client.
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

/// The value of a header; empty if it is missing.
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
