//! TLS on the server's port: all services on it, and a certificate that is replaced at run time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use hearken::config::{Config, TlsConfig};
use hearken_test_support::eventually;
use reqwest::Client;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{
    Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
};

use crate::support::app::{TestServer, Vendors};

const DEVICE: &str = "02:00:00:00:00:09";

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Two certificates for this machine; the first one is in the server's files.
struct Pairs {
    folder: tempfile::TempDir,
    made: [rcgen::CertifiedKey<rcgen::KeyPair>; 2],
}

impl Pairs {
    fn new() -> Self {
        hearken_outbound::tls::choose_provider();
        let names = || vec!["localhost".into(), "127.0.0.1".into()];
        let made = || rcgen::generate_simple_self_signed(names()).unwrap();
        let pairs = Self { folder: tempfile::tempdir().unwrap(), made: [made(), made()] };
        pairs.install(0);
        pairs
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a pair into the server's files, one file after the other, as an administrator does.
    fn install(&self, which: usize) {
        std::fs::write(self.file("cert.pem"), self.made[which].cert.pem()).unwrap();
        std::fs::write(self.file("key.pem"), self.made[which].signing_key.serialize_pem()).unwrap();
    }

    fn certificate(&self, which: usize) -> CertificateDer<'static> {
        self.made[which].cert.der().clone()
    }

    fn connector(&self) -> Connector {
        let mut roots = RootCertStore::empty();
        for which in 0..2 {
            roots.add(self.certificate(which)).unwrap();
        }
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Connector::Rustls(Arc::new(config))
    }

    async fn connect(&self, server: &TestServer, path: &str) -> Result<Socket, Error> {
        let url = format!("wss://127.0.0.1:{}{path}", server.address.port());
        let mut request = url.into_client_request().unwrap();
        request.headers_mut().insert("device-id", DEVICE.parse().unwrap());
        let connector = Some(self.connector());
        let connecting = connect_async_tls_with_config(request, None, true, connector);
        connecting.await.map(|(socket, _)| socket)
    }

    fn client(&self) -> Client {
        let known =
            [0, 1].map(|which| reqwest::Certificate::from_der(&self.certificate(which)).unwrap());
        Client::builder().tls_certs_only(known).build().unwrap()
    }

    async fn start(&self, vendors: &Vendors) -> TestServer {
        self.start_with(vendors, |_| {}).await
    }

    async fn start_with(&self, vendors: &Vendors, tweak: impl FnOnce(&mut Config)) -> TestServer {
        let tls = TlsConfig {
            certificate: self.file("cert.pem"),
            key: self.file("key.pem"),
            ..TlsConfig::default()
        };
        TestServer::start(vendors, |config| {
            config.tls = tls;
            // With this, OTA responses contain the URL for pictures.
            config.vision.base_url = config.llm.base_url.clone();
            config.vision.model = "eyes".into();
            tweak(config);
        })
        .await
    }
}

/// The certificate that the server presented.
fn shown(socket: &Socket) -> CertificateDer<'static> {
    let MaybeTlsStream::Rustls(stream) = socket.get_ref() else { panic!("a plain connection") };
    stream.get_ref().1.peer_certificates().unwrap()[0].clone()
}

async fn told(socket: &mut Socket) -> Value {
    loop {
        match socket.next().await.expect("the connection is open").unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            Message::Close(close) => panic!("closed: {close:?}"),
            _ => {}
        }
    }
}

async fn say(socket: &mut Socket, message: Value) {
    socket.send(Message::text(message.to_string())).await.unwrap();
}

