//! An unknown client: requests, sockets and raw bytes from an address of its choice, which a
//! trusted proxy reports. Not for its input.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::{Client, Method};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

pub(super) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Timeout of a response.
const PATIENCE: Duration = Duration::from_secs(5);

/// A new number on each call, for invented names, ids and methods.
pub(super) fn invented() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A stranger at one address.
#[derive(Clone)]
pub(super) struct Stranger {
    pub(super) server: SocketAddr,
    pub(super) address: String,
    client: Client,
}

impl Stranger {
    pub(super) fn new(server: SocketAddr, number: usize) -> Self {
        let client = Client::builder().timeout(PATIENCE).build().unwrap();
        let address = format!("203.0.{}.{}", number / 250, number % 250 + 1);
        Self { server, address, client }
    }

    /// Sends a request; returns its status, and its body if that is JSON. The status is 0 if there
    /// is no response.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> (u16, Value) {
        let url = format!("http://{}{path}", self.server);
        let request = self.client.request(method, url).header("x-forwarded-for", &self.address);
        let with = |request: reqwest::RequestBuilder, (name, value): &(&str, &str)| {
            request.header(*name, *value)
        };
        let request = headers.iter().fold(request, with);
        let request = request.header("content-type", "application/json").body(body.into());
        match request.send().await {
            Ok(answer) => (answer.status().as_u16(), answer.json().await.unwrap_or_default()),
            Err(_) => (0, Value::Null),
        }
    }

    /// Opens a WebSocket; `None` if it is refused.
    pub(super) async fn open(&self, path: &str, headers: &[(&str, &str)]) -> Option<Socket> {
        let mut request = format!("ws://{}{path}", self.server).into_client_request().unwrap();
        let address = [("x-forwarded-for", &*self.address)];
        for (name, value) in headers.iter().chain(&address) {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
        }
        match connect_async(request).await {
            Ok((socket, _)) => Some(socket),
            Err(Error::Http(_) | Error::Io(_) | Error::Protocol(_)) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Opens the socket of a device with a new id and the token from OTA.
    pub(super) async fn device(&self, version: &str) -> Option<Socket> {
        let (id, token) = self.booted().await?;
        let token = format!("Bearer {token}");
        let headers = [
            ("device-id", &*id),
            ("client-id", &*id),
            ("authorization", &*token),
            ("protocol-version", version),
        ];
        self.open("/xiaozhi/v1/", &headers).await
    }

    /// Sends an OTA request; returns the new id of the device, and its token.
    pub(super) async fn booted(&self) -> Option<(String, String)> {
        let id = format!("02:00:{:08x}", invented());
        let headers = [("device-id", &*id), ("client-id", &*id)];
        let (_, told) = self.ask(Method::POST, "/xiaozhi/ota/", &headers, "{}").await;
        Some((id, told["websocket"]["token"].as_str()?.to_owned()))
    }

    /// Opens a connection and sends these bytes.
    pub(super) async fn raw(&self, bytes: &[u8]) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(self.server).await.ok()?;
        stream.write_all(bytes).await.ok()?;
        Some(stream)
    }
}

/// Sends as many of these messages as the server accepts.
pub(super) async fn send_all(socket: &mut Socket, messages: impl IntoIterator<Item = Message>) {
    for message in messages {
        if socket.feed(message).await.is_err() {
            return;
        }
    }
    socket.flush().await.ok();
}

/// Reads what has already arrived, so that the server can continue to write.
pub(super) async fn read(socket: &mut Socket, most: usize) -> Vec<String> {
    let mut texts = Vec::new();
    for _ in 0..most {
        match tokio::time::timeout(Duration::from_millis(200), socket.next()).await {
            Ok(Some(Ok(Message::Text(text)))) => texts.push(text.to_string()),
            Ok(Some(Ok(_))) => {}
            _ => break,
        }
    }
    texts
}
