//! Tool servers of the gauntlet: each has the tool `count`, which returns the number of its calls
//! with a key. Not for servers that misbehave: the proxy in front of them does that.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures_util::{SinkExt as _, StreamExt as _};
use hearken_test_support::vendors::{Request, read_request};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

/// Letters after the number, so that an answer has a middle.
pub(super) const FILLED: usize = 400;

/// Protocol of a server.
#[derive(Debug, Clone, Copy)]
pub(super) enum Speaks {
    /// MCP, one message per line.
    McpLines,
    /// LiteMCP, with its end mark.
    LiteMcpLines,
    LiteMcpSocket,
    LiteMcpHttp,
}

/// Calls so far, by key.
#[derive(Default)]
struct Counts(Mutex<HashMap<String, u32>>);

impl Counts {
    /// Returns the tool's answer to a call with this key.
    fn count(&self, key: &Value) -> String {
        let key = key.as_str().unwrap_or_default();
        let mut counts = self.0.lock().unwrap();
        let count = counts.entry(key.to_owned()).or_default();
        *count += 1;
        format!("{key} {count} {}", "x".repeat(FILLED))
    }
}

/// Server on loopback, until dropped.
pub(super) struct Service {
    pub(super) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Service {
    pub(super) async fn start(speaks: Speaks) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Arc::new(Counts::default());
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let counts = Arc::clone(&counts);
                connections.spawn(async move { serve(stream, speaks, &counts).await });
            }
        });
        Self { address, task }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves one connection; its end is not an error.
async fn serve(stream: TcpStream, speaks: Speaks, counts: &Counts) -> Option<()> {
    match speaks {
        Speaks::McpLines => lines(stream, "\n", |asked| mcp(asked, counts)).await,
        Speaks::LiteMcpLines => lines(stream, "\n\n\n", |asked| litemcp(asked, counts)).await,
        Speaks::LiteMcpSocket => socket(stream, counts).await,
        Speaks::LiteMcpHttp => http(stream, counts).await,
    }
}

async fn lines(
    mut stream: TcpStream,
    end: &str,
    answer: impl Fn(&Value) -> Option<Value>,
) -> Option<()> {
    let mut read = Vec::new();
    loop {
        while let Some(at) = read.windows(end.len()).position(|part| part == end.as_bytes()) {
            let rest = read.split_off(at + end.len());
            let asked: Value = serde_json::from_slice(&read[..at]).unwrap_or_default();
            read = rest;
            if let Some(answer) = answer(&asked) {
                stream.write_all(format!("{answer}{end}").as_bytes()).await.ok()?;
            }
        }
        (stream.read_buf(&mut read).await.ok()? > 0).then_some(())?;
    }
}

async fn socket(stream: TcpStream, counts: &Counts) -> Option<()> {
    let mut socket = accept_async(stream).await.ok()?;
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let asked: Value = serde_json::from_str(&text).unwrap();
        let answer = litemcp(&asked, counts)?;
        socket.send(Message::text(answer.to_string())).await.ok()?;
    }
    None
}

async fn http(mut stream: TcpStream, counts: &Counts) -> Option<()> {
    loop {
        let Request { head, body } = read_request(&mut stream).await?;
        let body = match head.split(' ').next() {
            Some("GET") => litemcp_tool(),
            _ => {
                let asked: Value = serde_json::from_slice(&body).ok()?;
                litemcp_result(&counts.count(&asked["arguments"][0]))
            }
        };
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.ok()?;
        stream.write_all(body.as_bytes()).await.ok()?;
    }
}

/// Returns the answer of a server of 2025-11-25.
fn mcp(asked: &Value, counts: &Counts) -> Option<Value> {
    let id = asked.get("id")?;
    let schema = json!({"type": "object", "properties": {"key": {"type": "string"}}});
    let result = match asked["method"].as_str()? {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "counter", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": "count", "inputSchema": schema}]}),
        "tools/call" => {
            let text = counts.count(&asked["params"]["arguments"]["key"]);
            json!({"content": [{"type": "text", "text": text}]})
        }
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn litemcp(asked: &Value, counts: &Counts) -> Option<Value> {
    let (kind, data) = match asked["type"].as_str()? {
        "get" => ("info", litemcp_tool()),
        _ => ("result", litemcp_result(&counts.count(&asked["data"]["arguments"][0]))),
    };
    Some(json!({"version": [1, 0, 0], "id": asked["id"], "type": kind, "data": data}))
}

fn litemcp_tool() -> Value {
    json!({"version": [1, 0, 0], "name": "count", "parameters": [{"name": "key"}]})
}

fn litemcp_result(text: &str) -> Value {
    let content = json!([{"type": "text", "data": text}]);
    json!({"version": [1, 0, 0], "params": {}, "response": {"content": content, "error": false}})
}
