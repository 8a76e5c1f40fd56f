//! The worst input to sockets, each as one act that is repeated. Not for plain requests.

use futures_util::future::BoxFuture;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio_tungstenite::tungstenite::Message;

use super::mutations::{goldens, mutated};
use super::stranger::{Socket, Stranger, invented, read, send_all};
use super::{Attack, Held, act, worst_schemas};

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new("/", "tools with the worst schemas", worst_tools),
    Attack::new("/", "instructions of 8,000 characters for session after session", instructions),
    Attack::new("/", "a message of 1 MiB that does not end, held open", unfinished_text),
    Attack::new("/", "1,000 requests at once", many_requests),
    Attack::new("/", "messages of the wire, changed at random", changed_texts),
    Attack::new("/", "idle, held open", idle_text),
    Attack::new("/xiaozhi/v1/", "before the hello, held open", silent_device),
    Attack::new("/xiaozhi/v1/", "messages of the wire, changed at random", changed_frames),
    Attack::new("/xiaozhi/v1/", "packets that are no Opus, as fast as they go", no_opus),
    Attack::new("/xiaozhi/v1/", "a message that does not end, held open", unfinished_binary),
    Attack::new("/xiaozhi/v1/", "a tool list that does not end", endless_tools),
    Attack::new("/litemcp/{tool}", "calls of 1 MiB", long_calls),
    Attack::new("/api/sessions/{id}/ws", "filters without end, answers unread", filters),
];

fn texts(values: impl IntoIterator<Item = Value>) -> Vec<Message> {
    values.into_iter().map(|value| Message::text(value.to_string())).collect()
}

fn worst_tools(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        for schema in worst_schemas() {
            let mut socket = stranger.open("/", &[]).await?;
            let tool = json!({"name": "t", "description": "d", "parameters": schema});
            let message = json!({"type": "register_tools", "tools": [tool]});
            send_all(&mut socket, texts([message])).await;
            read(&mut socket, 2).await;
        }
        None
    })
}

fn instructions(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let mut socket = stranger.open("/", &[]).await?;
        for _ in 0..50 {
            let prompt = format!("{:08}", invented()).repeat(1_000);
            let configure = json!({"type": "configure", "system_prompt": prompt});
            let messages = [json!({"type": "start_session"}), configure];
            send_all(&mut socket, texts(messages)).await;
        }
        read(&mut socket, 200).await;
        send_all(&mut socket, texts([json!({"type": "text_input", "text": "hello"})])).await;
        read(&mut socket, 3).await;
        None
    })
}

/// Writes a frame whose head announces more bytes than follow.
async fn unfinished(mut socket: Socket, opcode: u8, announced: u64, sent: usize) -> Held {
    let stream = socket.get_mut();
    let mut frame = vec![opcode, 0x80 | 127];
    frame.extend(announced.to_be_bytes());
    frame.extend([0; 4]);
    frame.resize(frame.len() + sent, b'x');
    stream.write_all(&frame).await.ok();
    Some(Box::new(socket))
}

fn unfinished_text(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let socket = stranger.open("/", &[]).await?;
        unfinished(socket, 0x01, (1 << 20) - 1, (1 << 20) - 100).await
    })
}

fn many_requests(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let mut socket = stranger.open("/", &[]).await?;
        let request = json!({"type": "text_input", "text": "x".repeat(2_000)});
        send_all(&mut socket, texts(std::iter::repeat_n(request, 1_000))).await;
        None
    })
}

fn changed_texts(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let mut socket = stranger.open("/", &[]).await?;
        let goldens = goldens("gateway/read");
        for _ in 0..200 {
            let bytes = mutated(&goldens, invented());
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if socket.send(Message::text(text)).await.is_err() {
                break;
            }
        }
        read(&mut socket, 50).await;
        None
    })
}

fn idle_text(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move { Some(Box::new(stranger.open("/", &[]).await?) as _) })
}

fn silent_device(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move { Some(Box::new(stranger.device("1").await?) as _) })
}

