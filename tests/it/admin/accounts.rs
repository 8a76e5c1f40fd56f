//! User accounts: the routes that each right opens, and how soon a change applies. Not for session tokens.

use hearken::config::AuthRequired;
use hearken::http::openapi;
use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::{Admin, PASSWORD, ask, log_in};
use crate::support::app::{TestServer, Vendors};

const SECRET: &str = "a password of anna";

async fn start(vendors: &Vendors) -> Admin {
    Admin::start(vendors, |config| config.auth.required = AuthRequired::Auto).await
}

/// Sends a request of the administrator below `/api/accounts`; returns its status and body.
async fn accounts(admin: &Admin, method: Method, path: &str, body: Value) -> (u16, Value) {
    ask(&admin.server, method, &format!("/api/accounts{path}"), &admin.token, body).await
}

async fn add(admin: &Admin, name: &str, right: &str) {
    let body = json!({"name": name, "right": right, "password": SECRET});
    let (status, told) = accounts(admin, Method::POST, "", body).await;
    assert_eq!((status, &told["right"]), (201, &json!(right)), "{told}");
}

/// Logs in and returns the access token.
async fn token_of(server: &TestServer, name: &str, password: &str) -> String {
    let (status, told) = log_in(server, name, password).await;
    assert_eq!(status, 200, "{told}");
    told["access_token"].as_str().unwrap().to_owned()
}

async fn status(server: &TestServer, method: Method, path: &str, token: &str) -> u16 {
    ask(server, method, path, token, Value::Null).await.0
}

/// Routes for guests, and further routes for members.
const GUEST: [&str; 5] = [
    "GET /api/account",
    "POST /api/admin/logout",
    "POST /api/admin/password",
    "GET /api/devices",
    "GET /api/devices/{id}",
];
const MEMBER: [&str; 17] = [
    "GET /api/turns",
    "/api/history",
    "POST /api/devices/bind",
    "PATCH /api/devices/{id}",
    "POST /api/devices/{id}/{order}",
    "GET /api/devices/{id}/status",
    "GET /api/devices/{id}/tools",
    "PUT /api/devices/{id}/tools",
    "/api/sessions/{id}/tools",
    "/api/persons",
    "GET /api/roles",
    "POST /api/roles/try",
    "POST /api/services/test",
    "GET /api/tools",
    "GET /api/tools/waiting",
    "POST /api/tools/waiting",
    "GET /api/usage",
];

/// Whether a list contains this route. An entry without a method, or one for a group of read
/// routes, matches by prefix.
fn has(list: &[&str], method: &str, path: &str) -> bool {
    let route = format!("{method} {path}");
    let group = |start: &&&str| {
        start.starts_with('/') && path.starts_with(**start)
            || (method == "GET" && ["GET /api/turns", "GET /api/roles"].contains(*start))
                && route.starts_with(**start)
    };
    list.contains(&&*route) || list.iter().any(|start| group(&start))
}

/// Routes that require the admin token or a login.
fn guarded_routes() -> Vec<(String, String)> {
    let described = serde_json::to_value(openapi::description()).unwrap();
    let open = ["/api/admin/login", "/api/admin/setup", "/api/admin/refresh"];
    let guarded = [
        "/api/account",
        "/api/admin/",
        "/api/devices",
        "/api/history",
        "/api/persons",
        "/api/provisioning",
        "/api/roles",
        "/api/services",
        "/api/tools",
        "/api/turns",
        "/api/usage",
    ];
    let mut routes = Vec::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        let is_guarded = guarded.iter().any(|start| path.starts_with(start));
        if open.contains(&path.as_str()) || !(is_guarded || path == "/api/sessions/{id}/tools") {
            continue;
        }
        for method in methods.as_object().unwrap().keys() {
            routes.push((method.to_uppercase(), path.clone()));
        }
    }
    routes
}