#[tokio::test]
async fn every_service_of_the_server_speaks_tls() {
    let pairs = Pairs::new();
    let vendors = Vendors::start().await;
    let server = pairs.start(&vendors).await;
    let base = format!("https://127.0.0.1:{}", server.address.port());
    let client = pairs.client();
    let answer = client.get(format!("{base}/healthz")).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, reqwest::Version::HTTP_11));
    let own_page = client.get(format!("{base}/api/v1/devices")).header("origin", &base);
    assert_eq!(own_page.send().await.unwrap().status(), 200);
    let other_page =
        client.get(format!("{base}/api/devices")).header("origin", "https://x.example");
    assert_eq!(other_page.send().await.unwrap().status(), 403);
    let asked = client.post(format!("{base}/xiaozhi/ota/")).header("device-id", DEVICE);
    let settings: Value = asked.json(&json!({})).send().await.unwrap().json().await.unwrap();
    let url = format!("wss://127.0.0.1:{}/xiaozhi/v1/", server.address.port());
    assert_eq!(settings["websocket"]["url"], url);
    let mut device = pairs.connect(&server, "/xiaozhi/v1/").await.unwrap();
    let audio =
        json!({"format": "opus", "sample_rate": 16_000, "channels": 1, "frame_duration": 60});
    let features = json!({"mcp": true});
    say(
        &mut device,
        json!({
            "type": "hello", "version": 1, "transport": "websocket", "audio_params": audio,
            "features": features,
        }),
    )
    .await;
    assert_eq!(told(&mut device).await["type"], "hello");
    let greeting = told(&mut device).await;
    let vision = &greeting["payload"]["params"]["capabilities"]["vision"]["url"];
    assert_eq!(*vision, format!("{base}/vision/explain"), "{greeting}");
    let mut text = pairs.connect(&server, "/").await.unwrap();
    assert_eq!(told(&mut text).await["type"], "status");
    // A client without TLS gets no response, and the server continues.
    let plain = format!("http://127.0.0.1:{}/healthz", server.address.port());
    assert!(Client::new().get(plain).send().await.is_err());
    let stranger = Client::builder().tls_certs_only([]).build().unwrap();
    assert!(stranger.get(format!("{base}/healthz")).send().await.is_err());
    assert_eq!(pairs.client().get(format!("{base}/healthz")).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn replacing_a_certificate_drops_no_connection() {
    let pairs = Pairs::new();
    let vendors = Vendors::start().await;
    let server = pairs.start(&vendors).await;
    let mut open = pairs.connect(&server, "/").await.unwrap();
    told(&mut open).await;
    assert_eq!(shown(&open), pairs.certificate(0));
    pairs.install(1);
    eventually("the new certificate", async || {
        let socket = pairs.connect(&server, "/").await.ok()?;
        (shown(&socket) == pairs.certificate(1)).then_some(())
    })
    .await;
    say(&mut open, json!({"type": "ping"})).await;
    assert_eq!(told(&mut open).await["type"], "pong", "the first connection stays open");
}

/// Maximum number of connections of a server for one device and one text client.
const MOST_CONNECTIONS: usize = 2_002;

#[tokio::test]
async fn unfinished_tls_handshakes_count_as_connections() {
    let pairs = Pairs::new();
    let vendors = Vendors::start().await;
    let server = pairs
        .start_with(&vendors, |config| {
            (config.server.max_connections, config.gateway.max_connections) = (1, 1);
        })
        .await;
    let connect = || async { TcpStream::connect(server.address).await.unwrap() };
    let mut silent = Vec::new();
    for _ in 0..MOST_CONNECTIONS {
        silent.push(connect().await);
    }
    eventually("a further connection is closed at once", async || {
        let mut more = connect().await;
        let mut byte = [0];
        let read = tokio::time::timeout(Duration::from_secs(1), more.read(&mut byte)).await;
        matches!(read, Ok(Ok(0) | Err(_))).then_some(())
    })
    .await;
    drop(silent);
    let url = format!("https://127.0.0.1:{}/healthz", server.address.port());
    eventually("the server answers again", async || {
        let answer = pairs.client().get(&url).send().await.ok()?;
        (answer.status() == 200).then_some(())
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn a_self_signed_certificate_serves_browsers_on_a_second_port() {
    hearken_outbound::tls::choose_provider();
    let port = hearken_test_support::free_port();
    let mut folder = PathBuf::new();
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config: &mut Config| {
        (config.tls.self_signed, config.tls.port) = (true, port);
        folder.clone_from(&config.server.data_dir);
    })
    .await;
    let pem = std::fs::read(folder.join("tls_certificate.pem")).unwrap();
    let root = reqwest::Certificate::from_pem(&pem).unwrap();
    let browser = Client::builder().tls_certs_only([root]).build().unwrap();
    let page = browser.get(format!("https://localhost:{port}/console/")).send().await.unwrap();
    assert_eq!(page.status(), 200);
    let policy = page.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.contains(&format!("wss://localhost:{port};")), "{policy}");
    // Boards use the plain port.
    let plain = reqwest::get(server.http_url("/healthz")).await.unwrap();
    assert_eq!(plain.status(), 200);
    // A client that does not trust the certificate refuses the connection.
    assert!(reqwest::get(format!("https://localhost:{port}/healthz")).await.is_err());
    server.stop().await;
}
