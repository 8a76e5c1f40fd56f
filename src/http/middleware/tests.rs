//! Tests of the middleware over real sockets, with special routes: one panics, one counts.

use std::net::SocketAddr;

use actix_web::HttpServer;
use actix_web::dev::ServerHandle;
use hearken_base::Secret;
use hearken_cluster::Cluster;
use reqwest::{Client, Method};
use serde_json::Value;

use super::*;

/// Test server with these settings, in its own thread.
struct Small {
    address: SocketAddr,
    handle: ServerHandle,
}

impl Small {
    async fn start(config: HttpConfig) -> Self {
        hearken_outbound::tls::choose_provider();
        let (tell, told) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let names = ["h".to_owned()];
                let state = Arc::new(MiddlewareState::new(
                    &config,
                    names,
                    vec![Secret::new("valid")],
                    TrustedProxies::Near,
                    &Cluster::alone(),
                ));
                let server = HttpServer::new(move || {
                    behind(App::new(), Arc::clone(&state))
                        .route("/api/panic", web::to(panics))
                        .route("/api/name/{it}", web::to(returns_its_name))
                        .route("/healthz", web::to(HttpResponse::Ok))
                });
                let server = server.workers(1).disable_signals().bind("127.0.0.1:0").unwrap();
                let address = server.addrs()[0];
                let server = server.run();
                tell.send(Self { address, handle: server.handle() }).ok();
                server.await.unwrap();
            });
        });
        told.await.unwrap()
    }

    fn ask(&self, client: &Client, path: &str) -> reqwest::RequestBuilder {
        client.get(format!("http://{}{path}", self.address))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        drop(self.handle.stop(false));
    }
}

async fn panics() -> HttpResponse {
    panic!("as the test wants it")
}

async fn returns_its_name(request: HttpRequest) -> HttpResponse {
    HttpResponse::Ok().json(json!({
        "path": request.path(),
        "it": request.match_info().get("it"),
        "query": request.query_string(),
        "local": request.connection_info().peer_addr(),
    }))
}

fn header<'a>(answer: &'a reqwest::Response, name: &str) -> &'a str {
    answer.headers().get(name).map_or("", |v| v.to_str().unwrap())
}

#[tokio::test]
async fn a_panic_is_answered_and_the_connection_goes_on() {
    let server = Small::start(HttpConfig::default()).await;
    // One connection, which must survive the panics.
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let mut ask = async |path: &str| {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let request = format!("GET {path} HTTP/1.1\r\nhost: h\r\nx-request-id: mine-1\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let length = loop {
            answer.push(stream.read_u8().await.expect("the connection lives"));
            if answer.ends_with(b"\r\n\r\n") {
                let head = String::from_utf8(answer.clone()).unwrap().to_ascii_lowercase();
                let length = head.split("content-length: ").nth(1).unwrap();
                break length.lines().next().unwrap().parse::<usize>().unwrap();
            }
        };
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let head = String::from_utf8(answer).unwrap();
        (head, serde_json::from_slice::<Value>(&body).unwrap_or_default())
    };
    for _ in 0..3 {
        let (head, body) = ask("/api/panic").await;
        assert!(head.starts_with("HTTP/1.1 500 "), "{head}");
        assert!(head.contains("x-request-id: mine-1"), "{head}");
        assert_eq!(body["error"]["code"], "INTERNAL_ERROR");
        assert!(body["error"]["message"].is_string());
    }
    let (head, body) = ask("/api/v1/name/x?a=1").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!((&body["path"], &body["query"]), (&json!("/api/name/x"), &json!("a=1")));
}

#[tokio::test]
async fn a_request_id_of_the_client_is_used_if_it_is_valid() {
    let server = Small::start(HttpConfig::default()).await;
    let client = Client::new();
    let answer = server.ask(&client, "/api/name/x").header("x-request-id", "a-1.b_2:c");
    assert_eq!(header(&answer.send().await.unwrap(), "x-request-id"), "a-1.b_2:c");
    let mut seen = std::collections::HashSet::new();
    for bad in ["", " ", "two words", "ü", &"x".repeat(65), "a\"b"] {
        let asked = server.ask(&client, "/nowhere").header("x-request-id", bad.as_bytes());
        let answer = asked.send().await.unwrap();
        let made = header(&answer, "x-request-id").to_owned();
        assert!(uuid::Uuid::parse_str(&made).is_ok() && seen.insert(made), "{bad:?}");
    }
}

#[tokio::test]
async fn the_version_in_an_address_changes_nothing() {
    let server = Small::start(HttpConfig::default()).await;
    let client = Client::new();
    for path in ["/api/name/%E4%BD%A0", "/api/v1/name/%E4%BD%A0"] {
        let told: Value = server.ask(&client, path).send().await.unwrap().json().await.unwrap();
        assert_eq!((&told["it"], &told["path"]), (&json!("你"), &json!("/api/name/%E4%BD%A0")));
    }
    for path in ["/api/v1x/name/x", "/api/v10/name/x", "/v1/name/x", "/api/v1/v1/name/x", "/api/v1"]
    {
        assert_eq!(server.ask(&client, path).send().await.unwrap().status(), 404, "{path}");
    }
}

