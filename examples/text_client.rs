//! A text client: sends each argument to a server, prints the answers, and serves a tool of its own
//! that the model may call.
//!
//! ```sh
//! cargo run --example text_client -- ws://127.0.0.1:9400/ "How full is my battery?"
//! ```
#![allow(clippy::print_stdout, reason = "it shows the answers")]

use std::error::Error;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn send(socket: &mut Socket, message: Value) -> Result<(), Box<dyn Error>> {
    Ok(socket.send(Message::text(message.to_string())).await?)
}

/// The next message; skips pings and pongs of the WebSocket.
async fn next(socket: &mut Socket) -> Result<Value, Box<dyn Error>> {
    while let Some(frame) = socket.next().await {
        if let Message::Text(text) = frame? {
            return Ok(serde_json::from_str(&text)?);
        }
    }
    Err("the server closed the connection".into())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().ok_or("use: text_client URL QUESTION...")?;
    let (mut socket, _) = connect_async(url).await?;
    let battery = json!({
        "name": "get_battery",
        "description": "Tells how full the battery is, in percent.",
        "parameters": {"type": "object", "properties": {}},
    });
    send(&mut socket, json!({"type": "register_tools", "tools": [battery]})).await?;
    for question in args {
        send(&mut socket, json!({"type": "text_input", "text": question})).await?;
        loop {
            let message = next(&mut socket).await?;
            match message["type"].as_str().unwrap_or_default() {
                "tool_callback" => {
                    println!("called: {}", message["tool_name"]);
                    let call_id = &message["call_id"];
                    let result = json!({"level": 85});
                    let result = json!({
                        "type": "tool_result", "call_id": call_id, "success": true, "result": result,
                    });
                    send(&mut socket, result).await?;
                }
                "llm_response" => {
                    println!("{}", message["content"].as_str().unwrap_or_default());
                    break;
                }
                "error" => return Err(message.to_string().into()),
                // `status` and others: see proto/README.md.
                _ => {}
            }
        }
    }
    Ok(socket.close(None).await?)
}
