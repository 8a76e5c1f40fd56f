//! Administrator sessions, the figures of the server and the audit log.

use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::{Admin, PASSWORD, ask, guarded, log_in};
use crate::support::app::{TestServer, Vendors};

#[tokio::test]
async fn requests_without_an_access_token_are_refused() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |_| {}).await;
    let (_, pair) = log_in(&admin.server, "admin", PASSWORD).await;
    let refresh = pair["refresh_token"].as_str().unwrap();
    for (method, path) in [
        (Method::GET, "/api/admin/config"),
        (Method::PUT, "/api/admin/config"),
        (Method::PATCH, "/api/v1/admin/config"),
        (Method::GET, "/api/admin/sessions"),
        (Method::DELETE, "/api/admin/sessions/x"),
        (Method::GET, "/api/admin/metrics"),
        (Method::GET, "/api/admin/audit"),
        (Method::POST, "/api/admin/logout"),
    ] {
        for token in ["", "x", PASSWORD, refresh] {
            let (status, told) =
                ask(&admin.server, method.clone(), path, token, json!({"llm.model": "x"})).await;
            assert_eq!((status, &told["error"]["code"]), (401, &json!("UNAUTHORIZED")), "{path}");
        }
    }
    let (status, told) = ask(&admin.server, Method::GET, "/api/admin/login", "", Value::Null).await;
    assert_eq!(status, 405, "{told}");
    for body in [json!({}), json!({"username": "admin"}), json!([])] {
        let (status, _) = ask(&admin.server, Method::POST, "/api/admin/login", "", body).await;
        assert_eq!(status, 400);
    }
    let page = Client::new().get(admin.server.http_url("/api/admin/config"));
    let page = page.bearer_auth(&admin.token).header("origin", "https://evil.example");
    assert_eq!(page.send().await.unwrap().status(), 403);
}

#[tokio::test]
async fn tokens_are_issued_refreshed_once_and_revoked() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    let (status, pair) = log_in(&server, "admin", PASSWORD).await;
    assert_eq!(
        (status, &pair["token_type"], &pair["expires_in"]),
        (200, &json!("bearer"), &json!(900))
    );
    let exchange = async |pair: &Value| {
        let body = json!({"refresh_token": pair["refresh_token"]});
        ask(&server, Method::POST, "/api/admin/refresh", "", body).await
    };
    let (status, next) = exchange(&pair).await;
    assert_eq!(status, 200, "{next}");
    assert_ne!(next["refresh_token"], pair["refresh_token"]);
    let token = next["access_token"].as_str().unwrap();
    assert_eq!(ask(&server, Method::GET, "/api/admin/config", token, Value::Null).await.0, 200);
    let (status, told) = exchange(&pair).await;
    assert_eq!((status, &told["error"]["code"]), (401, &json!("UNAUTHORIZED")));
    assert_eq!(exchange(&next).await.0, 401, "a token that is used twice ends the session");
    let (_, pair) = log_in(&server, "admin", PASSWORD).await;
    let token = pair["access_token"].as_str().unwrap();
    assert_eq!(ask(&server, Method::POST, "/api/admin/logout", token, Value::Null).await.0, 204);
    assert_eq!(exchange(&pair).await.0, 401);
    let (status, told) = ask(&server, Method::GET, "/api/admin/config", token, Value::Null).await;
    assert_eq!(status, 401, "the access token ends with its session: {told}");
}

#[tokio::test]
async fn a_changed_password_ends_existing_sessions() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let with = |password: &'static str| {
        let folder = folder.path().to_owned();
        move |config: &mut hearken::config::Config| {
            guarded(config);
            config.server.data_dir = folder;
            config.admin.password = hearken_base::Secret::new(password);
        }
    };
    let server = TestServer::start(&vendors, with("the first password")).await;
    let (_, pair) = log_in(&server, "admin", "the first password").await;
    let token = pair["access_token"].as_str().unwrap();
    let get = async |server: &TestServer, token: &str| {
        ask(server, Method::GET, "/api/admin/config", token, Value::Null).await.0
    };
    assert_eq!(get(&server, token).await, 200);
    server.stop().await;
    let server = TestServer::start(&vendors, with("the first password")).await;
    assert_eq!(get(&server, token).await, 200, "a restart alone ends nothing");
    server.stop().await;
    let server = TestServer::start(&vendors, with("the second password")).await;
    assert_eq!(get(&server, token).await, 401);
    let body = json!({"refresh_token": pair["refresh_token"]});
    assert_eq!(ask(&server, Method::POST, "/api/admin/refresh", "", body).await.0, 401);
    let (_, pair) = log_in(&server, "admin", "the second password").await;
    assert_eq!(get(&server, pair["access_token"].as_str().unwrap()).await, 200);
}

