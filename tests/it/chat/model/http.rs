//! A whole server on a real socket, with the scripted model and worlds behind sockets of their own,
//! to play sequences over HTTP. A server purges at its start: a purge is a restart, and watchers
//! reconnect after it. Not for the expected results of the sequences.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::SinkExt as _;
use hearken::config::Config;
use hearken_proto::chat::Event;
use hearken_proto::ids::SessionId;
use hearken_state_server::Storage;
use hearken_test_support::eventually;
use hearken_test_support::socket::{Socket, frame};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio::time::timeout;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::Ask;
use super::answers::{Told, reply};
use super::in_process::{hero, hurt, put_hero, told, wanted};
use super::known::{ROUNDS, Reply, Seen, Status, line};
use super::playing::System;
use super::ports::Steps;
use super::upstreams::Upstreams;
use crate::chat::{SOON, cutting};
use crate::support::app::{TestServer, Vendors};

/// The server and the watchers of its sessions.
pub(super) struct Http {
    /// `None` only during a restart.
    server: Option<TestServer>,
    vendors: Vendors,
    upstreams: Upstreams,
    storage: Arc<Storage>,
    steps: Arc<Steps>,
    watchers: HashMap<SessionId, Watcher>,
    /// Number of sessions so far; each has its own creator.
    made: usize,
    restarts: usize,
    kept: TempDir,
}

/// A watcher of a session.
struct Watcher {
    creator: String,
    /// `None` if the session could not be watched since the server started.
    socket: Option<Socket>,
    /// Events received since then.
    told: Vec<Event>,
}

/// The request as it is written to the socket.
fn written(line: &str, headers: &str, body: &str) -> String {
    format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\
         content-type: application/json\r\n{headers}\r\n{body}",
        body.len()
    )
}

fn request(id: &SessionId, ask: Ask, snapshot: &str) -> String {
    let session = format!("/api/sessions/{}", id.as_str());
    let post = |part: &str| written(&format!("POST {session}{part}"), "", "");
    match ask {
        Ask::Chat { said, key, stream } => {
            let key = key.map(|key| format!("idempotency-key: key-{key}\r\n"));
            let body = json!({ "message": said.text(), "stream": stream }).to_string();
            written(&format!("POST {session}/chat"), &key.unwrap_or_default(), &body)
        }
        Ask::Snapshot => post("/snapshots"),
        Ask::GoBack(_) => post(&format!("/snapshots/{snapshot}/restore")),
        Ask::Archive => post("/archive"),
        Ask::Restore => post("/restore"),
        Ask::Delete => written(&format!("DELETE {session}"), "", ""),
    }
}

/// Reads until the server closes the connection, which it may do at any time.
async fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) {
    let reading = timeout(SOON, stream.read_to_end(bytes));
    reading.await.expect("the server answers, or closes").ok();
}

