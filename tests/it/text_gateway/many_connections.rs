//! A hundred concurrent clients, some of which misbehave. Not for response times.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use super::{TextClient, echoing};

/// Number of well-behaved clients; with the others, the server is full.
const GOOD: usize = 96;
/// Number of questions of each.
const QUESTIONS: usize = 5;

/// Sends questions without pause and reads nothing.
async fn slow_reader(mut client: TextClient) {
    let question = json!({"type": "text_input", "text": "x".repeat(10_000)}).to_string();
    while client.socket.send(Message::text(question.clone())).await.is_ok() {}
}

/// Sends invalid messages as fast as the server reads them, and reads the errors.
async fn flood(client: TextClient) {
    let (mut write, mut read) = client.socket.split();
    let writing = async { while write.send(Message::text("{")).await.is_ok() {} };
    let reading = async { while read.next().await.is_some_and(|m| m.is_ok()) {} };
    tokio::join!(writing, reading);
}

/// Starts a frame and never completes it.
async fn half_open(server: std::net::SocketAddr) {
    let mut stream = TcpStream::connect(server).await.unwrap();
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {server}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.write_all(&[0x81, 0xfe]).await.unwrap();
    std::future::pending::<()>().await;
}

/// Repeatedly sends bytes that are no handshake.
async fn garbage(server: std::net::SocketAddr) {
    loop {
        let Ok(mut stream) = TcpStream::connect(server).await else { return };
        let bytes =
            b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\xff\xff\r\n\r\n";
        stream.write_all(bytes).await.ok();
        // Until the server closes.
        stream.read_to_end(&mut Vec::new()).await.ok();
    }
}

#[actix_web::test]
async fn well_behaved_clients_are_answered_while_others_misbehave() {
    let (_vendors, server) = echoing().await;
    let mut bad = JoinSet::new();
    bad.spawn(slow_reader(TextClient::connect(&server).await));
    bad.spawn(flood(TextClient::connect(&server).await));
    bad.spawn(half_open(server.address));
    bad.spawn(garbage(server.address));
    let mut good = JoinSet::new();
    for n in 0..GOOD {
        let mut client = TextClient::connect(&server).await;
        good.spawn(async move {
            client.register(&[&format!("tool_{n}")]).await;
            for question in 0..QUESTIONS {
                let text = format!("{n}, {question}");
                assert_eq!(client.answer(&text).await, format!("You said {text}"));
            }
            client.is_quiet().await;
        });
    }
    while let Some(done) = good.join_next().await {
        done.unwrap();
    }
    bad.shutdown().await;
    server.stop().await;
}
