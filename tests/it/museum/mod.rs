//! Museum clients over real sockets: every path of their document, every field and error, requested
//! as the original clients do. Not for the quality of answers.

mod lives;
mod parsing;
mod sessions;

use hearken::config::Config;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat, Stub};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::support::app::{TestServer, Vendors};

/// A server with this model, and a client of it.
struct Visit {
    server: TestServer,
    llm_seen: fn(&Vendors) -> Vec<Value>,
    vendors: Vendors,
}

impl Visit {
    async fn start(llm: Stub, tweak: impl FnOnce(&mut Config)) -> Self {
        let asr = ListenAiAsr::start(Behaviour::Normal, "").await;
        let vendors = Vendors::of(asr, llm, ListenAiTts::start(Behaviour::Normal).await);
        let server = TestServer::start(&vendors, tweak).await;
        Self { server, llm_seen, vendors }
    }

    async fn usual() -> Self {
        Self::start(OpenAiChat::start(Behaviour::Normal, "Good day.").await, |_| {}).await
    }

    /// Sends a request with this session; returns status and body.
    async fn ask(&self, method: Method, path: &str, session: &str, body: Value) -> (u16, Value) {
        let mut asked = Client::new().request(method, self.server.http_url(path));
        if !session.is_empty() {
            asked = asked.header("session-id", session);
        }
        let answer = asked.json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }

    async fn register(&self, functions: Value) -> String {
        let body = json!({
            "client_metadata": {"client_type": "web", "client_version": "1.0.0"},
            "functions": functions,
        });
        let (status, told) = self.ask(Method::POST, "/api/session/register", "", body).await;
        assert_eq!(status, 200, "{told}");
        told["session_id"].as_str().unwrap().to_owned()
    }

    async fn parse(&self, session: &str, said: &str) -> (u16, Value) {
        let body = json!({"user_input": said, "client_type": "web", "scene_type": "public"});
        self.ask(Method::POST, "/api/agent/parse", session, body).await
    }

    /// The requests to the model, in order.
    fn asked(&self) -> Vec<Value> {
        (self.llm_seen)(&self.vendors)
    }
}

/// The bodies of the requests to the model, without their heads.
fn llm_seen(vendors: &Vendors) -> Vec<Value> {
    let texts = vendors.llm.seen().texts;
    texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect()
}

/// The sample functions of the original client.
fn samples() -> Value {
    json!([
        {"name": "introduce_artifact", "description": "介绍指定文物的详细信息", "parameters": {
            "type": "object",
            "properties": {"artifact_name": {"type": "string", "description": "文物名称"}},
            "required": ["artifact_name"]}},
        {"type": "function", "function": {
            "name": "move_to_position", "description": "移动到指定坐标位置", "parameters": {
                "type": "object",
                "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
                "required": ["x", "y"]}}},
    ])
}
