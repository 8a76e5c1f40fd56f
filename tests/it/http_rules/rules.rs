//! Limits, host names and origins, on the server's own routes.

use std::time::Duration;

use hearken_test_support::PATIENCE;
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::app::{TestServer, Vendors};

const ADMIN: &str = "the admin token of the tests";

fn guarded(config: &mut hearken::config::Config) {
    config.auth.required = hearken::config::AuthRequired::Always;
    config.auth.admin_token = hearken_base::Secret::new(ADMIN);
}

async fn get(server: &TestServer, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut asked = Client::new().request(Method::GET, server.http_url(path)).bearer_auth(ADMIN);
    for (name, value) in headers {
        asked = asked.header(*name, *value);
    }
    asked.send().await.unwrap()
}

#[tokio::test]
async fn every_answer_has_the_request_id_and_v1_is_an_alias() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    for (path, status) in [
        ("/api/devices", 200),
        ("/api/v1/devices", 200),
        ("/api/v1/tools?x=1", 200),
        ("/api/v1/devices/nobody", 404),
        ("/api/v1/nothing", 404),
        ("/healthz", 200),
        ("/nowhere", 404),
    ] {
        let answer = get(&server, path, &[("x-request-id", "trace-7")]).await;
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(answer.headers()["x-request-id"], "trace-7", "{path}");
    }
    let refused = Client::new().get(server.http_url("/api/v1/devices")).send().await.unwrap();
    assert_eq!(refused.status(), 401, "the alias is guarded as well");
    let put = Client::new().put(server.http_url("/api/v1/devices")).send().await.unwrap();
    assert_eq!(
        (put.status().as_u16(), &put.headers()["allow"]),
        (405, &"GET, HEAD".parse().unwrap())
    );
}

#[tokio::test]
async fn head_is_answered_like_get_without_a_body() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    for path in [
        "/healthz",
        "/readyz",
        "/metrics",
        "/xiaozhi/ota/",
        "/api/devices",
        "/console/",
        "/nowhere",
    ] {
        let got = get(&server, path, &[]).await;
        let head = Client::new().head(server.http_url(path)).bearer_auth(ADMIN);
        let head = head.send().await.unwrap();
        assert_eq!(head.status(), got.status(), "{path}");
        assert_eq!(head.headers().get("content-type"), got.headers().get("content-type"), "{path}");
        assert!(head.bytes().await.unwrap().is_empty(), "{path}");
    }
    // The stream of turns does not end.
    let head = Client::new().head(server.http_url("/api/turns/live")).bearer_auth(ADMIN);
    let head = tokio::time::timeout(PATIENCE, head.send()).await;
    assert_eq!(head.expect("it ends").unwrap().status(), 200);
}

#[tokio::test]
async fn unsupported_methods_give_405_and_unknown_paths_404() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    let ask = async |method: Method, path: &str| {
        let asked = Client::new().request(method, server.http_url(path)).bearer_auth(ADMIN);
        let answer = asked.json(&json!({})).send().await.unwrap();
        let allow = answer.headers().get("allow").map(|value| value.to_str().unwrap().to_owned());
        (answer.status().as_u16(), allow.unwrap_or_default())
    };
    for (method, path, allow) in [
        (Method::PUT, "/api/roles", "GET, POST, HEAD"),
        (Method::GET, "/api/services/test", "POST"),
        (Method::PUT, "/api/accounts", "GET, POST, HEAD"),
        (Method::DELETE, "/api/devices/bind", "POST"),
        (Method::GET, "/api/devices/02:00:00:00:00:01/say", "POST"),
        (Method::POST, "/healthz", "GET, HEAD"),
        (Method::PATCH, "/api/usage", "GET, HEAD"),
        (Method::POST, "/api/history/summary", "GET, HEAD"),
    ] {
        assert_eq!(ask(method, path).await, (405, allow.to_owned()), "{path}");
    }
    for path in ["/healthz/", "/api/nothing", "/metrics/x"] {
        assert_eq!(ask(Method::GET, path).await.0, 404, "{path}");
    }
}

/// Status and headers with which a request is answered.
async fn seen(client: &Client, server: &TestServer, method: Method, path: &str) -> Value {
    let answer = client.request(method, server.http_url(path)).send().await.unwrap();
    let text = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap());
    let names = ["content-security-policy", "x-content-type-options", "content-type", "allow"];
    json!([answer.status().as_u16(), names.map(text)])
}

#[tokio::test]
async fn a_path_in_other_ways_of_writing_is_answered_in_the_same_way() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        guarded(config);
        config.http.requests_per_minute = 0;
    })
    .await;
    let client = Client::new();
    for path in ["/api/docs/", "/api/v1/docs/", "/api/openapi.json", "/api/devices", "/healthz"] {
        for method in [Method::GET, Method::HEAD, Method::POST] {
            let plain = seen(&client, &server, method.clone(), path).await;
            let has_policy = plain[1][0].is_string();
            assert_eq!(has_policy, path.ends_with("docs/"), "{method} {path}: {plain}");
            for (place, c) in path.char_indices().filter(|(_, c)| *c != '/') {
                let after = &path[place + c.len_utf8()..];
                let way = format!("{}%{:02x}{after}", &path[..place], u32::from(c));
                let answered = seen(&client, &server, method.clone(), &way).await;
                assert_eq!(answered, plain, "{method} {way}");
            }
        }
    }
}

