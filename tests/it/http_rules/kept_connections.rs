//! Keep-alive connections, over raw sockets.

use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use hearken_test_support::PATIENCE;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use crate::support::app::{TestServer, Vendors};

const LIMIT: Duration = Duration::from_millis(300);

async fn server(vendors: &Vendors, limit: Duration) -> TestServer {
    TestServer::start(vendors, |config| config.http.next_request = limit).await
}

async fn connect(server: &TestServer) -> TcpStream {
    let url = url::Url::parse(&server.http_url("/")).unwrap();
    TcpStream::connect(("127.0.0.1", url.port().unwrap())).await.unwrap()
}

/// Requests the health once, and reads the complete response.
async fn ask(socket: &mut TcpStream) {
    socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    loop {
        assert!(socket.read_buf(&mut answer).await.unwrap() > 0, "the connection was closed");
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.parse::<usize>().unwrap() {
            return;
        }
    }
}

#[tokio::test]
async fn an_incomplete_later_request_is_closed_in_time() {
    let vendors = Vendors::start().await;
    let server = server(&vendors, LIMIT).await;
    let mut socket = connect(&server).await;
    ask(&mut socket).await;
    // The first byte ends the keep-alive timer of actix-http.
    socket.write_all(b"GET /heal").await.unwrap();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut rest)).await;
    ended.expect("the connection is closed").ok();
    server.stop().await;
}

/// Sends one byte per interval until the server closes the connection, at most 200 of them. Returns
/// the time from `begun` to the close; `None` if the connection stays open.
async fn drip(socket: &mut TcpStream, head: &[u8], begun: Instant) -> Option<Duration> {
    for byte in head.iter().chain(std::iter::repeat(&b'x')).take(200) {
        if socket.write_all(&[*byte]).await.is_err() {
            return Some(begun.elapsed());
        }
        let mut answer = [0; 64];
        // An incomplete head gets no response.
        let read = tokio::time::timeout(LIMIT / 6, socket.read(&mut answer)).await;
        match read {
            Ok(Ok(0) | Err(_)) => return Some(begun.elapsed()),
            Ok(Ok(_)) => panic!("answered: {}", String::from_utf8_lossy(&answer)),
            Err(_) => {}
        }
    }
    None
}

#[tokio::test]
async fn a_later_request_sent_byte_by_byte_is_closed_in_time() {
    let vendors = Vendors::start().await;
    let server = server(&vendors, LIMIT).await;
    for head in [&b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-drip: "[..], b"G", b"\r\n\r\n"] {
        let mut socket = connect(&server).await;
        let begun = Instant::now();
        ask(&mut socket).await;
        let closed = drip(&mut socket, head, begun).await;
        let closed = closed.expect("the bytes of a request do not restart its timer");
        assert!(closed >= LIMIT / 2, "closed after {closed:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_connection_in_use_and_a_websocket_stay_open() {
    let vendors = Vendors::start().await;
    let limit = Duration::from_secs(2);
    let server = server(&vendors, limit).await;
    let mut socket = connect(&server).await;
    let mut client = connect_async(server.http_url("/").replace("http", "ws")).await.unwrap().0;
    client.next().await.unwrap().unwrap();
    let begun = Instant::now();
    while begun.elapsed() < 2 * limit {
        ask(&mut socket).await;
    }
    client.send(Message::text(r#"{"type": "ping"}"#)).await.unwrap();
    let pong = client.next().await.unwrap().unwrap().into_text().unwrap();
    assert!(pong.contains("pong"), "{pong}");
    drop((client, socket));
    server.stop().await;
}
