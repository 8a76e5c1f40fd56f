//! The administration API over real sockets: tokens, sessions, figures, audit log, and settings
//! that change at run time. Not for the effect of each setting.

mod accounts;
mod audit;
mod backup;
mod changes;
mod history;
mod lasting;
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

/// A server and a session of its administrator.
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

    /// Sends a request below `/api/admin`; returns its status and body.
    async fn ask(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        ask(&self.server, method, &format!("/api/admin{path}"), &self.token, body).await
    }

    async fn get(&self, path: &str) -> Value {
        let (status, told) = self.ask(Method::GET, path, Value::Null).await;
        assert_eq!(status, 200, "{path}: {told}");
        told
    }

    /// Changes settings; the server must accept them.
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

/// Sends a request with this token to any server.
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