#[tokio::test]
async fn a_streamed_answer_to_http_1_0_is_not_chunked() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    let made = Client::new().post(server.http_url("/api/sessions")).bearer_auth(ADMIN);
    let made = made.json(&json!({"name": "a", "creator_id": "me"})).send().await.unwrap();
    let made: Value = made.json().await.unwrap();
    let id = made["id"].as_str().unwrap();
    let body = json!({"message": "hello", "stream": true}).to_string();
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /api/sessions/{id}/chat HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {ADMIN}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = socket.read_to_string(&mut answer);
    tokio::time::timeout(Duration::from_secs(20), read).await.expect("it ends").unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200") && !head.contains("chunked"), "{head}");
    assert!(body.starts_with("data: ") || body.starts_with("event: "), "{body}");
}

#[tokio::test]
async fn too_many_requests_get_429_with_retry_after() {
    let vendors = Vendors::start().await;
    let tweak = |config: &mut hearken::config::Config| {
        guarded(config);
        config.http.requests_per_minute = 2;
    };
    let server = TestServer::start(&vendors, tweak).await;
    for _ in 0..2 {
        assert_eq!(get(&server, "/api/devices", &[]).await.status(), 200);
    }
    let answer = get(&server, "/api/devices", &[]).await;
    assert_eq!(answer.status(), 429);
    let wait: u64 = answer.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    let told: Value = answer.json().await.unwrap();
    assert_eq!(told["error"]["code"], "RATE_LIMITED");
    for _ in 0..5 {
        for path in ["/healthz", "/metrics", "/xiaozhi/ota/"] {
            let answer = get(&server, path, &[("device-id", "02:00:00:00:00:07")]).await;
            assert_eq!(answer.status(), 200, "{path}");
        }
    }
}

#[tokio::test]
async fn only_configured_origins_may_send_requests() {
    let vendors = Vendors::start().await;
    let tweak = |config: &mut hearken::config::Config| {
        guarded(config);
        config.http.cors_origins = vec!["https://museum.example/".into()];
    };
    let server = TestServer::start(&vendors, tweak).await;
    let answer = get(&server, "/api/devices", &[("origin", "https://museum.example")]).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["access-control-allow-origin"], "https://museum.example");
    let answer = get(&server, "/api/devices", &[("origin", "https://evil.example")]).await;
    assert_eq!(answer.status(), 403);
    let refused = Client::new().get(server.http_url("/api/devices"));
    let refused = refused.header("origin", "https://museum.example").send().await.unwrap();
    assert_eq!(refused.status(), 401, "an allowed origin still needs the token");
    assert_eq!(refused.headers()["access-control-allow-origin"], "https://museum.example");
    let told: Value = refused.json().await.unwrap();
    assert_eq!(told["error"]["code"], json!("UNAUTHORIZED"));
}

/// The preflight request of a browser for a page of another site.
async fn may_send(server: &TestServer, path: &str, origin: &str) -> Response {
    Client::new()
        .request(Method::OPTIONS, server.http_url(path))
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "client-id,content-type,device-id,authorization")
        .send()
        .await
        .unwrap()
}

#[tokio::test]
async fn a_page_can_act_as_a_device_if_its_origin_is_allowed() {
    const PAGE: &str = "https://museum.example";
    let vendors = Vendors::start().await;
    for (origins, origin, let_in) in [
        (vec![PAGE], PAGE, Some(PAGE)),
        (vec![PAGE], "https://evil.example", None),
        // The origin of a page that was opened from a file.
        (vec!["*"], "null", Some("*")),
        (vec![], PAGE, None),
    ] {
        let server = TestServer::start(&vendors, |config| {
            config.http.cors_origins = origins.iter().map(|&site| site.to_owned()).collect();
        })
        .await;
        let allowed = |answer: &Response| {
            let site = answer.headers().get("access-control-allow-origin");
            site.map(|site| site.to_str().unwrap().to_owned())
        };
        for path in [
            "/xiaozhi/ota/",
            "/xiaozhi/ota",
            "/xiaozhi/ota/activate",
            "/vision/explain",
            "/api/devices",
            "/api/sessions",
            "/api/v1/sessions",
            "/api/agent/parse",
            "/litemcp/tool",
        ] {
            let answer = may_send(&server, path, origin).await;
            assert_eq!(allowed(&answer).as_deref(), let_in, "{origins:?} {origin} {path}");
            if let_in.is_none() {
                assert_eq!(answer.status(), 403, "{path}");
            } else {
                assert_eq!(answer.status(), 200, "{path}");
                let headers = answer.headers()["access-control-allow-headers"].to_str().unwrap();
                let headers = headers.to_lowercase();
                for header in ["client-id", "content-type", "device-id", "authorization"] {
                    assert!(headers.contains(header), "{path}: {headers}");
                }
                let methods = answer.headers()["access-control-allow-methods"].to_str().unwrap();
                assert!(methods.contains("POST"), "{path}: {methods}");
            }
        }
        let boot = Client::new()
            .post(server.http_url("/xiaozhi/ota/"))
            .header("origin", origin)
            .header("device-id", "02:00:00:00:00:07")
            .json(&json!({}));
        let answer = boot.send().await.unwrap();
        // Without these headers the browser withholds the response from the page.
        assert_eq!(allowed(&answer).as_deref(), let_in, "{origins:?} {origin}");
        let told: Value = answer.json().await.unwrap();
        assert_eq!(told["websocket"]["url"].is_string(), let_in.is_some(), "{told}");
        server.stop().await;
    }
}
