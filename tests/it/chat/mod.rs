//! Chat sessions over real sockets: the orchestrator's document, row by row, with the reference
//! state server. Not for the store alone, nor for several instances.

mod afterwards;
mod consent;
pub(crate) mod cutting;
mod events;
mod in_process;
mod leaving;
mod lifecycle;
mod lost_locks;
mod model;
mod owners;
mod pending_events;
mod scenario;
mod snapshots;
mod talk;
mod trouble;

use std::time::Duration;

use hearken::config::Config;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat};
use hearken_test_support::worlds::Worlds;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::app::{TestServer, Vendors};

/// Timeout for events that must occur.
const SOON: Duration = Duration::from_secs(20);

/// Makes the dice fall the same in every test.
const SEED: u64 = 7;

/// A server of chat sessions with a model that echoes messages and makes requested calls: `call
/// NAME ARGUMENTS`.
struct Table {
    server: TestServer,
    vendors: Vendors,
    _worlds: Worlds,
    http: reqwest::Client,
}

fn echo(asked: &[u8]) -> String {
    let asked = String::from_utf8_lossy(asked);
    if asked.starts_with("call ") { String::new() } else { format!("You said {asked}") }
}

impl Table {
    async fn start() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(tweak: impl FnOnce(&mut Config)) -> Self {
        let llm = OpenAiChat::answering(echo).await;
        let vendors = Vendors::of(
            ListenAiAsr::start(Behaviour::Normal, "").await,
            llm,
            ListenAiTts::start(Behaviour::Normal).await,
        );
        Self::of(vendors, tweak).await
    }

    async fn of(vendors: Vendors, tweak: impl FnOnce(&mut Config)) -> Self {
        let worlds = Worlds::start(SEED);
        let server = TestServer::start(&vendors, |config| {
            config.state.url = worlds.url.clone();
            tweak(config);
        })
        .await;
        Self { server, vendors, _worlds: worlds, http: reqwest::Client::new() }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, self.server.http_url(path)).timeout(SOON)
    }

    /// Sends a request; returns the status and the body.
    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let request = self.request(method, path);
        let request = match &body {
            Some(body) => request.json(body),
            None => request,
        };
        answer(request).await
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.ask(Method::GET, path, None).await
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// Creates a session.
    async fn session(&self) -> Session<'_> {
        let wanted = json!({"name": "失落的地牢", "creator_id": "user-123", "max_players": 5});
        let (status, made) = self.post("/api/sessions", wanted).await;
        assert_eq!(status, 201, "{made}");
        Session { table: self, id: made["session_id"].as_str().unwrap().to_owned() }
    }
}

async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let body = response.text().await.unwrap();
    (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

/// One chat session of a [`Table`].
struct Session<'a> {
    table: &'a Table,
    id: String,
}

impl Session<'_> {
    fn path(&self, part: &str) -> String {
        format!("/api/sessions/{}{part}", self.id)
    }

    async fn get(&self, part: &str) -> (u16, Value) {
        self.table.get(&self.path(part)).await
    }

    async fn post(&self, part: &str, body: Value) -> (u16, Value) {
        self.table.post(&self.path(part), body).await
    }

    /// Sends a message; returns the whole answer.
    async fn say(&self, message: &str) -> Value {
        let (status, told) = self.post("/chat", json!({ "message": message })).await;
        assert_eq!(status, 200, "{told}");
        told
    }

    /// The stored messages, as `role: content`.
    async fn said(&self) -> Vec<String> {
        let (status, told) = self.get("/messages").await;
        assert_eq!(status, 200, "{told}");
        let line = |m: &Value| {
            format!("{}: {}", m["role"].as_str().unwrap(), m["content"].as_str().unwrap())
        };
        told["messages"].as_array().unwrap().iter().map(line).collect()
    }
}

/// The status and the error code of an answer.
fn code(answer: (u16, Value)) -> (u16, String) {
    let (status, body) = answer;
    (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
}
