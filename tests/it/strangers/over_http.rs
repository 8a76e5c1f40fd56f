//! The worst HTTP requests, each as one act that is repeated. Not for sockets.

use futures_util::future::BoxFuture;
use reqwest::Method;
use serde_json::{Value, json};

use super::stranger::{Stranger, invented};
use super::{Attack, Held, act, worst_schemas};

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new("any", "invented methods", invented_methods),
    Attack::new("any", "a head that does not end, 100 KiB, held open", endless_head),
    Attack::new("any", "invented paths and queries of 6 KiB", long_paths),
    Attack::new("/xiaozhi/ota/", "64 KiB report of a new device", reports),
    Attack::new("/xiaozhi/ota/", "a body that does not come, held open", no_body),
    Attack::new("/xiaozhi/ota/activate", "64 KiB of nested arrays", activation),
    Attack::new("/xiaozhi/ota/firmware/{file}", "invented names", firmware),
    Attack::new("/vision/explain", "10 MiB without a token", picture),
    Attack::new("/api/sessions", "sessions with the longest texts", chat_sessions),
    Attack::new("/api/sessions", "nested and broken bodies", nested_bodies),
    Attack::new("/api/sessions/{id}/chat", "the longest messages", chat_messages),
    Attack::new("/api/sessions/{id}/chat", "streams that nobody reads, held open", unread_streams),
    Attack::new("/api/session/register", "functions with the worst schemas", museum_functions),
    Attack::new("/api/agent/parse", "the longest input", museum_questions),
    Attack::new("/api/admin/login", "long passwords", log_ins),
    Attack::new("/api/openapi.json, /api/docs/", "again and again", documents),
    Attack::new("/mcp_endpoint/mcp, /litemcp/{tool}", "invented tokens", tool_tokens),
];

/// An incompressible text of this many bytes.
fn long(bytes: usize) -> String {
    let mut text = format!("{:016x}", invented());
    while text.len() < bytes {
        text += &format!("{:016x}", invented().wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    text.truncate(bytes);
    text
}

fn nested(bytes: usize) -> String {
    "[".repeat(bytes)
}

fn invented_methods(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let letters = |mut n: u64| {
            let mut name = String::new();
            for _ in 0..7 {
                name.push(char::from(b'A' + u8::try_from(n % 26).unwrap()));
                n /= 26;
            }
            name
        };
        let one = |_| {
            let name = letters(invented());
            let address = &stranger.address;
            format!(
                "{name} /healthz HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: {address}\r\n\r\n"
            )
        };
        let requests: String = (0..200).map(one).collect();
        let mut stream = stranger.raw(requests.as_bytes()).await?;
        let mut answers = Vec::new();
        while answers.windows(9).filter(|bytes| bytes == b"HTTP/1.1 ").count() < 200 {
            if tokio::io::AsyncReadExt::read_buf(&mut stream, &mut answers).await.ok()? == 0 {
                break;
            }
        }
        None
    })
}

fn endless_head(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let head = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx-long: {}", long(100 << 10));
        Some(Box::new(stranger.raw(head.as_bytes()).await?) as _)
    })
}

fn long_paths(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let path = format!("/{}?{}={}", long(2_000), long(2_000), long(2_000));
        stranger.ask(Method::GET, &path, &[], "").await;
        None
    })
}

fn reports(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let id = long(64);
        let text = long(20_000);
        let report = json!({
            "board": {"type": text}, "application": {"version": text}, "chip_model_name": text,
        });
        let serial = long(64);
        let headers = [("device-id", &*id), ("client-id", &*id), ("serial-number", &*serial)];
        stranger.ask(Method::POST, "/xiaozhi/ota/", &headers, report.to_string()).await;
        None
    })
}

fn no_body(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let head = format!(
            "POST /xiaozhi/ota/ HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: {}\r\n\
             device-id: {:x}\r\ncontent-length: 65536\r\n\r\n{}",
            stranger.address,
            invented(),
            long(60_000)
        );
        Some(Box::new(stranger.raw(head.as_bytes()).await?) as _)
    })
}

fn activation(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let id = long(32);
        let headers = [("device-id", &*id)];
        stranger.ask(Method::POST, "/xiaozhi/ota/activate", &headers, nested(64 << 10)).await;
        None
    })
}

