//! A slow state server with the rules of the reference one: it pauses before and after each request
//! and counts these moments, so that a client can leave at each. Not for its answers.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hearken_state_server::storage::StorageError;
use hearken_state_server::{Storage, tools};
use hearken_test_support::vendors::{Request, gone, read_request, respond};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A running state server; stopped when dropped.
pub(crate) struct SlowWorlds {
    /// Its URL.
    pub(crate) url: String,
    storage: Arc<Storage>,
    moments: Arc<watch::Sender<usize>>,
    style: Arc<Mutex<AnswerStyle>>,
    task: JoinHandle<()>,
}

/// How requests are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerStyle {
    Normal,
    /// Connections are dropped.
    Dropped,
    /// Calls are executed but not answered.
    Silent,
    /// Calls fail with an outdated version.
    Conflicts,
}

impl SlowWorlds {
    /// Starts a state server that pauses for this time twice per request.
    pub(crate) async fn start(pause: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let storage = Arc::new(Storage::new(Some(7)));
        let moments = Arc::new(watch::Sender::new(0));
        let style = Arc::new(Mutex::new(AnswerStyle::Normal));
        let kept = Arc::clone(&storage);
        let told = Arc::clone(&moments);
        let how = Arc::clone(&style);
        let task = tokio::spawn(async move {
            let mut visits = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let moments = Arc::clone(&told);
                let moment = move || {
                    moments.send_modify(|n| *n += 1);
                    tokio::time::sleep(pause)
                };
                visits.spawn(visit(stream, Arc::clone(&kept), Arc::clone(&how), moment));
                while visits.try_join_next().is_some() {}
            }
        });
        Self { url, storage, moments, style, task }
    }

    /// Sets the style of answers from the next request on.
    pub(crate) fn set(&self, style: AnswerStyle) {
        *self.style.lock().unwrap() = style;
    }

    /// Number of moments so far.
    pub(crate) fn moments(&self) -> usize {
        *self.moments.borrow()
    }

    /// Waits until this many moments have passed.
    pub(crate) async fn until(&self, moments: usize) {
        let mut told = self.moments.subscribe();
        told.wait_for(|now| *now >= moments).await.expect("the sender lives");
    }

    /// The hit points of a session's only character, and the version of its world.
    pub(crate) fn hero(&self, session: &str) -> (i64, i64) {
        let state = self.storage.state(session).unwrap();
        let number = |value: &Value| value.as_i64().unwrap();
        (number(&state["characters"][0]["hp"]), number(&state["version"]))
    }

    /// Whether this session has a world.
    pub(crate) fn knows(&self, session: &str) -> bool {
        self.storage.state(session).is_ok()
    }

    /// Adds a hero with 1,000 hit points to a session's world.
    pub(crate) fn put_hero(&self, session: &str) {
        let hero = json!({"name": "Hero", "id": "hero", "hp_max": 1_000});
        let hero = hero.as_object().unwrap();
        self.storage.call(session, "create_character", hero, None).unwrap();
    }
}

impl Drop for SlowWorlds {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves a request, even if its client has left.
async fn visit<F: Future<Output = ()>>(
    mut stream: TcpStream,
    storage: Arc<Storage>,
    style: Arc<Mutex<AnswerStyle>>,
    moment: impl Fn() -> F,
) {
    let Some(request) = read_request(&mut stream).await else { return };
    let style = *style.lock().unwrap();
    let is_call = request.head.starts_with("POST /tools/call ");
    moment().await;
    let (status, body) = match style {
        AnswerStyle::Dropped => return,
        AnswerStyle::Conflicts if is_call => (409, json!({ "error": "VERSION_CONFLICT" })),
        _ => answer(&storage, &request),
    };
    moment().await;
    if style == AnswerStyle::Silent && is_call {
        return while !gone(&mut stream, Duration::from_secs(3_600)).await {};
    }
    let kind = "content-type: application/json\r\n";
    respond(&mut stream, status, kind, body.to_string().as_bytes()).await;
}

fn answer(storage: &Storage, request: &Request) -> (u16, Value) {
    let asked: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let text = |key: &str| asked[key].as_str().unwrap_or_default();
    let line = request.head.lines().next().unwrap();
    let (method, path) = line.split_once(' ').unwrap();
    let path = path.split(' ').next().unwrap();
    let session = path.rsplit('=').next().unwrap();
    let done = match (method, path) {
        ("GET", "/tools") => Ok(tools::list()),
        ("POST", "/tools/call") => {
            let arguments = asked["arguments"].as_object().cloned().unwrap_or_default();
            call(storage, text("session_id"), text("tool_name"), &arguments, &asked["version"])
        }
        ("POST", "/state") => {
            let made = storage.create(text("session_id"), text("name"));
            made.map(|version| json!({ "version": version }))
        }
        ("DELETE", _) => storage.delete(session).map(|()| json!({})),
        _ => storage.state(session).map(Value::Object),
    };
    match done {
        Ok(body) => (200, body),
        Err(StorageError::Conflict(version)) => {
            (409, json!({ "error": "VERSION_CONFLICT", "version": version }))
        }
        Err(StorageError::Unknown(what)) => (404, json!({ "error": what })),
        Err(other) => (400, json!({ "error": other.to_string() })),
    }
}

fn call(
    storage: &Storage,
    session: &str,
    tool: &str,
    arguments: &Map<String, Value>,
    version: &Value,
) -> Result<Value, StorageError> {
    let (outcome, version) = storage.call(session, tool, arguments, version.as_i64())?;
    let event = |(kind, about): (&str, Value)| {
        let id = uuid::Uuid::new_v4();
        let now = Timestamp::now().to_string();
        json!({ "id": id, "type": kind, "data": about, "timestamp": now })
    };
    let events: Vec<Value> = outcome.events.into_iter().map(event).collect();
    Ok(json!({ "result": outcome.result, "version": version, "events": events }))
}