#[tokio::test]
async fn password_attempts_are_limited() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        guarded(config);
        config.admin.password = hearken_base::Secret::new("a password of its own");
    })
    .await;
    assert_eq!(log_in(&server, "admin", "a password of its own").await.0, 200);
    let mut statuses = Vec::new();
    for n in 0..12 {
        let (status, told) = log_in(&server, "admin", &format!("guess {n}")).await;
        assert!(told["error"]["code"].is_string(), "{told}");
        statuses.push(status);
    }
    assert!(statuses.starts_with(&[401; 9]) && statuses.ends_with(&[429]), "{statuses:?}");
    let (status, _) = log_in(&server, "admin", "a password of its own").await;
    assert_eq!(status, 429, "the correct password is refused too");
}

#[tokio::test]
async fn sessions_are_listed_and_ended() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |_| {}).await;
    let body = json!({"client_metadata": {"client_type": "pet"}});
    let mut ids = Vec::new();
    for _ in 0..3 {
        let (_, told) =
            ask(&admin.server, Method::POST, "/api/session/register", "", body.clone()).await;
        ids.push(told["session_id"].as_str().unwrap().to_owned());
    }
    let listed = admin.get("/sessions?limit=2").await;
    assert_eq!((&listed["total"], listed["sessions"].as_array().unwrap().len()), (&json!(3), 2));
    let one = &listed["sessions"][0];
    assert_eq!(
        (&one["kind"], &one["client_metadata"]["client_type"]),
        (&json!("museum"), &json!("pet"))
    );
    let rest = admin.get("/sessions?limit=2&offset=2").await;
    assert_eq!(rest["sessions"].as_array().unwrap().len(), 1);
    for query in ["limit=0", "limit=501", "limit=x", "offset=-1"] {
        let (status, _) = admin.ask(Method::GET, &format!("/sessions?{query}"), Value::Null).await;
        assert_eq!(status, 400, "{query}");
    }
    let path = format!("/sessions/{}", ids[0]);
    assert_eq!(admin.ask(Method::DELETE, &path, Value::Null).await.0, 204);
    assert_eq!(admin.ask(Method::DELETE, &path, Value::Null).await.0, 404);
    let beat = Client::new().post(admin.server.http_url("/api/session/heartbeat"));
    assert_eq!(beat.header("session-id", &ids[0]).send().await.unwrap().status(), 401);
    assert_eq!(admin.get("/sessions").await["total"], 2);
    let audit = admin.get("/audit").await;
    // The second attempt, and the first.
    let failed = &audit["entries"][0];
    assert_eq!(failed["what"], "DELETE /api/admin/sessions/{id}");
    assert_eq!(failed["details"], json!({"path": {"id": ids[0]}, "status": 404}));
    let ended = &audit["entries"][1];
    assert_eq!((&ended["who"], &ended["what"]), (&json!("admin"), &json!("session ended")));
    assert_eq!(ended["details"]["session_id"], ids[0]);
}

#[tokio::test]
async fn figures_and_the_audit_log_report_what_happened() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |_| {}).await;
    let nowhere = admin.server.http_url("/api/devices/nobody");
    assert_eq!(Client::new().get(nowhere).send().await.unwrap().status(), 404);
    let told = admin.get("/metrics").await;
    let http = &told["http"];
    assert!(http["requests"].as_u64().unwrap() >= 2, "{told}");
    assert_eq!((&http["errors"], &http["error_rate"]), (&json!(0), &json!(0.0)));
    assert!(http["took_ms"]["p99"].is_u64(), "{told}");
    let routes = http["routes"].as_array().unwrap();
    let device = routes.iter().find(|r| r["route"] == "/api/devices/{id}").unwrap();
    assert_eq!((&device["method"], &device["by_status"]), (&json!("GET"), &json!({"404": 1})));
    for name in ["museum_sessions", "devices", "text_clients"] {
        assert_eq!(told[name], 0, "{name}: {told}");
    }
    for temperature in [0.1, 0.2, 0.3] {
        admin.set(json!({"museum.temperature": temperature})).await;
    }
    let first = admin.get("/audit?limit=2").await;
    let entry = &first["entries"][0];
    assert_eq!(entry["details"]["changes"]["museum.temperature"], json!({"old": 0.2, "new": 0.3}));
    assert!(entry["at"].as_str().unwrap().ends_with('Z'), "{entry}");
    let before = first["next"].as_i64().unwrap();
    let second = admin.get(&format!("/audit?limit=2&before={before}")).await;
    let whats: Vec<&str> =
        second["entries"].as_array().unwrap().iter().map(|e| e["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["settings changed", "logged in"]);
    assert!(!second.to_string().contains(PASSWORD));
}
