//! Clients of nginx that begin requests and do not end them. The service behind it is a small one:
//! not for the instances.

use std::net::SocketAddr;
use std::time::Instant;

use hearken_test_support::free_port;
use hearken_test_support::redis::there_is;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::instances::{INSTANCES, STARTS_WITHIN, nginx};

/// Starts a service that answers each request with its head. Returns its port.
async fn service() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                    break;
                }
            }
            let length = head.len();
            let begin = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length:";
            let answer = [format!("{begin} {length}\r\n\r\n").as_bytes(), &head].concat();
            stream.write_all(&answer).await.ok();
        }
    });
    port
}

/// Connects from another address of this machine, and begins a request.
async fn begun(port: u16) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut stream = socket.connect(SocketAddr::from(([127, 0, 0, 1], port))).await.unwrap();
    // A connection that is refused may be closed already.
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n").await.ok();
    stream
}

#[tokio::test]
async fn one_address_cannot_take_all_connections_with_unfinished_requests() {
    if !there_is("clients of nginx that do not end their requests") {
        return;
    }
    hearken_outbound::tls::choose_provider();
    let folder = tempfile::tempdir().unwrap();
    let ports = [service().await; INSTANCES];
    let port = free_port();
    let changes = [
        ("limit_conn connections 2000;", "limit_conn connections 50;"),
        // No head ends during the test, however slow the machine is.
        ("client_header_timeout 10s;", "client_header_timeout 1h;"),
    ];
    let _nginx = nginx(port, &ports, folder.path(), &changes);
    let url = format!("http://127.0.0.1:{port}/healthz");
    let starting = Instant::now();
    while reqwest::get(&url).await.is_err() {
        tokio::task::yield_now().await;
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        assert!(starting.elapsed() < STARTS_WITHIN, "nginx: {log}");
    }

    let mut unfinished = Vec::new();
    for _ in 0..50 {
        unfinished.push(begun(port).await);
    }
    for n in 0..10 {
        let read = begun(port).await.read(&mut [0]).await.unwrap_or(0);
        assert_eq!(read, 0, "connection {n} beyond the limit is not closed");
    }
    let another = reqwest::get(&url).await.unwrap();
    assert_eq!(another.status(), 200);
    let head = another.text().await.unwrap().to_ascii_lowercase();
    for header in
        ["x-forwarded-for: 127.0.0.1\r\n".to_owned(), format!("x-forwarded-port: {port}\r\n")]
    {
        assert!(head.contains(&header), "no {header} in {head}");
    }
    for stream in &unfinished {
        let read = stream.try_read(&mut [0]);
        let is_open = read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(is_open, "a connection within the limit was closed");
    }
}
