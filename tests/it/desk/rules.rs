//! Limits, names and sites, on the server's own routes.

use reqwest::{Client, Method, Response};
use serde_json::{Value, json};

use crate::support::app::{TestServer, Vendors};

const ADMIN: &str = "the admin token of the tests";

fn guarded(config: &mut hearken::config::Config) {
    config.auth.required = hearken::config::AuthRequired::Always;
    config.auth.admin_token = hearken::providers::Secret::new(ADMIN);
}

async fn get(server: &TestServer, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut asked = Client::new().request(Method::GET, server.http_url(path)).bearer_auth(ADMIN);
    for (name, value) in headers {
        asked = asked.header(*name, *value);
    }
    asked.send().await.unwrap()
}

#[tokio::test]
async fn every_answer_has_the_requests_name_and_v1_is_the_same_address() {
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
    assert_eq!(refused.status(), 401, "the other name is guarded as well");
    let put = Client::new().put(server.http_url("/api/v1/devices")).send().await.unwrap();
    assert_eq!((put.status().as_u16(), &put.headers()["allow"]), (405, &"GET".parse().unwrap()));
}

#[tokio::test]
async fn too_many_requests_are_told_when_to_come_again() {
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
async fn pages_of_other_sites_ask_where_that_is_configured_and_only_there() {
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
    assert_eq!(refused.status(), 401, "who may ask still needs the token");
    assert_eq!(refused.headers()["access-control-allow-origin"], "https://museum.example");
    let told: Value = refused.json().await.unwrap();
    assert_eq!(told["error"]["code"], json!("UNAUTHORIZED"));
}
