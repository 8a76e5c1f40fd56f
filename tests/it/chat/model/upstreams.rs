//! The scripted model and worlds behind sockets for a whole server: the OpenAI protocol and that of
//! the state server. Not for their behaviour, which the ports define.

use std::future::Future;
use std::sync::Arc;

use futures_util::StreamExt as _;
use hearken_ports::{
    ChatMessage, Llm as _, LlmDelta, Prompt, ProviderErrorKind, StateError, StateEvent,
    StateOutcome, StateServer as _, ToolRequest,
};
use hearken_proto::ids::SessionId;
use hearken_state_server::{Storage, tools};
use hearken_test_support::vendors::{Request, read_request, respond};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::ports::{Model, Steps, Worlds};

/// Status of a failure that is not retried; others are retried after a second.
const FAILED: u16 = 501;

/// Both servers; dropping it stops them.
pub(super) struct Upstreams {
    /// Base URL of the model.
    pub(super) model: String,
    /// URL of the state server.
    pub(super) worlds: String,
    tasks: [JoinHandle<()>; 2],
}

impl Upstreams {
    pub(super) async fn start(storage: &Arc<Storage>, steps: &Arc<Steps>) -> Self {
        let model = Arc::new(Model(Arc::clone(steps)));
        let storage = Arc::clone(storage);
        let steps = Arc::clone(steps);
        let worlds = Arc::new(Worlds { storage, steps });
        let (model, thinking) = serve(move |stream| think(stream, Arc::clone(&model))).await;
        let (worlds, storage) = serve(move |stream| keep(stream, Arc::clone(&worlds))).await;
        Self { model: format!("{model}/v1"), worlds, tasks: [thinking, storage] }
    }
}

impl Drop for Upstreams {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Serves each connection on a free port; returns the URL and the task.
async fn serve<F: Future<Output = ()> + Send + 'static>(
    visit: impl Fn(TcpStream) -> F + Send + 'static,
) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let mut visits = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            visits.spawn(visit(stream));
            while visits.try_join_next().is_some() {}
        }
    });
    (url, task)
}

/// Answers one prompt, one piece per step.
async fn think(mut stream: TcpStream, model: Arc<Model>) {
    let Some(request) = read_request(&mut stream).await else { return };
    let asked: Value = serde_json::from_slice(&request.body).unwrap();
    let messages = asked["messages"].as_array().unwrap().iter().map(message).collect();
    let mut deltas = model.reply(Prompt { messages, ..Prompt::default() });
    let mut head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_owned();
    let mut calls = 0;
    while let Some(delta) = deltas.next().await {
        let piece = match delta {
            Ok(LlmDelta::Text(text)) => piece(&json!({ "content": text }), None),
            Ok(LlmDelta::Call(call)) => {
                calls += 1;
                piece(&json!({ "tool_calls": [called(calls - 1, &call)] }), None)
            }
            Ok(LlmDelta::Calling | LlmDelta::Rule(_)) => continue,
            Ok(LlmDelta::Finished { .. }) => {
                let reason = if calls == 0 { "stop" } else { "tool_calls" };
                piece(&json!({}), Some(reason)) + "data: [DONE]\n\n"
            }
            Err(error) => {
                let refused = error.kind == ProviderErrorKind::BadRequest;
                return respond(&mut stream, if refused { 400 } else { FAILED }, "", b"{}").await;
            }
        };
        // The response head is sent with the first piece.
        let written = std::mem::take(&mut head) + &piece;
        if stream.write_all(written.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn message(message: &Value) -> ChatMessage {
    let role = serde_json::from_value(message["role"].clone()).unwrap();
    ChatMessage::new(role, message["content"].as_str().unwrap_or_default())
}

fn called(index: usize, call: &ToolRequest) -> Value {
    let function = json!({ "name": call.name, "arguments": call.arguments });
    json!({ "index": index, "id": call.id, "type": "function", "function": function })
}

fn piece(delta: &Value, reason: Option<&str>) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
    format!("data: {}\n\n", json!({ "choices": [choice] }))
}

/// Serves one request to the state server.
async fn keep(mut stream: TcpStream, worlds: Arc<Worlds>) {
    let Some(request) = read_request(&mut stream).await else { return };
    let (status, body) = match done(&worlds, &request).await {
        Ok(body) => (200, body),
        Err(StateError::Conflict(version)) => {
            (409, json!({ "error": "VERSION_CONFLICT", "version": version }))
        }
        Err(StateError::Unknown(what)) => (404, json!({ "error": what })),
        Err(StateError::Refused(why)) => (400, json!({ "error": why })),
        Err(StateError::Failed(why)) => (FAILED, json!({ "error": why })),
        // The response is lost.
        Err(StateError::Timeout(_)) => return,
    };
    let kind = "content-type: application/json\r\n";
    respond(&mut stream, status, kind, body.to_string().as_bytes()).await;
}

async fn done(worlds: &Worlds, request: &Request) -> Result<Value, StateError> {
    let asked: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let (method, path) = request.head.split_once(' ').unwrap();
    let path = path.split(' ').next().unwrap();
    let named = path.split_once("?session_id=").map(|(_, id)| id);
    let session = SessionId::new(named.or(asked["session_id"].as_str()).unwrap_or_default());
    let text = |key: &str| asked[key].as_str().unwrap();
    match (method, path) {
        ("GET", "/tools") => worlds.tools().await.map(|_| tools::list()),
        ("POST", "/tools/call") => {
            let arguments = asked["arguments"].as_object().cloned().unwrap();
            let version = asked["version"].as_i64();
            worlds.call(&session, text("tool_name"), arguments, version).await.map(told)
        }
        ("POST", "/state") => worlds.create(&session, text("name")).await.map(|()| json!({})),
        ("POST", "/state/restore") => {
            let version = asked["version"].as_i64().unwrap();
            worlds.restore(&session, version).await.map(|_| json!({}))
        }
        ("DELETE", _) => worlds.delete(&session).await.map(|()| json!({})),
        _ => worlds.state(&session).await.map(Value::Object),
    }
}

fn told(outcome: StateOutcome) -> Value {
    let event = |event: StateEvent| {
        let at = event.at.map(|at| at.to_string());
        json!({ "id": event.id, "type": event.kind, "data": event.data, "timestamp": at })
    };
    let events: Vec<Value> = outcome.events.into_iter().map(event).collect();
    json!({
        "result": outcome.result,
        "version": outcome.version,
        "events": events,
        "error": outcome.error,
    })
}