#[tokio::test]
async fn each_right_opens_exactly_its_routes() {
    let vendors = Vendors::start().await;
    let admin = start(&vendors).await;
    add(&admin, "anna", "member").await;
    add(&admin, "guest", "guest").await;
    let routes = guarded_routes();
    assert!(routes.len() > 50, "{routes:?}");
    for (method, path) in routes {
        // These end the session that the next routes need.
        let ends = path.ends_with("/logout") || path.ends_with("/password");
        let at = path.replace("{order}", "speak").replace("{key}", "x");
        let at = at.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
        let at = at.collect::<Vec<_>>().join("/");
        for (name, may) in [
            ("guest", has(&GUEST, &method, &path)),
            ("anna", has(&GUEST, &method, &path) || has(&MEMBER, &method, &path)),
        ] {
            if ends || path.ends_with("/live") {
                continue;
            }
            let token = cached_token(&admin, name).await;
            let asked = Method::from_bytes(method.as_bytes()).unwrap();
            let (told, body) = ask(&admin.server, asked, &at, &token, Value::Null).await;
            assert_ne!(told, 401, "{name}: {method} {path}");
            assert_eq!(told != 403, may, "{name}: {method} {path} gave {told}: {body}");
        }
    }
    let (told, body) = ask(
        &admin.server,
        Method::GET,
        "/api/v1/admin/config",
        &token_of(&admin.server, "anna", SECRET).await,
        Value::Null,
    )
    .await;
    assert_eq!((told, &body["error"]["code"]), (403, &json!("FORBIDDEN")), "{body}");
    assert!(body["error"]["message"].as_str().unwrap().contains("`administrator`"), "{body}");
}

/// The access token of this user. It is requested once only: the limit is ten attempts a minute.
async fn cached_token(admin: &Admin, name: &str) -> String {
    static TOKENS: tokio::sync::Mutex<Vec<(String, String)>> =
        tokio::sync::Mutex::const_new(Vec::new());
    let mut tokens = TOKENS.lock().await;
    if let Some((_, token)) = tokens.iter().find(|(known, _)| known == name) {
        return token.clone();
    }
    let token = token_of(&admin.server, name, SECRET).await;
    tokens.push((name.to_owned(), token.clone()));
    token
}

#[tokio::test]
async fn changes_to_an_account_apply_at_once() {
    let vendors = Vendors::start().await;
    let admin = start(&vendors).await;
    let server = &admin.server;
    add(&admin, "Anna.B", "member").await;
    add(&admin, "ben", "guest").await;
    let anna = token_of(server, "anna.b", SECRET).await;
    let ben = token_of(server, "BEN", SECRET).await;
    let (_, told) = ask(server, Method::GET, "/api/account", &anna, Value::Null).await;
    assert_eq!(told, json!({"name": "anna.b", "right": "member"}));
    let (_, told) = ask(server, Method::GET, "/api/account", PASSWORD, Value::Null).await;
    assert_eq!(told, json!({"name": "admin", "right": "administrator"}));
    a_guest_sees_less_of_a_device(server, &anna, &ben).await;
    let turns = "/api/turns";
    assert_eq!(
        [
            status(server, Method::GET, turns, &anna).await,
            status(server, Method::GET, turns, &ben).await
        ],
        [200, 403]
    );
    let (code, told) = accounts(&admin, Method::PATCH, "/ben", json!({"right": "member"})).await;
    assert_eq!((code, &told["right"]), (200, &json!("member")), "{told}");
    assert_eq!(status(server, Method::GET, turns, &ben).await, 200, "same session, more rights");

    // A password change ends all sessions, by the user and by the administrator.
    let change = json!({"current": SECRET, "password": "another of anna"});
    let (code, pair) = ask(server, Method::POST, "/api/admin/password", &anna, change).await;
    assert_eq!(code, 200, "{pair}");
    assert_eq!(status(server, Method::GET, turns, &anna).await, 401);
    let anna = pair["access_token"].as_str().unwrap();
    assert_eq!(status(server, Method::GET, turns, anna).await, 200);
    assert_eq!(log_in(server, "anna.b", SECRET).await.0, 401);
    let body = json!({"password": "a third one of hers"});
    assert_eq!(accounts(&admin, Method::PATCH, "/anna.b", body).await.0, 200);
    assert_eq!(status(server, Method::GET, turns, anna).await, 401);
    assert_eq!(accounts(&admin, Method::DELETE, "/ben", Value::Null).await.0, 204);
    assert_eq!(status(server, Method::GET, turns, &ben).await, 401);
    assert_eq!(log_in(server, "ben", SECRET).await.0, 401);
    let (_, told) = accounts(&admin, Method::GET, "", Value::Null).await;
    let names: Vec<_> =
        told["accounts"].as_array().unwrap().iter().map(|a| a["name"].clone()).collect();
    assert_eq!(names, ["anna.b"]);
    let audit = admin.get("/audit").await.to_string();
    for what in ["account added", "account changed", "account deleted", "password changed"] {
        assert!(audit.contains(what), "{what}: {audit}");
    }
    assert!(!audit.contains("argon2") && !audit.contains("third one"), "{audit}");
    assert_eq!(status(server, Method::GET, "/api/admin/config", &admin.token).await, 200);
}

