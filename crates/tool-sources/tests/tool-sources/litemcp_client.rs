//! Our client with tools that send wrong answers, too much, or nothing.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use hearken_ports::{ToolError, ToolOutput};
use hearken_test_support::eventually;
use hearken_test_support::tool_sources::{
    call, litemcp_address, litemcp_program, ready, source, sources, states, until, words,
};
use hearken_tool_sources::{SourceState, Sources, ToolServer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

/// Timeout for answers that never arrive.
const SHORT_MS: u64 = 600;
/// Timeout for answers that arrive, on a busy machine.
const LONG_MS: u64 = 10_000;

/// A scripted tool that listens; stopped when dropped.
struct Peer {
    url: String,
    task: JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Peer {
    /// Starts a tool `t` over WebSocket: calls are answered by the script, given the connection's
    /// number.
    async fn start(script: impl FnMut(usize, &Value) -> Vec<Message> + Send + 'static) -> Self {
        Self::telling(|id| info(id, json!([1, 0, 0]), json!([{"name": "x"}])), script).await
    }

    /// Starts a tool that answers `get` with this message.
    async fn telling(
        told: impl Fn(&Value) -> Message + Send + 'static,
        mut script: impl FnMut(usize, &Value) -> Vec<Message> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/t", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(mut socket) = accept_async(stream).await else { continue };
                while let Some(Ok(message)) = socket.next().await {
                    let Message::Text(text) = message else { continue };
                    let asked: Value = serde_json::from_str(&text).unwrap();
                    let answers = match asked["type"].as_str() {
                        Some("get") => vec![told(&asked["id"])],
                        _ => script(connection, &asked),
                    };
                    for answer in answers {
                        // The client may have disconnected meanwhile.
                        socket.send(answer).await.ok();
                    }
                }
            }
        });
        Self { url, task }
    }

    /// Returns its settings.
    fn settings(&self, name: &str) -> ToolServer {
        long(litemcp_address(name, self.url.clone()))
    }
}

fn long(server: ToolServer) -> ToolServer {
    ToolServer { timeout_ms: LONG_MS, start_timeout_ms: LONG_MS, ..server }
}

/// Returns the same settings with a short timeout for calls.
fn given_up(server: ToolServer) -> ToolServer {
    ToolServer { timeout_ms: SHORT_MS, ..server }
}

/// Returns the same settings with short timeouts for calls and for the start.
fn short(server: ToolServer) -> ToolServer {
    ToolServer { start_timeout_ms: SHORT_MS, ..given_up(server) }
}

fn message(version: Value, id: &Value, kind: &str, content: Value) -> Message {
    let message = json!({"version": version, "id": id, "type": kind, "data": content});
    Message::text(message.to_string())
}

fn info(id: &Value, version: Value, parameters: Value) -> Message {
    let tool = json!({"version": [1, 0, 0], "name": "t", "parameters": parameters});
    message(version, id, "info", tool)
}

fn result(id: &Value, text: &str) -> Message {
    let response = json!({"content": [{"type": "text", "data": text}], "error": false});
    let result = json!({"version": [1, 0, 0], "params": {}, "response": response});
    message(json!([1, 0, 0]), id, "result", result)
}

/// Returns the question's first argument.
fn asked_for(question: &Value) -> &str {
    question["data"]["arguments"][0].as_str().unwrap()
}

fn echo(question: &Value) -> Message {
    result(&question["id"], asked_for(question))
}

async fn ask(all: &Sources, name: &str, x: &str) -> Result<ToolOutput, ToolError> {
    call(&source(all, name), "t", json!({"x": x})).await
}

/// Returns the sources of these settings, all ready.
async fn started(servers: &[ToolServer]) -> (Sources, CancellationToken) {
    let started = sources(servers);
    ready(&started.0).await;
    started
}

#[tokio::test]
async fn only_the_answer_to_a_call_answers_it() {
    let mut held: Option<Message> = None;
    let noisy = Peer::start(|_, asked| {
        let id = &asked["id"];
        let ours = json!([1, 0, 0]);
        let other = json!(asked["id"].as_i64().unwrap() + 1);
        vec![
            Message::text("hello"),
            Message::text("[]"),
            Message::binary(vec![0xff, 0]),
            result(&other, "of another id"),
            result(&json!(null), "of no id"),
            message(ours.clone(), id, "error", json!({})),
            message(ours, id, "get", json!({})),
            echo(asked),
            result(id, "a second one"),
            Message::text(asked.to_string()),
        ]
    })
    .await;
    let late = Peer::start(move |_, asked| match held.take() {
        None => {
            held = Some(echo(asked));
            Vec::new()
        }
        Some(first) => vec![first, echo(asked)],
    })
    .await;
    let (all, _process) =
        started(&[noisy.settings("noisy"), given_up(late.settings("late"))]).await;
    for n in 0..5 {
        assert_eq!(words(&ask(&all, "noisy", &n.to_string()).await), n.to_string());
    }
    let timeout = Duration::from_millis(SHORT_MS);
    assert_eq!(ask(&all, "late", "first").await, Err(ToolError::Timeout(timeout)));
    assert_eq!(words(&ask(&all, "late", "second").await), "second");
}

