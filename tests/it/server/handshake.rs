//! Handshakes of devices: accepted ones, and the errors of refused ones.

use futures_util::SinkExt as _;
use hearken_engines::supervise::Engine;
use hearken_proto::device::{AudioPacket, Framing};
use hearken_test_support::eventually;
use hearken_test_support::health::HealthStub;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::{HELLO, PATIENCE, json_of, next};
use crate::support::app::{PHRASES, TestServer, Vendors};

/// Sends a handshake verbatim; returns the head of the response.
async fn shake(server: &TestServer, path: &str, headers: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\n{headers}Upgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("the server answers"));
    }
    (String::from_utf8(head).unwrap(), stream)
}

async fn greets(stream: TcpStream) -> WebSocketStream<TcpStream> {
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    socket.send(Message::text(HELLO)).await.unwrap();
    let hello = json_of(&mut socket, "hello").await;
    assert_eq!(hello["transport"], "websocket");
    assert_eq!(hello["audio_params"]["sample_rate"], 24_000);
    socket
}

#[tokio::test]
async fn the_handshake_of_firmware_is_accepted_without_extensions() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let headers = "Host: 127.0.0.1\r\nProtocol-Version: 1\r\nDevice-Id: 02:00:00:00:00:01\r\n\
                   Client-Id: 00000000-0000-4000-8000-000000000001\r\n\
                   Authorization: Bearer test-token\r\n\
                   Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
    for path in ["/xiaozhi/v1/", "/xiaozhi/v1"] {
        let (head, stream) = shake(&server, path, headers).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        let lower = head.to_ascii_lowercase();
        assert!(lower.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
        assert!(!lower.contains("sec-websocket-extensions"), "{head}");
        assert!(!lower.contains("sec-websocket-protocol"), "{head}");
        greets(stream).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn the_framing_may_be_sent_in_the_query() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    vendors.tts.until(|seen| seen.requests >= PHRASES).await;
    let path = "/xiaozhi/v1/?Device-Id=browser&client-id=x&protocol-version=3";
    let (head, stream) = shake(&server, path, "Host: localhost\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    let hello = r#"{"type":"hello","transport":"websocket"}"#;
    let wake = r#"{"type":"listen","state":"detect","text":"hey hearken"}"#;
    for text in [hello, wake] {
        socket.send(Message::text(text)).await.unwrap();
    }
    let audio = loop {
        if let Message::Binary(audio) = next(&mut socket).await.expect("the socket is open") {
            break audio;
        }
    };
    let AudioPacket { opus, .. } = Framing::V3.decode(&audio).expect("framing 3 was requested");
    assert_eq!(audio.len(), opus.len() + 4, "a header of 4 bytes, and one packet");
}

#[tokio::test]
async fn invalid_requests_get_a_json_error() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let client = reqwest::Client::new();
    let get = reqwest::Method::GET;
    let post = reqwest::Method::POST;
    for (method, path, status, code) in [
        (get.clone(), "/xiaozhi/v1/", 400, "BAD_REQUEST"),
        (get.clone(), "/xiaozhi/v1", 400, "BAD_REQUEST"),
        (post.clone(), "/xiaozhi/v1/", 405, "BAD_REQUEST"),
        (post, "/healthz", 405, "BAD_REQUEST"),
        (get.clone(), "/xiaozhi/v2/", 404, "NOT_FOUND"),
        (get, "/nothing", 404, "NOT_FOUND"),
    ] {
        let case = format!("{method} {path}");
        let answer = client.request(method, server.http_url(path)).send().await.unwrap();
        assert_eq!(answer.status(), status, "{case}");
        let allow = answer.headers().get("allow").map(|v| v.to_str().unwrap().to_owned());
        assert_eq!(allow.as_deref(), (status == 405).then_some("GET, HEAD"), "{case}");
        let body: Value = answer.json().await.expect("an error is JSON");
        assert_eq!(body["error"]["code"], code, "{case}: {body}");
        assert!(!body["error"]["message"].as_str().unwrap().is_empty(), "{case}: {body}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_refused_handshake_occupies_no_slot() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| config.server.max_connections = 1).await;
    for _ in 0..3 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let request = "GET /xiaozhi/v1/ HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
                       Connection: Upgrade\r\nSec-WebSocket-Version: 99\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.unwrap();
        // Not 503: a refused handshake releases its slot.
        assert_eq!(String::from_utf8_lossy(&start), "HTTP/1.1 400");
    }
}

#[tokio::test]
async fn health_reports_the_readiness_of_the_engines() {
    let vendors = Vendors::start().await;
    let health = HealthStub::start(false).await;
    let engine = Engine {
        name: "speech",
        program: "/bin/cat".into(),
        args: Vec::new(),
        env: Vec::new(),
        health_url: health.url.clone(),
        answers_within: PATIENCE,
    };
    let server = TestServer::of(vendors.config(), vec![engine]).await;
    let client = reqwest::Client::new();
    let ask = async || {
        let answer = client.get(server.http_url("/healthz")).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json::<Value>().await.unwrap())
    };
    let (status, body) = ask().await;
    assert_eq!((status, &body["status"]), (503, &"starting".into()), "{body}");
    assert_eq!(body["engines"]["speech"]["state"], "starting", "{body}");
    assert_eq!(vendors.tts.seen().requests, 0, "phrases wait for the engines");
    health.set(true);
    let body = eventually("health", async || {
        let (status, body) = ask().await;
        (status == 200).then_some(body)
    })
    .await;
    assert_eq!(body["status"], "ok");
    assert_eq!(body["engines"]["speech"]["state"], "ready");
    assert_eq!(body["version"], env!("CARGO_PKG_VERSION"));
    vendors.tts.until(|seen| seen.requests == PHRASES).await;
    drop(client);
    server.stop().await;
}
