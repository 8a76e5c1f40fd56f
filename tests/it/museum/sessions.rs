//! Sessions of museum clients: registration, heartbeats, end and expiry.

use std::time::Duration;

use hearken::config::AuthRequired;
use hearken_base::Secret;
use hearken_test_support::eventually;
use hearken_test_support::vendors::{Behaviour, OpenAiChat};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::{Visit, samples};

const REGISTER: &str = "/api/session/register";
const HEARTBEAT: &str = "/api/session/heartbeat";
const UNREGISTER: &str = "/api/session/unregister";
const STATS: &str = "/api/session/stats";
const INFO: &str = "/api/session/info";
const PARSE: &str = "/api/agent/parse";

fn time(value: &Value) -> jiff::Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn the_original_client_registers_stays_and_unregisters() {
    let visit = Visit::usual().await;
    let (status, told) = visit.ask(Method::GET, STATS, "", Value::Null).await;
    assert_eq!((status, &told["active_sessions"]), (200, &json!(0)), "{told}");
    let body = json!({
        "client_metadata": {
            "client_id": "client_1", "client_type": "test", "client_version": "1.0.0",
            "platform": "web-test-client",
            "capabilities": {"max_concurrent_requests": 3, "function_calling_supported": true},
            "custom_fields": {},
        },
        "functions": samples(),
    });
    let (status, told) = visit.ask(Method::POST, REGISTER, "", body.clone()).await;
    assert_eq!(status, 200, "{told}");
    let id = told["session_id"].as_str().unwrap().to_owned();
    assert_eq!(uuid::Uuid::parse_str(&id).unwrap().get_version_num(), 4);
    let lasts = time(&told["expires_at"]).duration_since(time(&told["server_timestamp"]));
    assert!((890..=900).contains(&lasts.as_secs()), "{told}");
    assert_eq!(
        told["supported_features"],
        json!(["dynamic_operations", "session_management", "heartbeat", "function_calling"])
    );
    let (status, told) = visit.ask(Method::POST, HEARTBEAT, &id, Value::Null).await;
    assert_eq!(
        (status, &told["status"], &told["session_valid"]),
        (200, &json!("alive"), &json!(true))
    );
    time(&told["timestamp"]);
    let (_, told) = visit.ask(Method::GET, STATS, "", Value::Null).await;
    assert_eq!((&told["active_sessions"], &told["total_sessions"]), (&json!(1), &json!(1)));
    let (status, told) = visit.ask(Method::GET, INFO, &id, Value::Null).await;
    assert_eq!((status, &told["client_metadata"]), (200, &body["client_metadata"]), "{told}");
    assert_eq!(told["functions"], json!(["introduce_artifact", "move_to_position"]));
    let (status, told) = visit.ask(Method::DELETE, UNREGISTER, &id, Value::Null).await;
    assert_eq!((status, &told["status"]), (200, &json!("unregistered")));
    assert!(told["message"].is_string() && told["timestamp"].is_string(), "{told}");
    for (method, path) in
        [(Method::POST, HEARTBEAT), (Method::DELETE, UNREGISTER), (Method::GET, INFO)]
    {
        assert_eq!(visit.ask(method, path, &id, Value::Null).await.0, 401, "{path}");
    }
}

#[tokio::test]
async fn requests_without_a_session_get_the_documented_error() {
    let visit = Visit::usual().await;
    let said = json!({"user_input": "你好"});
    for (method, path) in [
        (Method::POST, HEARTBEAT),
        (Method::DELETE, UNREGISTER),
        (Method::GET, INFO),
        (Method::POST, PARSE),
    ] {
        for (session, code) in [
            ("", "SESSION_REQUIRED"),
            ("nobody", "SESSION_NOT_FOUND"),
            ("00000000-0000-4000-8000-000000000000", "SESSION_NOT_FOUND"),
        ] {
            let (status, told) = visit.ask(method.clone(), path, session, said.clone()).await;
            let detail = told["detail"].as_str().unwrap_or_default();
            assert_eq!((status, &told["code"]), (401, &json!(401)), "{path} {told}");
            assert!(detail.contains("会话") && detail.contains(code), "{path} {told}");
            assert_eq!(told["data"], Value::Null);
        }
    }
}

#[tokio::test]
async fn both_header_spellings_and_versioned_paths_are_accepted() {
    let visit = Visit::usual().await;
    let id = visit.register(json!([])).await;
    for (header, path) in [
        ("session_id", HEARTBEAT),
        ("session-id", "/api/v1/session/heartbeat"),
        ("Session-Id", HEARTBEAT),
    ] {
        let url = visit.server.http_url(path);
        let answer = Client::new().post(url).header(header, &id).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{header} {path}");
    }
}