#[tokio::test]
async fn a_call_always_ends() {
    let silent = Peer::start(|_, _| Vec::new()).await;
    let foreign = Peer::start(|_, asked| vec![result(&json!(-1), asked_for(asked))]).await;
    let wrong = Peer::start(|_, asked| vec![info(&asked["id"], json!([1, 0, 0]), json!([]))]).await;
    let broken =
        Peer::start(|_, asked| vec![message(json!([1, 0, 0]), &asked["id"], "result", json!({}))])
            .await;
    let newer = Peer::start(|_, asked| {
        vec![message(json!([2, 0, 0]), &asked["id"], "result", json!({"response": {}}))]
    })
    .await;
    let (all, _process) = started(&[
        given_up(silent.settings("silent")),
        given_up(foreign.settings("foreign")),
        wrong.settings("wrong"),
        broken.settings("broken"),
        newer.settings("newer"),
    ])
    .await;
    let timeout = ToolError::Timeout(Duration::from_millis(SHORT_MS));
    let failed = |why: &str| ToolError::Failed(why.into());
    let both = tokio::join!(ask(&all, "silent", ""), ask(&all, "foreign", ""));
    assert_eq!(both, (Err(timeout.clone()), Err(timeout)));
    for (name, error) in [
        ("wrong", failed("cannot read the tool's answer: it is not a result")),
        ("broken", failed("cannot read the tool's answer: `data.response` is missing")),
        ("newer", failed("incompatible LiteMCP version 2.0.0: this server supports 1.0.0")),
    ] {
        // Immediately: their timeout is long.
        assert_eq!(ask(&all, name, "").await, Err(error));
    }
}

#[tokio::test]
async fn a_connection_that_breaks_during_a_call_is_reopened() {
    let closing = Peer::start(|n, asked| match n {
        0 => vec![Message::Close(None)],
        _ => vec![echo(asked)],
    });
    let flooding = Peer::start(|n, asked| match n {
        0 => (0..200).map(|_| Message::text("hello")).collect(),
        _ => vec![echo(asked)],
    });
    let huge = Peer::start(|n, asked| match n {
        0 => vec![Message::text("x".repeat((16 << 20) + 1))],
        _ => vec![echo(asked)],
    });
    let peers = [closing.await, flooding.await, huge.await];
    let names = ["closing", "flooding", "huge"];
    let settings = peers.iter().zip(names).map(|(peer, name)| peer.settings(name));
    let (all, _process) = started(&settings.collect::<Vec<_>>()).await;
    for name in names {
        let lost = ToolError::Unavailable("the connection was lost".into());
        assert_eq!(ask(&all, name, "").await, Err(lost), "{name}");
        assert_eq!(words(&ask(&all, name, "again").await), "again", "{name}");
    }
}

#[tokio::test]
async fn the_state_of_an_unusable_tool_has_a_reason() {
    let script = |_: usize, _: &Value| Vec::new();
    let newer = Peer::telling(|id| info(id, json!([2, 0, 0]), json!([])), script).await;
    let wrong = Peer::telling(|id| result(id, "t"), script).await;
    let twice = json!([{"name": "x"}, {"name": "x"}]);
    let twice = Peer::telling(move |id| info(id, json!([1, 0, 0]), twice.clone()), script).await;
    let silent = Peer::telling(|_| Message::text("hello"), script).await;
    let gone = Peer::telling(|_| Message::Close(None), script).await;
    let html = web(|_| reply("200 OK", "<html>")).await;
    let away = web(|_| reply("503 Service Unavailable", "{}")).await;
    let elsewhere = web(|_| reply("302 Found\r\nLocation: http://localhost:1/", "")).await;
    let servers = [
        newer.settings("newer"),
        wrong.settings("wrong"),
        twice.settings("twice"),
        short(silent.settings("silent")),
        gone.settings("gone"),
        html.settings("html"),
        away.settings("away"),
        elsewhere.settings("elsewhere"),
        long(litemcp_program("dies", "sh", &["-c", "echo no key given >&2; exit 3"])),
        short(litemcp_program("mute", "sleep", &["60"])),
        short(litemcp_program("chatty", "yes", &[])),
        long(litemcp_program("missing", "no-such-program", &[])),
    ];
    let (all, process) = sources(&servers);
    until(&all, "failed", |state| matches!(state, SourceState::Failed(_))).await;
    for ((name, state), says) in states(&all).iter().zip([
        "incompatible LiteMCP version 2.0.0: this server supports 1.0.0",
        "it does not say what tool it is: is it LiteMCP?",
        "its tool has two parameters `x`",
        "0.6 s",
        "the connection was lost",
        "it does not say what tool it is: is it LiteMCP?",
        "it answered with status 503",
        "it answered with status 302",
        "it said: no key given",
        "0.6 s",
        "",
        "cannot start `no-such-program`",
    ]) {
        let SourceState::Failed(reason) = state else { panic!("{name} is {state:?}") };
        assert!(reason.contains(says), "{name}: {reason}");
    }
    assert!(matches!(ask(&all, "newer", "").await, Err(ToolError::Unavailable(_))));
    process.cancel();
    all.stop().await;
}

