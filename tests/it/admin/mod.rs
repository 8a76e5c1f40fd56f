//! The administrator over real sockets: tokens, sessions, figures, the audit, and settings that
//! change while the server runs. Not for what a setting does beyond being used.

mod accounts;
mod backup;
mod changes;
mod history;
mod password;
mod services;
mod sessions;
mod turns;
mod usage;

use hearken::config::Config;
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::support::app::{TestServer, Vendors};

const PASSWORD: &str = "the admin token of the tests";

fn guarded(config: &mut Config) {
    config.auth.admin_token = hearken_base::Secret::new(PASSWORD);
}

/// A server and somebody who is logged in.
struct Admin {
    server: TestServer,
    token: String,
}

impl Admin {
    async fn start(vendors: &Vendors, tweak: impl FnOnce(&mut Config)) -> Self {
        let server = TestServer::start(vendors, |config| {
            guarded(config);
            tweak(config);
        })
        .await;
        Self::of(server).await
    }

    async fn of(server: TestServer) -> Self {
        let (status, told) = log_in(&server, "admin", PASSWORD).await;
        assert_eq!(status, 200, "{told}");
        let token = told["access_token"].as_str().unwrap().to_owned();
        Self { server, token }
    }

    /// What comes of this path below `/api/admin`.
    async fn ask(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        ask(&self.server, method, &format!("/api/admin{path}"), &self.token, body).await
    }

    async fn get(&self, path: &str) -> Value {
        let (status, told) = self.ask(Method::GET, path, Value::Null).await;
        assert_eq!(status, 200, "{path}: {told}");
        told
    }

    /// Changes settings, which must be taken.
    async fn set(&self, wanted: Value) -> Value {
        let (status, told) = self.ask(Method::PUT, "/config", wanted).await;
        assert_eq!(status, 200, "{told}");
        told
    }
}

async fn ask(
    server: &TestServer,
    method: Method,
    path: &str,
    token: &str,
    body: Value,
) -> (u16, Value) {
    ask_at(server.http_url(path), method, token, body).await
}

/// The same of any server.
async fn ask_at(url: String, method: Method, token: &str, body: Value) -> (u16, Value) {
    let mut asked = Client::new().request(method, url);
    if !token.is_empty() {
        asked = asked.bearer_auth(token);
    }
    if !body.is_null() {
        asked = asked.json(&body);
    }
    let answer = asked.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

async fn log_in(server: &TestServer, username: &str, password: &str) -> (u16, Value) {
    let body = json!({"username": username, "password": password});
    ask(server, Method::POST, "/api/admin/login", "", body).await
}
