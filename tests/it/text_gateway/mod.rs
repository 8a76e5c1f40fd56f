//! The LLM gateway over real sockets: what text clients are told, row by row of its document, and
//! what programs of others find there. Not for what the actor does in virtual time.

mod clients;
mod command;
mod limits;
mod many_connections;
mod messages;
mod page;
mod script;
mod sessions;
mod tools;

use std::time::Duration;

use futures_util::SinkExt as _;
use hearken_test_support::socket::{Socket, frame};
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use crate::support::app::{TestServer, Vendors};

/// Longest wait for a message that is sure to come.
const SOON: Duration = Duration::from_secs(20);

/// A text client.
struct TextClient {
    socket: Socket,
    session: String,
}

impl TextClient {
    /// One that has been told its session.
    async fn connect(server: &TestServer) -> Self {
        let (socket, _) = connect_async(server.gateway_url()).await.unwrap();
        let mut client = Self { socket, session: String::new() };
        let connected = client.next().await;
        assert_eq!(
            (&connected["type"], &connected["status"]),
            (&json!("status"), &json!("connected"))
        );
        client.session = connected["data"]["session_id"].as_str().unwrap().to_owned();
        client
    }

    async fn send(&mut self, message: Value) {
        self.send_text(message.to_string()).await;
    }

    async fn send_text(&mut self, text: impl Into<String>) {
        self.socket.send(Message::text(text.into())).await.unwrap();
    }

    /// The next message, or how the connection ended.
    async fn frame(&mut self) -> Result<Value, Option<u16>> {
        frame(&mut self.socket, SOON).await
    }

    async fn next(&mut self) -> Value {
        self.frame().await.expect("the connection lives")
    }

    /// Says this and gives every message up to the one that ends the request.
    async fn ask(&mut self, text: &str) -> Vec<Value> {
        self.send(json!({"type": "text_input", "text": text})).await;
        self.until_done().await
    }

    async fn until_done(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        loop {
            messages.push(self.next().await);
            let last = &messages[messages.len() - 1];
            if last["type"] == "llm_response" || last["type"] == "error" {
                return messages;
            }
        }
    }

    /// Says this and gives the answer's words.
    async fn answer(&mut self, text: &str) -> String {
        let mut messages = self.ask(text).await;
        let last = messages.pop().unwrap();
        assert_eq!(last["type"], "llm_response", "{last}");
        last["content"].as_str().unwrap().to_owned()
    }

    /// Nothing was said meanwhile, and the connection lives.
    async fn is_quiet(&mut self) {
        self.send(json!({"type": "ping"})).await;
        assert_eq!(self.next().await["type"], "pong");
    }

    /// Registers tools of these names, without parameters.
    async fn register(&mut self, names: &[&str]) {
        let tools: Vec<Value> = names.iter().map(|name| tool(name)).collect();
        self.send(json!({"type": "register_tools", "tools": tools})).await;
        let told = self.next().await;
        assert_eq!(
            (&told["type"], &told["count"]),
            (&json!("tools_registered"), &json!(names.len()))
        );
    }
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "Does it.", "parameters": {"type": "object", "properties": {}}})
}

/// `type`, or of a status its name.
fn kinds(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|m| m["status"].as_str().or(m["type"].as_str()).unwrap()).collect()
}

/// Vendors whose model answers what `reply` makes of the last message.
async fn answering(reply: fn(&[u8]) -> String) -> Vendors {
    Vendors::of(
        ListenAiAsr::start(Behaviour::Normal, "").await,
        OpenAiChat::answering(reply).await,
        ListenAiTts::start(Behaviour::Normal).await,
    )
}

/// Says back what it was told last; nothing where a tool failed.
fn echo(asked: &[u8]) -> String {
    let asked = String::from_utf8_lossy(asked);
    if asked.starts_with("call ") || asked.starts_with("error: ") {
        return String::new();
    }
    format!("You said {asked}")
}

/// A server whose model says back what it is told.
async fn echoing() -> (Vendors, TestServer) {
    let vendors = answering(echo).await;
    let server = TestServer::start(&vendors, |_| {}).await;
    (vendors, server)
}

/// The bodies that the model was asked with, in order.
fn asked(vendors: &Vendors) -> Vec<Value> {
    let seen = vendors.llm.seen().texts;
    seen.iter().filter_map(|text| serde_json::from_str(text).ok()).collect()
}