/// Starts a scripted tool over HTTP: each request gets these bytes.
async fn web(script: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Peer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/t", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = request(&mut stream).await;
            // The client may have disconnected meanwhile.
            stream.write_all(&script(&request)).await.ok();
            if !request.is_empty() && script(&request).is_empty() {
                // Held open, so that the client waits.
                tokio::spawn(async move { stream.read(&mut [0]).await.ok() });
            }
        }
    });
    Peer { url, task }
}

/// Reads a request with its body.
async fn request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split("content-length: ").nth(1).and_then(|l| l.lines().next());
            if body.len() >= length.map_or(0, |l| l.parse().unwrap()) {
                return String::from_utf8(bytes).unwrap();
            }
        }
        match stream.read_buf(&mut bytes).await {
            Ok(1..) => {}
            _ => return String::new(),
        }
    }
}

fn reply(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
        .into()
}

/// Starts a tool over HTTP whose calls get this answer.
async fn calls_get(status: &'static str, body: impl Into<String>) -> Peer {
    let body = body.into();
    web(move |request| {
        if request.starts_with("GET") {
            return reply("200 OK", "{\"name\":\"t\",\"parameters\":[{\"name\":\"x\"}]}");
        }
        if status.is_empty() { Vec::new() } else { reply(status, &body) }
    })
    .await
}

#[tokio::test]
async fn a_call_over_http_always_ends() {
    let failed = json!({"params": {}, "response": {"content": [{"data": "no"}], "error": true}});
    let peers = [
        calls_get("200 OK", "<html>").await,
        calls_get("500 Internal Server Error", failed.to_string()).await,
        calls_get("500 Internal Server Error", "oops").await,
        calls_get("403 Forbidden", "{}").await,
        calls_get("200 OK", "x".repeat((16 << 20) + 1)).await,
        calls_get("", "").await,
    ];
    let names = ["html", "failed", "broken", "locked", "huge", "silent"];
    let settings = peers.iter().zip(names).map(|(peer, name)| match name {
        "silent" => given_up(peer.settings(name)),
        _ => peer.settings(name),
    });
    let (all, _process) = started(&settings.collect::<Vec<_>>()).await;
    let output = ToolOutput { failed: true, ..ToolOutput::text("no") };
    assert_eq!(ask(&all, "failed", "").await, Ok(output));
    for (name, says) in [
        ("html", "the tool failed: cannot read the tool's answer"),
        ("broken", "the tool cannot be reached: it answered with status 500"),
        ("locked", "the tool failed: it does not let us in (status 403"),
        ("huge", "the answer is longer than 16777216 bytes"),
        ("silent", "the tool did not answer within 0 s"),
    ] {
        let told = ask(&all, name, "").await.unwrap_err().to_string();
        assert!(told.contains(says), "{name}: {told}");
    }
}

#[tokio::test]
async fn the_token_is_sent_in_both_headers_except_configured_ones() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let peer = web(move |request| {
        tell.send(request.to_lowercase()).unwrap();
        reply("200 OK", "{\"name\":\"t\"}")
    })
    .await;
    let mut server = peer.settings("t");
    server.bearer = hearken_base::Secret::new("k1");
    server.headers.insert("X-Key".into(), hearken_base::Secret::new("k2"));
    let (all, process) = started(std::slice::from_ref(&server)).await;
    let request = told.recv().await.unwrap();
    for header in ["authorization: bearer k1", "authentication: bearer k1", "x-key: k2"] {
        assert!(request.contains(&format!("\r\n{header}\r\n")), "{request}");
    }
    process.cancel();
    all.stop().await;
    server.headers.insert("Authentication".into(), hearken_base::Secret::new("mine"));
    let (_all, _process) = started(&[server]).await;
    let last = || {
        let request = told.try_recv().ok();
        async move { request.filter(|r| r.contains("\r\nauthentication: mine\r\n")) }
    };
    let request = eventually("the other header", last).await;
    assert!(request.contains("\r\nauthorization: bearer k1\r\n"), "{request}");
}
