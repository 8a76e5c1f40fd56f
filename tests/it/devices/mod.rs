//! Access of devices over real sockets: OTA, tokens, bindings, the store, the REST API and the
//! commands. Not for conversations of admitted devices.

mod activation;
mod cli;
mod handshake;
mod images;
mod instructions;
mod ota;
mod outside;
mod people;
mod rest;
mod roles;
mod status;
mod takeover;
mod tokens;

use futures_util::SinkExt as _;
use hearken::config::{AuthRequired, Config};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::support::app::TestServer;

const DEVICE: &str = "02:00:00:00:00:01";
const CLIENT: &str = "00000000-0000-4000-8000-000000000001";
const SECRET: &str = "the secret of the tests";
const ADMIN: &str = "the admin token of the tests";

/// Requires tokens although the server listens on a loopback address.
fn guarded(config: &mut Config) {
    config.auth.required = AuthRequired::Always;
    config.auth.secret = hearken_base::Secret::new(SECRET);
    config.auth.admin_token = hearken_base::Secret::new(ADMIN);
}

/// New devices must be bound with a code.
fn binding(config: &mut Config) {
    guarded(config);
    config.ota.binding = true;
}

/// The OTA report of firmware of this version, as far as the server reads it.
fn report(version: &str) -> Value {
    json!({
        "version": 2,
        "language": "zh-CN",
        "flash_size": 16_777_216,
        "minimum_free_heap_size": "7265",
        "mac_address": DEVICE,
        "uuid": CLIENT,
        "chip_model_name": "esp32s3",
        "application": {"name": "xiaozhi", "version": version},
        "board": {"type": "bread-compact-wifi", "name": "bread-compact-wifi", "mac": DEVICE},
    })
}

/// A request with the headers of firmware.
fn as_device(server: &TestServer, method: Method, path: &str) -> RequestBuilder {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap()
        .request(method, server.http_url(path))
        .header("Device-Id", DEVICE)
        .header("Client-Id", CLIENT)
        .header("Activation-Version", "1")
        .header("User-Agent", "bread-compact-wifi/2.0.0")
        .header("Accept-Language", "zh-CN")
}

/// The OTA response to the device.
async fn boot(server: &TestServer) -> Value {
    boot_as(server, CLIENT).await
}

/// The same for this client id.
async fn boot_as(server: &TestServer, client: &str) -> Value {
    let mut asked = as_device(server, Method::POST, "/xiaozhi/ota/").json(&report("2.0.0"));
    asked = asked.headers(HeaderMap::from_iter([(
        HeaderName::from_static("client-id"),
        HeaderValue::from_str(client).unwrap(),
    )]));
    let answer = asked.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.json().await.unwrap()
}

/// The token from the OTA response.
async fn token(server: &TestServer) -> String {
    let told = boot(server).await;
    told["websocket"]["token"].as_str().expect("there is a token").to_owned()
}

/// A request to the REST API with the admin token.
fn as_admin(server: &TestServer, method: Method, path: &str) -> RequestBuilder {
    reqwest::Client::new().request(method, server.http_url(path)).bearer_auth(ADMIN)
}

async fn bind(server: &TestServer, code: &str) -> Response {
    let asked = as_admin(server, Method::POST, "/api/devices/bind");
    asked.json(&json!({"code": code, "name": "kitchen"})).send().await.unwrap()
}

/// The status and the JSON body of a response.
async fn read(answer: Response) -> (u16, Value) {
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap_or_default())
}

/// The headers of a device's handshake, with this token if there is one.
fn headers(device: &str, client: &str, token: Option<&str>) -> String {
    let token = token.map(|t| format!("Authorization: Bearer {t}\r\n")).unwrap_or_default();
    format!(
        "Host: 127.0.0.1\r\nProtocol-Version: 1\r\nDevice-Id: {device}\r\nClient-Id: {client}\r\n\
         {token}"
    )
}

/// Sends these handshake headers verbatim; returns the head and the body of the response, and the socket.
async fn shake(server: &TestServer, path: &str, headers: &str) -> (String, Value, TcpStream) {
    let upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    raw_get(server, path, &format!("{headers}{upgrade}")).await
}

/// Requests this path verbatim, which an HTTP client would normalise; returns the head and the body
/// of the response, and the socket.
async fn raw_get(server: &TestServer, path: &str, headers: &str) -> (String, Value, TcpStream) {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("the server answers"));
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1);
    let length = length.and_then(|rest| rest.lines().next()?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    (head, serde_json::from_slice(&body).unwrap_or_default(), stream)
}

/// Connects with these headers and exchanges hellos.
async fn greeted(server: &TestServer, headers: &str) -> WebSocketStream<TcpStream> {
    let (head, _, stream) = shake(server, "/xiaozhi/v1/", headers).await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    greet(&mut socket).await;
    socket
}

/// Sends a hello and waits for the server's.
async fn greet(socket: &mut WebSocketStream<TcpStream>) {
    let hello = r#"{"type":"hello","transport":"websocket"}"#;
    socket.send(Message::text(hello)).await.unwrap();
    crate::server::json_of(socket, "hello").await;
}

/// The status of a handshake, and the server's message.
async fn upgrade(server: &TestServer, headers: &str) -> (u16, String) {
    let (head, body, _) = shake(server, "/xiaozhi/v1/", headers).await;
    let status = head["http/1.1 ".len()..][..3].parse().unwrap();
    (status, body["error"]["message"].as_str().unwrap_or_default().to_owned())
}