fn firmware(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        for name in [long(200), "..%2f..%2fsecret".into(), "%00".into()] {
            let path = format!("/xiaozhi/ota/firmware/{name}");
            stranger.ask(Method::GET, &path, &[], "").await;
        }
        None
    })
}

fn picture(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let id = long(17);
        let headers = [("device-id", &*id), ("authorization", "Bearer none")];
        stranger.ask(Method::POST, "/vision/explain", &headers, vec![b'x'; 10 << 20]).await;
        None
    })
}

pub(super) async fn chat_session(stranger: &Stranger) -> Option<String> {
    let body = json!({"name": long(128), "creator_id": long(128), "max_players": 100});
    let (_, told) = stranger.ask(Method::POST, "/api/sessions", &[], body.to_string()).await;
    Some(told["id"].as_str()?.to_owned())
}

fn chat_sessions(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        chat_session(&stranger).await;
        let all: Value = (0..1_000).map(|_| Value::from(long(60))).collect();
        let body = json!({"name": long(60_000), "creator_id": "x", "players": all});
        stranger.ask(Method::POST, "/api/sessions", &[], body.to_string()).await;
        stranger.ask(Method::GET, "/api/sessions?limit=200", &[], "").await;
        None
    })
}

fn nested_bodies(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let flat = format!("[{}]", vec!["0"; 30_000].join(","));
        let keys: Vec<String> = (0..4_000).map(|n| format!("\"{n}\":{n}")).collect();
        let wide = format!("{{{}}}", keys.join(","));
        let number = format!("{{\"max_players\":{}}}", "9".repeat(60_000));
        for body in [nested(64 << 10), flat, wide, number, "{\"name\":\"\\ud800\"}".into()] {
            stranger.ask(Method::POST, "/api/sessions", &[], body).await;
        }
        None
    })
}

fn chat_messages(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let path = format!("/api/sessions/{}/chat", chat_session(&stranger).await?);
        for bytes in [2_000, 60_000] {
            let body = json!({"message": long(bytes), "player_id": "p"});
            stranger.ask(Method::POST, &path, &[], body.to_string()).await;
        }
        None
    })
}

fn unread_streams(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let id = chat_session(&stranger).await?;
        let body = json!({"message": "hello", "player_id": "p", "stream": true}).to_string();
        let request = format!(
            "POST /api/sessions/{id}/chat HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            stranger.address,
            body.len()
        );
        Some(Box::new(stranger.raw(request.as_bytes()).await?) as _)
    })
}

async fn museum_session(stranger: &Stranger, functions: Vec<Value>) -> Option<String> {
    let body = json!({"client_metadata": {"client_type": long(100)}, "functions": functions});
    let register = "/api/session/register";
    let (_, told) = stranger.ask(Method::POST, register, &[], body.to_string()).await;
    Some(told["session_id"].as_str()?.to_owned())
}

fn museum_functions(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        for schema in worst_schemas() {
            let function = json!({"name": "f", "description": long(500), "parameters": schema});
            museum_session(&stranger, vec![function]).await;
        }
        None
    })
}

fn museum_questions(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let id = museum_session(&stranger, Vec::new()).await?;
        let body = json!({"user_input": long(400_000), "scene_type": "study"}).to_string();
        let headers = [("session-id", &*id)];
        stranger.ask(Method::POST, "/api/agent/parse", &headers, body).await;
        stranger.ask(Method::POST, "/api/agent/parse", &headers, nested(60_000)).await;
        None
    })
}

fn log_ins(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        let body = json!({"username": "admin", "password": long(8_000)}).to_string();
        stranger.ask(Method::POST, "/api/admin/login", &[], body).await;
        None
    })
}

fn documents(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        for path in ["/api/openapi.json", "/api/docs/", "/test_client.html", "/metrics"] {
            stranger.ask(Method::GET, path, &[], "").await;
        }
        None
    })
}

fn tool_tokens(stranger: Stranger) -> BoxFuture<'static, Held> {
    act(async move {
        stranger.open(&format!("/mcp_endpoint/mcp?token={}", long(500)), &[]).await;
        let token = format!("Bearer {}", long(500));
        let headers = [("authorization", &*token)];
        stranger.ask(Method::POST, "/litemcp/get_current_time", &headers, nested(1 << 20)).await;
        None
    })
}