#[tokio::test]
async fn a_client_that_asks_too_often_waits_and_others_do_not() {
    let config = HttpConfig { requests_per_minute: 3, ..HttpConfig::default() };
    let server = Small::start(config).await;
    let client = Client::new();
    let ask = async |path: &str, header: (&str, &str)| {
        server.ask(&client, path).header(header.0, header.1).send().await.unwrap()
    };
    let one = ("session-id", "one");
    let other = ("x-forwarded-for", "192.0.2.1");
    for _ in 0..3 {
        assert_eq!(ask("/api/name/x", one).await.status(), 200);
    }
    for path in ["/api/name/x", "/api/v1/name/x", "/api/nowhere"] {
        let answer = ask(path, one).await;
        assert_eq!(answer.status(), 429, "{path}");
        let wait: u64 = header(&answer, "retry-after").parse().unwrap();
        assert!((1..=20).contains(&wait), "{wait}");
        assert!(!header(&answer, "x-request-id").is_empty());
        let told: Value = answer.json().await.unwrap();
        assert_eq!(told["error"]["code"], "RATE_LIMITED");
    }
    assert_eq!(ask("/api/name/x", other).await.status(), 200);
    for _ in 0..10 {
        assert_eq!(ask("/healthz", one).await.status(), 200, "probes always pass");
        let handshake = ask("/api/sessions/x/ws", ("upgrade", "websocket")).await;
        assert_eq!(handshake.status(), 404, "handshakes have a limit of their own");
        assert_eq!(ask("/api/name/x", ("upgrade", "websocket")).await.status(), 429);
    }
    // New session ids alone do not raise the limit. With a valid token they do, up to the limit of the address.
    let mut admitted = [0, 0];
    for n in 0..40 {
        let name = n.to_string();
        let path = "/api/name/x";
        admitted[0] += usize::from(ask(path, ("session-id", &name)).await.status() == 200);
        let known = server.ask(&client, path).header("authorization", "Bearer valid");
        let known = known.header("session-id", &name).send().await.unwrap();
        admitted[1] += usize::from(known.status() == 200);
    }
    assert_eq!(admitted, [0, 30]);
}

#[tokio::test]
async fn pages_of_configured_sites_may_ask() {
    let preflight = async |server: &Small, origin: &str| {
        Client::new()
            .request(Method::OPTIONS, format!("http://{}/api/name/x", server.address))
            .header("origin", origin)
            .header("access-control-request-method", "DELETE")
            .header("access-control-request-headers", "session-id,content-type")
            .send()
            .await
            .unwrap()
    };
    let origins = |origins: &[&str]| HttpConfig {
        cors_origins: origins.iter().map(|o| (*o).to_owned()).collect(),
        ..HttpConfig::default()
    };
    let server = Small::start(origins(&["https://museum.example", "http://127.0.0.1:3000"])).await;
    for origin in ["https://museum.example", "http://127.0.0.1:3000"] {
        let answer = preflight(&server, origin).await;
        assert_eq!(
            (answer.status().as_u16(), header(&answer, "access-control-allow-origin")),
            (200, origin)
        );
        assert!(header(&answer, "access-control-allow-methods").contains("DELETE"));
        let headers = header(&answer, "access-control-allow-headers");
        assert!(headers.contains("session-id"), "{headers}");
        let asked = server.ask(&Client::new(), "/api/name/x").header("origin", origin);
        let answer = asked.send().await.unwrap();
        assert_eq!(header(&answer, "access-control-allow-origin"), origin);
        assert!(header(&answer, "access-control-expose-headers").contains("x-request-id"));
    }
    let answer = preflight(&server, "https://evil.example").await;
    assert_eq!(header(&answer, "access-control-allow-origin"), "");
    let server = Small::start(origins(&["*"])).await;
    let answer = preflight(&server, "https://any.example").await;
    assert_eq!(header(&answer, "access-control-allow-origin"), "*");
    let server = Small::start(HttpConfig::default()).await;
    let asked = server.ask(&Client::new(), "/api/name/x").header("origin", "https://any.example");
    assert_eq!(header(&asked.send().await.unwrap(), "access-control-allow-origin"), "");
}

#[tokio::test]
async fn a_connection_with_thousands_of_requests_does_not_block_others() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    const MANY: usize = 4_000;
    let server = Small::start(HttpConfig::default()).await;
    let mut greedy = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let (mut answers, mut requests) = greedy.split();
    let burst = "GET /nowhere HTTP/1.1\r\nhost: h\r\n\r\n".repeat(MANY);
    let (began, has_begun) = tokio::sync::oneshot::channel();
    let (told, is_told) = tokio::sync::oneshot::channel();
    let greed = async {
        let mut began = Some(began);
        let mut is_told = is_told;
        let mut text = [0; 1 << 14];
        let mut answered = 0;
        loop {
            tokio::select! {
                biased;
                _ = &mut is_told => return answered,
                read = answers.read(&mut text) => {
                    let read = String::from_utf8_lossy(&text[..read.unwrap()]).into_owned();
                    answered += read.matches("HTTP/1.1 404").count();
                    if let Some(began) = began.take() {
                        began.send(()).unwrap();
                    }
                }
            }
        }
    };
    let other = async {
        has_begun.await.unwrap();
        let answer = server.ask(&Client::new(), "/healthz").send().await.unwrap();
        assert_eq!(answer.status(), 200);
        told.send(()).unwrap();
    };
    let writing = async {
        requests.write_all(burst.as_bytes()).await.unwrap();
        std::future::pending::<()>().await;
    };
    let answered = tokio::select! {
        (answered, ()) = async { tokio::join!(greed, other) } => answered,
        () = writing => 0,
    };
    assert!(answered < MANY / 2, "{answered} of {MANY} were answered before another's");
}