fn hello(mcp: bool) -> Value {
    let audio =
        json!({"format": "opus", "sample_rate": 16000, "channels": 1, "frame_duration": 60});
    let features = json!({"mcp": mcp});
    json!({"type": "hello", "version": 1, "transport": "websocket", "features": features, "audio_params": audio})
}

fn changed_frames(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let version = ["1", "2", "3"][usize::try_from(invented() % 3).unwrap()];
        let mut socket = stranger.device(version).await?;
        send_all(&mut socket, texts([hello(invented().is_multiple_of(2))])).await;
        let goldens = goldens("device/up");
        for n in 0..150 {
            let bytes = mutated(&goldens, invented());
            let message = match n % 3 {
                0 => Message::binary(bytes),
                _ => Message::text(String::from_utf8_lossy(&bytes).into_owned()),
            };
            if socket.send(message).await.is_err() {
                break;
            }
        }
        read(&mut socket, 50).await;
        None
    })
}

fn no_opus(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let mut socket = stranger.device("1").await?;
        let listen = json!({"type": "listen", "state": "start", "mode": "auto"});
        send_all(&mut socket, texts([hello(false), listen])).await;
        for n in 0..2_000_u64 {
            let bytes: Vec<u8> = (0..n % 1_200).map(|i| (i * n % 251) as u8).collect();
            if socket.feed(Message::binary(bytes)).await.is_err() {
                break;
            }
        }
        socket.flush().await.ok();
        None
    })
}

fn unfinished_binary(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let socket = stranger.device("1").await?;
        unfinished(socket, 0x02, 60_000, 59_000).await
    })
}

/// Answers all MCP requests to a device, and lists tools with a further page each time.
fn endless_tools(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let mut socket = stranger.device("1").await?;
        send_all(&mut socket, texts([hello(true)])).await;
        for _ in 0..100 {
            let next = tokio::time::timeout(std::time::Duration::from_millis(500), socket.next());
            let Ok(Some(Ok(message))) = next.await else { break };
            let asked: Value =
                serde_json::from_str(message.to_text().unwrap_or("")).unwrap_or_default();
            let payload = &asked["payload"];
            let result = match payload["method"].as_str() {
                Some("initialize") => json!({
                    "protocolVersion": "2024-11-05",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "board", "version": "1"},
                }),
                Some("tools/list") => {
                    let tool = |n| {
                        json!({
                            "name": format!("self.t{}_{n}", invented()),
                            "description": "d".repeat(300),
                            "inputSchema": {"type": "object", "properties": {}},
                        })
                    };
                    let tools: Vec<Value> = (0..15).map(tool).collect();
                    json!({"tools": tools, "nextCursor": format!("c{}", invented())})
                }
                _ => continue,
            };
            let answer = json!({"jsonrpc": "2.0", "id": payload["id"], "result": result});
            let message = json!({"session_id": "", "type": "mcp", "payload": answer});
            send_all(&mut socket, texts([message])).await;
        }
        None
    })
}

fn long_calls(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let (id, token) = stranger.booted().await?;
        let headers = [("device-id", &*id), ("client-id", &*id), ("authorization", &*token)];
        let mut socket = stranger.open("/litemcp/get_current_time", &headers).await?;
        let data = json!({"version": [1, 0, 0], "tool": "get_current_time", "arguments": ["x".repeat((1 << 20) - 300)]});
        let call = json!({"version": [1, 0, 0], "id": 1, "type": "call", "data": data});
        send_all(&mut socket, texts(std::iter::repeat_n(call, 8))).await;
        Some(Box::new(socket) as _)
    })
}

fn filters(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let body = json!({"name": "n", "creator_id": "c"}).to_string();
        let (_, told) = stranger.ask(reqwest::Method::POST, "/api/sessions", &[], body).await;
        let id = told["id"].as_str()?;
        let mut socket = stranger.open(&format!("/api/sessions/{id}/ws"), &[]).await?;
        let types: Vec<String> = (0..64).map(|n| format!("{n:0>128}")).collect();
        let subscribe = json!({"type": "subscribe", "types": types});
        send_all(&mut socket, texts(std::iter::repeat_n(subscribe, 50))).await;
        Some(Box::new(socket) as _)
    })
}