#[tokio::test]
async fn an_unused_session_expires() {
    let llm = OpenAiChat::start(Behaviour::Normal, "Good day.").await;
    let visit = Visit::start(llm, |config| {
        config.museum.session_timeout = Duration::from_millis(2_500);
        config.museum.requests_per_minute = 0;
    })
    .await;
    let idle = visit.register(json!([])).await;
    let busy = visit.register(json!([])).await;
    eventually("the idle session expired", async || {
        assert_eq!(visit.ask(Method::POST, HEARTBEAT, &busy, Value::Null).await.0, 200);
        let (status, told) = visit.ask(Method::GET, INFO, &idle, Value::Null).await;
        (status == 401).then(|| assert!(told["detail"].as_str().unwrap().contains("已过期")))
    })
    .await;
    assert_eq!(visit.parse(&busy, "hi").await.0, 200, "it was used");
    let (_, told) = visit.ask(Method::GET, STATS, "", Value::Null).await;
    assert_eq!((&told["active_sessions"], &told["total_sessions"]), (&json!(1), &json!(2)));
    assert_eq!(visit.parse(&idle, "hi").await.0, 401);
}

#[tokio::test]
async fn an_invalid_registration_is_refused_with_the_field() {
    let visit = Visit::usual().await;
    let function = |field: &str, value: Value| {
        let mut function = samples()[0].clone();
        function[field] = value;
        json!({"client_metadata": {}, "functions": [function]})
    };
    for (body, field) in [
        (json!({}), "client_metadata"),
        (json!({"client_metadata": "x"}), "client_metadata"),
        (json!({"client_metadata": {"x": "y".repeat(20_000)}}), "client_metadata"),
        (json!({"client_metadata": {}, "functions": {}}), "functions"),
        (json!({"client_metadata": {}, "functions": ["x"]}), "functions.0"),
        (function("name", json!("介绍")), "functions.0.name"),
        (function("name", json!("x".repeat(65))), "functions.0.name"),
        (function("name", Value::Null), "functions.0.name"),
        (function("description", json!(" ")), "functions.0.description"),
        (function("parameters", json!({"type": "string"})), "functions.0.parameters"),
        (
            function("parameters", json!({"type": "object", "required": 1})),
            "functions.0.parameters",
        ),
        (json!([]), "body"),
    ] {
        let (status, told) = visit.ask(Method::POST, REGISTER, "", body.clone()).await;
        assert_eq!((status, &told["code"]), (422, &json!(422)), "{body} {told}");
        let detail = told["detail"].as_str().unwrap();
        assert!(detail.contains(field), "{body}: {detail}");
        assert_eq!(told["errors"][0]["loc"][0], "body", "{told}");
    }
    let url = visit.server.http_url(REGISTER);
    for (body, wanted) in [("{", 422), ("", 422), (&*" ".repeat(600_000), 413)] {
        let answer = Client::new().post(&url).body(body.to_owned()).send().await.unwrap();
        assert_eq!(answer.status(), wanted);
        let told: Value = answer.json().await.unwrap();
        assert!(told["detail"].is_string(), "{told}");
    }
    let old = json!({"client_metadata": {}, "operation_set": ["walk_action", "idle_mode"]});
    let (status, told) = visit.ask(Method::POST, REGISTER, "", old).await;
    assert_eq!(status, 200, "clients of an older server: {told}");
    let (_, told) =
        visit.ask(Method::GET, INFO, told["session_id"].as_str().unwrap(), Value::Null).await;
    assert_eq!(told["functions"], json!(["walk_action", "idle_mode"]));
    for (method, path) in [(Method::GET, REGISTER), (Method::POST, STATS), (Method::GET, PARSE)] {
        assert_eq!(visit.ask(method, path, "", Value::Null).await.0, 405, "{path}");
    }
}

#[tokio::test]
async fn the_number_of_sessions_per_address_is_limited() {
    let llm = OpenAiChat::start(Behaviour::Normal, "Good day.").await;
    let visit = Visit::start(llm, |config| {
        config.auth.required = AuthRequired::Always;
        config.auth.admin_token = Secret::new("the admin token of the tests");
        config.museum.open_to_all = true;
        config.ota.trust_proxy = true;
        config.museum.max_sessions_per_address = 2;
    })
    .await;
    let register = async |address: &str, token: &str| {
        let asked = Client::new().post(visit.server.http_url(REGISTER));
        let asked = asked.header("x-forwarded-for", address).bearer_auth(token);
        asked.json(&json!({"client_metadata": {}})).send().await.unwrap().status().as_u16()
    };
    let at_once = (0..8).map(|_| register("203.0.113.1", ""));
    let mut statuses = futures_util::future::join_all(at_once).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [[200; 2].as_slice(), &[503; 6]].concat());
    assert_eq!(register("203.0.113.2", "").await, 200, "another address has its own share");
    assert_eq!(register("203.0.113.1", "the admin token of the tests").await, 200);
}