/// Reads all events up to the answer to a ping.
async fn drained(socket: &mut Socket) -> Vec<Event> {
    socket.send(Message::text(r#"{"type": "ping"}"#)).await.unwrap();
    let mut events = Vec::new();
    loop {
        let told = frame(socket, SOON).await.expect("the socket lives");
        match told["type"].as_str() {
            Some("event") => events.push(serde_json::from_value(told["event"].clone()).unwrap()),
            Some("pong") => return events,
            _ => panic!("told {told}"),
        }
    }
}

impl Http {
    pub(super) async fn start() -> Self {
        let steps = Arc::new(Steps::new());
        let storage = Arc::new(Storage::new(Some(7)));
        let upstreams = Upstreams::start(&storage, &steps).await;
        // The data need not outlive the test: it is in memory if the system has such a folder.
        let kept = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let mut http = Self {
            server: None,
            vendors: cutting::vendors().await,
            upstreams,
            storage,
            steps,
            watchers: HashMap::new(),
            made: 0,
            restarts: 0,
            kept,
        };
        http.begin().await;
        http
    }

    /// Starts the server, which purges deleted sessions at once.
    async fn begin(&mut self) {
        let tweak = |config: &mut Config| {
            config.server.data_dir = self.kept.path().to_owned();
            config.llm.base_url = self.upstreams.model.clone();
            config.state.url = self.upstreams.worlds.clone();
            config.http.requests_per_minute = 0;
            config.chat.max_iterations = ROUNDS.unsigned_abs() as usize;
            config.chat.history = 500;
            config.chat.token_budget = 1_000_000;
            config.chat.purge_after = Duration::ZERO;
        };
        self.server = Some(TestServer::start(&self.vendors, tweak).await);
    }

    /// Closes all connections and stops the server.
    pub(super) async fn stop(mut self) {
        self.end().await;
    }

    async fn end(&mut self) {
        for watcher in self.watchers.values_mut() {
            watcher.told.clear();
            let Some(mut socket) = watcher.socket.take() else { continue };
            socket.close(None).await.unwrap();
            let closed = frame(&mut socket, SOON).await;
            assert!(closed.is_err(), "the socket is closed, but {closed:?} came");
        }
        // Once it answers, the server has processed the closes; otherwise it would wait for these clients.
        assert_eq!(self.get("/healthz").await.0, 200);
        self.server.take().unwrap().stop().await;
    }

    async fn send(&self, request: &str) -> TcpStream {
        let address = self.server.as_ref().unwrap().address;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// Sends a request on a new connection.
    async fn answered(&self, request: &str) -> Told {
        let mut bytes = Vec::new();
        read(&mut self.send(request).await, &mut bytes).await;
        Told::read(&bytes).unwrap_or_else(|| panic!("{request}: {}", bytes.escape_ascii()))
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let told = self.answered(&written(&format!("GET {path}"), "", "")).await;
        (told.status, serde_json::from_str(&told.body).unwrap())
    }

    /// Number of deleted sessions, of this creator or of all.
    async fn deleted(&self, creator: Option<&str>) -> usize {
        let of = creator.map(|creator| format!("&user_id={creator}")).unwrap_or_default();
        let (status, told) = self.get(&format!("/api/sessions?status=deleted&limit=1{of}")).await;
        assert_eq!(status, 200, "{told}");
        usize::try_from(told["total"].as_u64().unwrap()).unwrap()
    }

    async fn status(&self, id: &SessionId) -> Status {
        let (status, told) = self.get(&format!("/api/sessions/{}", id.as_str())).await;
        match (status, told["status"].as_str()) {
            (200, Some("active")) => return Status::Active,
            (200, Some("archived")) => return Status::Archived,
            _ => {}
        }
        assert_eq!((status, &told["error"]["code"]), (404, &json!("SESSION_NOT_FOUND")), "{told}");
        match self.deleted(Some(&self.watchers[id].creator)).await {
            0 => Status::Forgotten,
            _ => Status::Deleted,
        }
    }

    /// The messages of an active or archived session.
    async fn lines(&self, id: &SessionId) -> Vec<String> {
        let (status, told) =
            self.get(&format!("/api/sessions/{}/messages?limit=200", id.as_str())).await;
        assert_eq!(status, 200, "{told}");
        let messages = told["messages"].as_array().unwrap();
        assert_eq!(told["total"], messages.len(), "{told}");
        let shown = |message: &Value| {
            let role = serde_json::from_value(message["role"].clone()).unwrap();
            line(role, message["content"].as_str().unwrap())
        };
        messages.iter().map(shown).collect()
    }

    /// Watches a session from the event after `after`; false if that event is not known.
    async fn watch(&self, id: &SessionId, after: &str) -> Result<(Socket, bool), Error> {
        let address = self.server.as_ref().unwrap().address;
        let session = id.as_str();
        let url = format!("ws://{address}/api/sessions/{session}/ws?last_event_id={after}");
        let mut socket = connect_async(url).await?.0;
        let told = frame(&mut socket, SOON).await.expect("the socket lives");
        assert_eq!((&told["type"], &told["session_id"]), (&json!("connected"), &json!(id)));
        Ok((socket, told["complete"].as_bool().unwrap()))
    }

    /// Waits until no request holds the session. The snapshot that it creates is not used.
    async fn is_free(&self, id: &SessionId) {
        let told = self.answered(&request(id, Ask::Snapshot, "")).await;
        assert!([201, 404, 502].contains(&told.status), "{told:?}");
    }

    /// Waits until this many deleted sessions are left after a purge.
    async fn purged(&self, stays: usize) {
        eventually("all other sessions are purged", || async {
            (self.deleted(None).await == stays).then_some(())
        })
        .await;
    }

    /// Waits until this many deletions of worlds were requested.
    async fn deletes(&self, wanted: usize) {
        let mut deletes = self.steps.deletes.subscribe();
        let deleting = deletes.wait_for(|deletes| *deletes >= wanted);
        timeout(SOON, deleting).await.expect("the server purges").expect("the sender lives");
    }
}

impl System for Http {
    /// After an answer no turn runs, and [`System::ask_and_leave`] waits itself.
    async fn is_idle(&self) -> Result<(), String> {
        Ok(())
    }

    async fn make(&mut self) -> SessionId {
        self.made += 1;
        let creator = format!("creator-{}", self.made);
        let body = wanted(&creator).to_string();
        let made = self.answered(&written("POST /api/sessions", "", &body)).await;
        assert_eq!(made.status, 201, "{made:?}");
        let made: Value = serde_json::from_str(&made.body).unwrap();
        let id = SessionId::new(made["session_id"].as_str().unwrap());
        put_hero(&self.storage, &id);
        let (socket, complete) = self.watch(&id, "").await.unwrap();
        assert!(complete, "no event was missed");
        self.watchers
            .insert(id.clone(), Watcher { creator, socket: Some(socket), told: Vec::new() });
        id
    }

    fn leave(&mut self, id: &SessionId) {
        self.watchers.remove(id);
    }

    fn hurt(&self, id: &SessionId) {
        hurt(&self.storage, id);
    }

    async fn ask(&self, id: &SessionId, ask: Ask, snapshot: &str) -> Reply {
        reply(&self.answered(&request(id, ask, snapshot)).await)
    }

    async fn ask_and_leave(
        &self,
        id: &SessionId,
        ask: Ask,
        snapshot: &str,
        steps: usize,
        polls: usize,
    ) -> Option<Reply> {
        // A request with a key continues after its client has left. The client leaves only once the
        // request holds the session, so that no later request overtakes it.
        let named = matches!(ask, Ask::Chat { key: Some(_), .. });
        let until = self.steps.passed() + if named { steps.max(1) } else { steps };
        let leaves = async {
            self.steps.until(until).await;
            for _ in 0..polls {
                yield_now().await;
            }
        };
        let mut stream = self.send(&request(id, ask, snapshot)).await;
        let mut bytes = Vec::new();
        let left = tokio::select! {
            biased;
            () = leaves => true,
            () = read(&mut stream, &mut bytes) => false,
        };
        if !left {
            return Some(reply(&Told::read(&bytes).expect("it is answered")));
        }
        // The server also closes its side once it notices; it may have answered before.
        stream.shutdown().await.ok();
        read(&mut stream, &mut bytes).await;
        self.is_free(id).await;
        None
    }

    async fn purge(
        &mut self,
        undeletable: Option<&SessionId>,
        restored: Option<&SessionId>,
    ) -> Option<Reply> {
        let stays = match undeletable {
            Some(id) => usize::from(self.status(id).await == Status::Deleted),
            None => 0,
        };
        let deleted = self.deleted(None).await;
        let before = *self.steps.deletes.borrow();
        *self.steps.undeletable.lock().unwrap() = undeletable.cloned();
        self.steps.slow_deletes.store(restored.is_some(), Ordering::Relaxed);
        self.end().await;
        self.begin().await;
        self.restarts += 1;
        let reply = match restored {
            Some(id) => {
                // Alternately after the first deletion and before it.
                if deleted > 0 && self.restarts.is_multiple_of(2) {
                    self.deletes(before + 1).await;
                }
                Some(self.ask(id, Ask::Restore, "").await)
            }
            None => {
                self.deletes(before + deleted).await;
                None
            }
        };
        self.purged(stays).await;
        *self.steps.undeletable.lock().unwrap() = None;
        self.steps.slow_deletes.store(false, Ordering::Relaxed);
        reply
    }

    async fn resumes(&self, id: &SessionId, missed: usize) -> bool {
        let before = &self.watchers[id].told;
        let Some(last) = before.len().checked_sub(missed + 1) else { return true };
        match (self.status(id).await, self.watch(id, &before[last].id).await) {
            (Status::Active | Status::Archived, Ok((mut socket, complete))) => {
                complete && drained(&mut socket).await == before[last + 1..]
            }
            (Status::Deleted | Status::Forgotten, Err(Error::Http(refused))) => {
                refused.status() == 404
            }
            _ => false,
        }
    }

    async fn look(&mut self, id: &SessionId) -> Seen {
        let status = self.status(id).await;
        let shown = matches!(status, Status::Active | Status::Archived);
        let world = self.storage.state(id.as_str()).ok().map(|state| hero(&state));
        let lines = if shown { self.lines(id).await } else { Vec::new() };
        if shown {
            let (_, state) = self.get(&format!("/api/sessions/{}/state", id.as_str())).await;
            assert_eq!(state.as_object().map(hero), world, "{state}");
        }
        if shown && self.watchers[id].socket.is_none() {
            let (socket, complete) = self.watch(id, "before-the-start").await.unwrap();
            assert!(!complete, "events from before the start are no longer known");
            self.watchers.get_mut(id).unwrap().socket = Some(socket);
        }
        let watcher = self.watchers.get_mut(id).unwrap();
        let from = watcher.told.len();
        if let Some(socket) = &mut watcher.socket {
            watcher.told.extend(drained(socket).await);
        }
        let events = watcher.told[from..].iter().map(told).collect();
        Seen { status, lines, world, told: watcher.socket.is_some().then_some(events) }
    }

    fn steps(&self) -> &Steps {
        &self.steps
    }
}
