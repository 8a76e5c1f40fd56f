//! The text gateway over real sockets: the messages that text clients receive, row by row of its
//! document, and third-party clients. The actor is tested in virtual time in its crate.

mod clients;
mod command;
mod instant;
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

/// Timeout for messages that must arrive.
const SOON: Duration = Duration::from_secs(20);

/// A text client.
struct TextClient {
    socket: Socket,
    session: String,
}

impl TextClient {
    /// Connects and reads the message with the session id.
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

    /// The next message, or the close code of the connection.
    async fn frame(&mut self) -> Result<Value, Option<u16>> {
        frame(&mut self.socket, SOON).await
    }

    async fn next(&mut self) -> Value {
        self.frame().await.expect("the connection is open")
    }

    /// Sends a text; returns all messages up to the last one of the request.
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

    /// Sends a text; returns the text of the answer.
    async fn answer(&mut self, text: &str) -> String {
        let mut messages = self.ask(text).await;
        let last = messages.pop().unwrap();
        assert_eq!(last["type"], "llm_response", "{last}");
        last["content"].as_str().unwrap().to_owned()
    }

    /// Checks that no message is pending and the connection is open.
    async fn is_quiet(&mut self) {
        self.send(json!({"type": "ping"})).await;
        assert_eq!(self.next().await["type"], "pong");
    }

    /// Registers tools with these names and without parameters.
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

/// The `type` of each message; for a status, its name.
fn kinds(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|m| m["status"].as_str().or(m["type"].as_str()).unwrap()).collect()
}

/// Vendors whose model answers with `reply` of the last message.
async fn answering(reply: fn(&[u8]) -> String) -> Vendors {
    Vendors::of(
        ListenAiAsr::start(Behaviour::Normal, "").await,
        OpenAiChat::answering(reply).await,
        ListenAiTts::start(Behaviour::Normal).await,
    )
}

/// Echoes the last message; empty after a failed tool.
fn echo(asked: &[u8]) -> String {
    let asked = String::from_utf8_lossy(asked);
    if asked.starts_with("call ") || asked.starts_with("error: ") {
        return String::new();
    }
    format!("You said {asked}")
}

/// A server whose model echoes messages.
async fn echoing() -> (Vendors, TestServer) {
    let vendors = answering(echo).await;
    let server = TestServer::start(&vendors, |_| {}).await;
    (vendors, server)
}

/// The bodies of the requests to the model, in order.
fn asked(vendors: &Vendors) -> Vec<Value> {
    let seen = vendors.llm.seen().texts;
    seen.iter().filter_map(|text| serde_json::from_str(text).ok()).collect()
}
