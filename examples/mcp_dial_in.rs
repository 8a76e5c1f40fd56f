//! An MCP server that dials in: it opens a WebSocket to the server, which then lists its tools and
//! calls them. Useful behind a router that blocks incoming connections. Standard MCP (2024-11-05),
//! one JSON-RPC message per frame.
//!
//! ```sh
//! TOKEN=$(hearken tools token)
//! cargo run --example mcp_dial_in -- "ws://127.0.0.1:9400/mcp_endpoint/mcp/?token=$TOKEN"
//! ```

use std::error::Error;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

/// Name under which the server lists these tools.
const NAME: &str = "dice";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("use: mcp_dial_in URL")?;
    let (mut socket, _) = connect_async(url).await?;
    while let Some(frame) = socket.next().await {
        let Message::Text(text) = frame? else { continue };
        let asked: Value = serde_json::from_str(&text)?;
        // A message without an id is a notification, which gets no response.
        let Some(id) = asked.get("id") else { continue };
        let answer = match answer(&asked) {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, message)) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
            }
        };
        socket.send(Message::text(answer.to_string())).await?;
    }
    Ok(())
}

/// The result of a request, or a JSON-RPC error: its code and message.
fn answer(asked: &Value) -> Result<Value, (i32, String)> {
    match asked["method"].as_str().unwrap_or_default() {
        "initialize" => Ok(json!({
            "protocolVersion": "2024-11-05",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": NAME, "version": "1.0.0"},
        })),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({"tools": [{
            "name": "add",
            "description": "Adds what two dice show.",
            "inputSchema": {
                "type": "object",
                "properties": {"first": {"type": "integer"}, "second": {"type": "integer"}},
                "required": ["first", "second"],
            },
        }]})),
        "tools/call" => call(&asked["params"]),
        other => Err((-32_601, format!("there is no method `{other}`"))),
    }
}

fn call(params: &Value) -> Result<Value, (i32, String)> {
    if params["name"] != "add" {
        return Err((-32_602, format!("there is no tool {}", params["name"])));
    }
    let dice = ["first", "second"].map(|name| params["arguments"][name].as_i64());
    // The failure of a tool is a result too, so that the model reads it.
    let (text, failed) = match dice {
        [Some(first @ 1..=6), Some(second @ 1..=6)] => (format!("{}", first + second), false),
        _ => ("a die shows 1 to 6".to_owned(), true),
    };
    Ok(json!({"content": [{"type": "text", "text": text}], "isError": failed}))
}
