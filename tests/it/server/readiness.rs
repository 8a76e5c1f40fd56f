//! `/readyz` while dependencies fail and recover: the store as a SQLite file and on a separate
//! PostgreSQL, Redis, and the services of a turn.

use hearken::config::Config;
use hearken_base::Secret;
use hearken_engines::supervise::Engine;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, nowhere};
use hearken_test_support::{eventually_within, free_port};
use serde_json::{Value, json};

use super::PATIENCE;
use crate::support::app::{TestServer, Vendors};
use crate::support::postgres::Postgres;

/// Waits for this status and state. The state of the store is up to a second old.
async fn until(server: &TestServer, status: u16, said: &str) -> Value {
    eventually_within(PATIENCE, said, async || {
        let (code, answer) = server.readiness().await;
        (code == status && answer["status"] == said).then_some(answer)
    })
    .await
}

async fn server(tweak: impl FnOnce(&mut Config)) -> (TestServer, Vendors) {
    let vendors = Vendors::start().await;
    (TestServer::start(&vendors, tweak).await, vendors)
}

#[tokio::test]
async fn a_server_with_all_dependencies_is_ready() {
    let (server, _vendors) = server(|_| {}).await;
    let all = json!({"store": "ready", "asr": "ready", "llm": "ready", "tts": "ready"});
    assert_eq!(server.readiness().await, (200, json!({"status": "ready", "dependencies": all})));
    server.stop().await;
}

#[tokio::test]
async fn a_store_with_a_missing_or_locked_file_is_down() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.db");
    let url = format!("sqlite://{}", file.display());
    let (server, _vendors) = server(|config| config.store.url = Secret::new(&url)).await;
    until(&server, 200, "ready").await;
    let aside = folder.path().join("b.db");
    std::fs::rename(&file, &aside).unwrap();
    let told = until(&server, 503, "down").await;
    assert_eq!(told["dependencies"]["store"], "down", "{told}");
    // The server is still alive and needs no restart.
    let alive = reqwest::get(server.http_url("/healthz")).await.unwrap();
    assert_eq!(alive.status().as_u16(), 200);
    std::fs::rename(&aside, &file).unwrap();
    until(&server, 200, "ready").await;

    let other = sqlx::any::AnyPoolOptions::new().max_connections(1).connect(&url).await.unwrap();
    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    until(&server, 503, "down").await;
    lock.rollback().await.unwrap();
    until(&server, 200, "ready").await;
    server.stop().await;
}

#[tokio::test]
async fn a_stopped_postgresql_is_reported_and_recovers() {
    let Some(mut postgres) = Postgres::start().await else { return };
    let url = postgres.url();
    let (server, _vendors) = server(|config| config.store.url = Secret::new(&url)).await;
    until(&server, 200, "ready").await;
    postgres.stop().await;
    let told = until(&server, 503, "down").await;
    assert_eq!(told["dependencies"]["store"], "down", "{told}");
    assert_eq!(told["dependencies"]["asr"], "ready", "{told}");
    assert!(!told.to_string().contains("postgres"), "the response is public: {told}");
    postgres.run().await;
    until(&server, 200, "ready").await;
    server.stop().await;
    postgres.stop().await;
}

#[tokio::test]
async fn a_failing_engine_is_reported_and_its_restarts_are_counted() {
    let vendors = Vendors::start().await;
    let engine = Engine {
        name: "speech",
        program: "/bin/false".into(),
        args: Vec::new(),
        env: Vec::new(),
        health_url: format!("http://127.0.0.1:{}/", free_port()),
        answers_within: PATIENCE,
    };
    let server = TestServer::of(vendors.config(), vec![engine]).await;
    let told = eventually_within(PATIENCE, "two restarts", async || {
        let (status, told) = server.readiness().await;
        assert_eq!((status, &told["status"]), (503, &json!("starting")), "{told}");
        (told["engines"]["speech"]["restarts"].as_u64()? >= 2).then_some(told)
    })
    .await;
    assert_ne!(told["engines"]["speech"]["state"], "ready", "{told}");
    let counted = server.metric("hearken_engine_restarts_total{engine=\"speech\"}").await;
    assert!(counted >= 2.0, "{counted}");
    server.stop().await;
}

#[tokio::test]
async fn without_redis_or_a_service_the_server_is_degraded() {
    let asr = ListenAiAsr::start(Behaviour::Refuse, "").await;
    let vendors = Vendors::with(asr, ListenAiTts::start(Behaviour::Normal).await).await;
    let server = TestServer::start(&vendors, |config| {
        config.redis.url = Secret::new(format!("redis://127.0.0.1:{}", free_port()));
    })
    .await;
    let told = until(&server, 200, "degraded").await;
    assert_eq!(told["dependencies"]["redis"], "down", "{told}");
    let told = until_service(&server, "asr", "down").await;
    assert_eq!(told["failures"], json!({"asr": "unavailable"}), "no request so far: {told}");
    vendors.asr.set(Behaviour::Normal);
    until_service(&server, "asr", "ready").await;
    server.stop().await;
}

/// Waits until the server reports this state of a service.
async fn until_service(server: &TestServer, service: &str, state: &str) -> Value {
    eventually_within(PATIENCE, state, async || {
        let (status, answer) = server.readiness().await;
        (status == 200 && answer["dependencies"][service] == state).then_some(answer)
    })
    .await
}

#[tokio::test]
async fn services_at_closed_ports_are_down_before_their_first_use() {
    let (server, _vendors) = server(|config| {
        config.asr.url = nowhere("ws");
        config.llm.base_url = format!("{}/v1", nowhere("http"));
        config.tts.url = nowhere("ws");
    })
    .await;
    for service in ["asr", "llm", "tts"] {
        let told = until_service(&server, service, "down").await;
        assert_eq!(told["failures"][service], "unavailable", "{told}");
        assert!(!told.to_string().contains("127.0.0.1"), "the response is public: {told}");
        let up = server
            .metric(&format!("hearken_provider_up{{port=\"{service}\",backend=\"0\"}}"))
            .await;
        assert!(up < 0.5, "{service}: {up}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_refused_api_key_is_detected_before_the_first_turn() {
    let vendors = Vendors::start().await;
    vendors.llm.set(Behaviour::HttpStatus(401, None));
    let server = TestServer::start(&vendors, |_| {}).await;
    let told = until_service(&server, "llm", "down").await;
    assert_eq!(told["failures"], json!({"llm": "unauthorized"}), "{told}");
    vendors.llm.set(Behaviour::Normal);
    until_service(&server, "llm", "ready").await;
    server.stop().await;
}
