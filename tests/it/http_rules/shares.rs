//! The share of one address in the resources of the server, over sockets: clients come through a
//! trusted proxy, which reports their addresses. Not for the request rates of `/api`.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::StreamExt as _;
use hearken_test_support::eventually;
use reqwest::{Client, StatusCode};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, tcp::OwnedWriteHalf};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::support::app::{TestServer, Vendors};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

static NEXT_DEVICE: AtomicU32 = AtomicU32::new(0);

const GREEDY: &str = "203.0.113.1";
const OTHER: &str = "203.0.113.2";

async fn server(vendors: &Vendors, tweak: impl FnOnce(&mut hearken::config::Config)) -> TestServer {
    TestServer::start(vendors, |config| {
        config.ota.trust_proxy = true;
        config.gateway.open_to_all = true;
        tweak(config);
    })
    .await
}

/// Opens a WebSocket for a client at this address; returns the status of a refusal.
async fn open(url: String, address: &str) -> Result<Socket, StatusCode> {
    let mut request = url.into_client_request().unwrap();
    request.headers_mut().insert("x-forwarded-for", address.parse().unwrap());
    // A second connection of the same device would replace the first.
    let id = format!("02:00:{:08x}", NEXT_DEVICE.fetch_add(1, Ordering::Relaxed));
    request.headers_mut().insert("device-id", id.parse().unwrap());
    request.headers_mut().insert("client-id", id.parse().unwrap());
    match connect_async(request).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(answer)) => Err(answer.status()),
        Err(error) => panic!("{error}"),
    }
}

/// Opens the socket of a text client; `None` if it is closed at once because there is no slot.
async fn text_client(server: &TestServer, address: &str) -> Option<Socket> {
    let mut socket = open(server.gateway_url(), address).await.unwrap();
    match socket.next().await.unwrap().unwrap() {
        Message::Text(_) => Some(socket),
        Message::Close(frame) => {
            assert_eq!(u16::from(frame.unwrap().code), 1013);
            None
        }
        other => panic!("{other}"),
    }
}

async fn status(server: &TestServer, path: &str, address: &str) -> StatusCode {
    let asked = Client::new().get(server.http_url(path)).header("x-forwarded-for", address);
    asked.header("device-id", "02:00:00:00:00:0b").send().await.unwrap().status()
}

#[actix_web::test]
async fn idle_sockets_of_one_address_do_not_shut_out_others() {
    let vendors = Vendors::start().await;
    let server = server(&vendors, |config| config.gateway.max_connections = 6).await;
    let mut greedy = Vec::new();
    for _ in 0..3 {
        greedy.push(text_client(&server, GREEDY).await.expect("within its share"));
    }
    for _ in 0..5 {
        assert!(text_client(&server, GREEDY).await.is_none());
    }
    let other = text_client(&server, OTHER).await.expect("another address has a slot");
    greedy.pop();
    eventually("the address has a slot again", async || text_client(&server, GREEDY).await).await;
    drop((greedy, other));
    server.stop().await;
}

#[actix_web::test]
async fn devices_of_one_address_take_half_of_the_slots() {
    let vendors = Vendors::start().await;
    let server = server(&vendors, |config| config.server.max_connections = 4).await;
    let url = || server.device_url();
    let greedy = [open(url(), GREEDY).await.unwrap(), open(url(), GREEDY).await.unwrap()];
    assert_eq!(open(url(), GREEDY).await.err(), Some(StatusCode::SERVICE_UNAVAILABLE));
    let other = open(url(), OTHER).await.unwrap();
    drop((greedy, other));
    server.stop().await;
}

#[actix_web::test]
async fn devices_that_only_hear_a_code_do_not_take_the_slots_of_others() {
    let vendors = Vendors::start().await;
    let server = server(&vendors, |config| {
        config.ota.binding = true;
        config.server.max_connections = 1;
    })
    .await;
    let url = || server.device_url();
    let mut greedy = Vec::new();
    for _ in 0..8 {
        greedy.push(open(url(), GREEDY).await.expect("it is none of the devices' slots"));
    }
    assert_eq!(open(url(), GREEDY).await.err(), Some(StatusCode::SERVICE_UNAVAILABLE));
    let other = open(url(), OTHER).await.unwrap();
    drop((greedy, other));
    server.stop().await;
}

#[actix_web::test]
async fn boots_and_handshakes_per_address_are_rate_limited() {
    let vendors = Vendors::start().await;
    let server = server(&vendors, |config| {
        config.http.boots_per_minute = 2;
        config.http.upgrades_per_minute = 2;
    })
    .await;
    for _ in 0..2 {
        assert_eq!(status(&server, "/xiaozhi/ota/", GREEDY).await, 200);
        open(server.device_url(), GREEDY).await.unwrap();
    }
    for _ in 0..2 {
        for path in ["/xiaozhi/ota/", "/xiaozhi/%6fta/", "/%78iaozhi/ota"] {
            assert_eq!(status(&server, path, GREEDY).await, 429, "{path}");
        }
        assert_eq!(
            open(server.gateway_url(), GREEDY).await.err(),
            Some(StatusCode::TOO_MANY_REQUESTS)
        );
    }
    assert_eq!(status(&server, "/xiaozhi/ota/", OTHER).await, 200);
    open(server.gateway_url(), OTHER).await.unwrap();
    server.stop().await;
}

/// Sends the head of a request without its body.
async fn hanging(
    server: &TestServer,
    address: &str,
) -> (OwnedWriteHalf, tokio::net::tcp::OwnedReadHalf) {
    let (reads, mut writes) = TcpStream::connect(server.address).await.unwrap().into_split();
    let head = format!(
        "POST /xiaozhi/ota/ HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: {address}\r\n\
         device-id: 02:00:00:00:00:0c\r\ncontent-length: 10\r\n\r\n"
    );
    writes.write_all(head.as_bytes()).await.unwrap();
    (writes, reads)
}

#[actix_web::test]
async fn requests_in_progress_per_address_are_limited() {
    let vendors = Vendors::start().await;
    let server = server(&vendors, |config| config.http.requests_at_once = 2).await;
    let hanging = [hanging(&server, GREEDY).await, hanging(&server, GREEDY).await];
    eventually("both are in progress", async || {
        (status(&server, "/test_client.html", GREEDY).await == 429).then_some(())
    })
    .await;
    assert_eq!(status(&server, "/healthz", GREEDY).await, 200);
    assert_eq!(status(&server, "/test_client.html", OTHER).await, 200);
    drop(hanging);
    eventually("the address may ask again", async || {
        (status(&server, "/test_client.html", GREEDY).await == 200).then_some(())
    })
    .await;
    server.stop().await;
}