#[tokio::test]
async fn wrong_codes_of_a_member_stop_no_one_else_from_binding() {
    let vendors = Vendors::start().await;
    let admin = start(&vendors).await;
    let server = &admin.server;
    add(&admin, "anna", "member").await;
    add(&admin, "ben", "member").await;
    let anna = token_of(server, "anna", SECRET).await;
    let ben = token_of(server, "ben", SECRET).await;
    let enter = async |token: &str| {
        let code = json!({"code": "000000"});
        ask(server, Method::POST, "/api/devices/bind", token, code).await.0
    };
    for _ in 0..10 {
        assert_eq!(enter(&anna).await, 404);
    }
    assert_eq!(enter(&anna).await, 429);
    for token in [PASSWORD, &ben, &admin.token] {
        assert_eq!(enter(token).await, 404);
    }
}

async fn a_guest_sees_less_of_a_device(server: &TestServer, anna: &str, ben: &str) {
    let report = Client::new().post(server.http_url("/xiaozhi/ota/"));
    let report = report.header("Device-Id", "02:00:00:00:00:09").header("Client-Id", "a-board");
    assert_eq!(report.json(&json!({})).send().await.unwrap().status(), 200);
    let one = "/api/devices/02:00:00:00:00:09";
    let body = json!({"system_prompt": "a secret of the house"});
    assert_eq!(ask(server, Method::PATCH, one, anna, body).await.0, 200);
    for path in [one, "/api/devices"] {
        for (token, knows) in [(anna, true), (ben, false)] {
            let (code, told) = ask(server, Method::GET, path, token, Value::Null).await;
            assert_eq!((code, told.to_string().contains("a secret")), (200, knows), "{told}");
        }
    }
}

#[tokio::test]
async fn invalid_accounts_are_refused_with_the_reason() {
    let vendors = Vendors::start().await;
    let admin = start(&vendors).await;
    add(&admin, "anna", "guest").await;
    let long = "x".repeat(41);
    for (name, right, password, code, about) in [
        ("anna", "guest", SECRET, 409, "has this name"),
        ("ANNA", "guest", SECRET, 409, "has this name"),
        ("admin", "guest", SECRET, 409, "has this name"),
        ("", "guest", SECRET, 400, "a name has"),
        ("anna b", "guest", SECRET, 400, "a name has"),
        ("安娜", "guest", SECRET, 400, "a name has"),
        (&long, "guest", SECRET, 400, "a name has"),
        ("ben", "guest", "short", 400, "a password has"),
        ("ben", "king", SECRET, 400, "right"),
    ] {
        let body = json!({"name": name, "right": right, "password": password});
        let (told, body) = accounts(&admin, Method::POST, "", body).await;
        let message = body["error"]["message"].as_str().unwrap();
        assert_eq!((told, message.contains(about)), (code, true), "{name}: {body}");
    }
    for path in ["/nobody", "/admin", "/%2e%2e"] {
        let (told, _) = accounts(&admin, Method::PATCH, path, json!({"right": "guest"})).await;
        assert_eq!(told, 404, "{path}");
        assert_eq!(accounts(&admin, Method::DELETE, path, Value::Null).await.0, 404, "{path}");
    }
    // A page of another origin has no token, and the server sets no cookies.
    let login = Client::new().post(admin.server.http_url("/api/admin/login"));
    let login = login.json(&json!({"username": "anna", "password": SECRET})).send().await.unwrap();
    assert_eq!((login.status().as_u16(), login.headers().get("set-cookie")), (200, None));
    let foreign = Client::new().post(admin.server.http_url("/api/accounts"));
    let foreign = foreign.header("origin", "https://evil.example").bearer_auth(&admin.token);
    let body = json!({"name": "eve", "right": "administrator", "password": SECRET});
    let foreign = foreign.json(&body).send().await.unwrap();
    assert_eq!(foreign.status(), 403);
    let (_, told) = accounts(&admin, Method::GET, "", Value::Null).await;
    assert_eq!(told["accounts"].as_array().unwrap().len(), 1, "{told}");
}