/// Functions of 1.8 MiB of memory each, checked at the start of each validation.
fn large(functions: usize) -> Value {
    // An object with a number takes 931 bytes.
    let objects = vec![json!({"a": 7}); 2_000];
    let one = |n: usize| {
        let parameters = json!({"type": "object", "examples": objects});
        json!({"name": format!("f{n}"), "description": "d", "parameters": parameters})
    };
    json!((0..functions).map(one).collect::<Vec<_>>())
}

#[tokio::test]
async fn memory_of_functions_is_released_with_the_session() {
    let llm = OpenAiChat::start(Behaviour::Normal, "Good day.").await;
    let visit = Visit::start(llm, |config| {
        config.museum.max_sessions = 1;
        config.museum.requests_per_minute = 0;
    })
    .await;
    let register = async |functions| {
        let body = json!({"client_metadata": {}, "functions": large(functions)});
        visit.ask(Method::POST, REGISTER, "", body).await
    };
    let (status, told) = register(2).await;
    let detail = told["detail"].as_str().unwrap_or_default();
    assert_eq!((status, detail), (422, "body.functions: takes at most 2048 KiB of memory"));
    for round in 0..4 {
        let (status, told) = register(1).await;
        assert_eq!(status, 200, "round {round}: {told}");
        let id = told["session_id"].as_str().unwrap();
        assert_eq!(register(0).await.0, 503, "there is room for one");
        assert_eq!(visit.ask(Method::DELETE, UNREGISTER, id, Value::Null).await.0, 200);
        assert_eq!(visit.ask(Method::GET, INFO, id, Value::Null).await.0, 401);
    }
    assert_eq!(register(1).await.0, 200);
}

#[tokio::test]
async fn sessions_survive_a_restart_and_their_number_is_limited() {
    let llm = OpenAiChat::start(Behaviour::Normal, "Good day.").await;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_owned();
    let tweak = |config: &mut hearken::config::Config| {
        config.server.data_dir = data.clone();
        config.museum.max_sessions = 2;
        config.museum.answers_for = Duration::ZERO;
    };
    let visit = Visit::start(llm, tweak).await;
    let id = visit.register(samples()).await;
    assert_eq!(visit.parse(&id, "first").await.0, 200);
    visit.register(json!([])).await;
    let (status, told) =
        visit.ask(Method::POST, REGISTER, "", json!({"client_metadata": {}})).await;
    assert_eq!((status, &told["code"]), (503, &json!(503)), "{told}");
    let Visit { server, vendors, .. } = visit;
    server.stop().await;
    let config = {
        let mut config = vendors.config();
        tweak(&mut config);
        config
    };
    let server = crate::support::app::TestServer::of(config, Vec::new()).await;
    let visit = Visit { server, llm_seen: super::llm_seen, vendors };
    assert_eq!(visit.parse(&id, "second").await.0, 200);
    let asked = visit.asked();
    let last = asked.last().unwrap();
    let said: Vec<&str> = last["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|m| m["role"] == "user")
        .map(|m| m["content"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["first", "second"], "earlier messages are remembered");
    assert_eq!(last["tools"].as_array().unwrap().len(), 2, "and the functions of the client");
}

#[tokio::test]
async fn requests_need_the_token_an_allowed_origin_and_are_rate_limited() {
    let llm = OpenAiChat::start(Behaviour::Normal, "Good day.").await;
    let token = "the token of the museum";
    let visit = Visit::start(llm, |config| {
        config.museum.token = hearken_base::Secret::new(token);
        config.museum.requests_per_minute = 3;
    })
    .await;
    assert_eq!(visit.ask(Method::GET, STATS, "", Value::Null).await.0, 401);
    let register = || {
        let asked = Client::new().post(visit.server.http_url(REGISTER)).bearer_auth(token);
        asked.json(&json!({"client_metadata": {}}))
    };
    let told: Value = register().send().await.unwrap().json().await.unwrap();
    let id = told["session_id"].as_str().unwrap().to_owned();
    let beat = || {
        let asked = Client::new().post(visit.server.http_url(HEARTBEAT)).bearer_auth(token);
        asked.header("session-id", &id)
    };
    for _ in 0..3 {
        assert_eq!(beat().send().await.unwrap().status(), 200);
    }
    let answer = beat().send().await.unwrap();
    assert_eq!(answer.status(), 429);
    let wait: u64 = answer.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=20).contains(&wait));
    let told: Value = answer.json().await.unwrap();
    assert_eq!((&told["code"], told["detail"].is_string()), (&json!(429), true));
    // Registrations are counted by address.
    assert_eq!(register().send().await.unwrap().status(), 200);
    let other = register().header("origin", "https://evil.example").send().await.unwrap();
    assert_eq!(other.status(), 403);
    assert_eq!(register().send().await.unwrap().status(), 200);
    assert_eq!(register().send().await.unwrap().status(), 429);
}
