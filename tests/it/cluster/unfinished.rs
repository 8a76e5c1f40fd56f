//! Clients of nginx that begin requests and do not end them, and the port that it reports. The
//! service behind it is a small one: not for the instances.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use hearken_test_support::free_port;
use hearken_test_support::redis::there_is;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

use super::instances::{INSTANCES, Program, STARTS_WITHIN, nginx};

/// A service that answers GET with the head of the request, and other methods not at all.
struct Service {
    port: u16,
    /// Number of bytes received.
    received: watch::Receiver<usize>,
}

impl Service {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (count, received) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, count.clone()));
            }
        });
        Self { port, received }
    }
}

async fn serve(mut stream: TcpStream, received: watch::Sender<usize>) {
    let mut request = Vec::new();
    while let Ok(read @ 1..) = stream.read_buf(&mut request).await {
        received.send_modify(|count| *count += read);
        if request.starts_with(b"GET ") && request.ends_with(b"\r\n\r\n") {
            let length = request.len();
            let begin = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length:";
            let answer = [format!("{begin} {length}\r\n\r\n").as_bytes(), &request].concat();
            stream.write_all(&answer).await.ok();
            return;
        }
    }
}

/// Starts nginx in front of the service, with these changes of its configuration, and waits until
/// it serves. Returns its port.
async fn nginx_before(
    service: &Service,
    folder: &Path,
    changes: &[(&str, &str)],
) -> (Program, u16) {
    hearken_outbound::tls::choose_provider();
    let port = free_port();
    let nginx = nginx(port, &[service.port; INSTANCES], folder, changes);
    let starting = Instant::now();
    while reqwest::get(health(port)).await.is_err() {
        tokio::task::yield_now().await;
        let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(starting.elapsed() < STARTS_WITHIN, "nginx: {log}");
    }
    (nginx, port)
}

fn health(port: u16) -> String {
    format!("http://127.0.0.1:{port}/healthz")
}

/// Connects from another address of this machine, and sends the beginning of a request.
async fn begun(port: u16, beginning: &[u8]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut stream = socket.connect(SocketAddr::from(([127, 0, 0, 1], port))).await.unwrap();
    // A connection that is refused may be closed already.
    stream.write_all(beginning).await.ok();
    stream
}

#[tokio::test]
async fn one_address_cannot_take_all_connections_with_unfinished_requests() {
    if !there_is("clients of nginx that do not end their requests") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let changes = [
        ("limit_conn connections 2000;", "limit_conn connections 50;"),
        // No head ends during the test, however slow the machine is.
        ("client_header_timeout 10s;", "client_header_timeout 1h;"),
    ];
    let service = Service::start().await;
    let (_nginx, port) = nginx_before(&service, folder.path(), &changes).await;

    let head = b"GET /healthz HTTP/1.1\r\nHost: x\r\n";
    let mut unfinished = Vec::new();
    for _ in 0..50 {
        unfinished.push(begun(port, head).await);
    }
    for n in 0..10 {
        let read = begun(port, head).await.read(&mut [0]).await.unwrap_or(0);
        assert_eq!(read, 0, "connection {n} beyond the limit is not closed");
    }
    let another = reqwest::get(health(port)).await.unwrap();
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

#[tokio::test]
async fn nginx_in_a_container_reports_the_port_that_is_published() {
    if !there_is("the port of nginx in a container") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let template = hearken_test_support::repository().join("deploy/nginx-port.conf.template");
    let template = std::fs::read_to_string(template).unwrap();
    let written = folder.path().join("hearken-port.conf");
    std::fs::write(&written, template.replace("${HEARKEN_PORT}", "8443")).unwrap();
    let place = folder.path().join("hearken-port*.conf").display().to_string();
    let changes = [
        ("/run/hearken-port*.conf", place.as_str()),
        // It listens on port 80 of its container only.
        ("map $proxy_protocol_server_port ", "map 80 "),
    ];
    let service = Service::start().await;
    let (_nginx, port) = nginx_before(&service, folder.path(), &changes).await;
    let head = reqwest::get(health(port)).await.unwrap().text().await.unwrap();
    let head = head.to_ascii_lowercase();
    assert!(head.contains("x-forwarded-port: 8443\r\n"), "{head}");
}

#[tokio::test]
async fn nginx_keeps_no_unfinished_bodies() {
    const LENGTH: usize = 200 << 10;
    if !there_is("clients of nginx that do not end their uploads") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut service = Service::start().await;
    let changes = [("client_body_timeout 30s;", "client_body_timeout 1h;")];
    let (_nginx, port) = nginx_before(&service, folder.path(), &changes).await;
    let head = "POST /vision/explain HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n";
    let _upload = begun(port, &[head.as_bytes(), &[b'x'; LENGTH]].concat()).await;
    let received = service.received.wait_for(|received| *received > LENGTH);
    let received = tokio::time::timeout(STARTS_WITHIN, received).await;
    received.expect("nginx does not pass on an unfinished body").unwrap();
    assert_eq!(std::fs::read_dir(folder.path().join("client_body")).unwrap().count(), 0);
}
