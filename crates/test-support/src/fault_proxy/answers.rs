//! What answers instead of the service: HTTP that does not fit, sockets that say something else,
//! TLS that cannot be trusted. Not for bytes of the service itself.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
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

/// How a handshake of TLS fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// Nobody that the client trusts has signed the certificate.
    Untrusted,
    /// The certificate is no longer valid.
    Expired,
    /// The certificate is somebody else's.
    OtherName,
    /// Who answers does not speak TLS.
    Plain,
    /// The connection ends in the handshake.
    Cut,
    /// No version is spoken by both.
    Version,
}

impl Tls {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Untrusted, Self::Expired, Self::OtherName, Self::Plain, Self::Cut, Self::Version];
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

async fn until_closed(client: &mut TcpStream) {
    let mut read = [0; 4_096];
    while let Ok(1..) = client.read(&mut read).await {}
}

/// Lets the handshake fail.
pub(super) async fn fail_handshake(mut client: TcpStream, how: Tls) {
    match how {
        Tls::Untrusted | Tls::Expired | Tls::OtherName => {
            let accepted = TlsAcceptor::from(Arc::new(config(how))).accept(client).await;
            // A client that accepts the certificate would wait here.
            if let Ok(mut stream) = accepted {
                stream.read_u8().await.ok();
            }
        }
        Tls::Plain => {
            client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.ok();
            tokio::time::timeout(Duration::from_secs(1), until_closed(&mut client)).await.ok();
        }
        Tls::Cut => {
            client.read_u8().await.ok();
        }
        Tls::Version => {
            client.read_u8().await.ok();
            // An alert: fatal, protocol_version (RFC 8446, section 6).
            client.write_all(&[21, 3, 3, 0, 2, 2, 70]).await.ok();
            tokio::time::timeout(Duration::from_secs(1), until_closed(&mut client)).await.ok();
        }
    }
}

fn config(how: Tls) -> ServerConfig {
    let name = if how == Tls::OtherName { "other.test" } else { "127.0.0.1" };
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    if how == Tls::Expired {
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    }
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap()
}
