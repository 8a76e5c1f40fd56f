//! A source whose connection comes and goes: what is known of it, and calls that wait for it.
//! Whoever keeps the connection writes here, the port reads. Not for how it is connected.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_actors::ports::{Tool, ToolCall, ToolError, ToolOutput, ToolSource};
use serde::Serialize;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::link::Link;

/// A call to a source that was connected before waits at least so long for it to come back.
const PATIENCE: Duration = Duration::from_secs(3);

/// Where a source stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "reason", rename_all = "lowercase")]
pub enum SourceState {
    /// On its way.
    Connecting,
    /// Its tools are known and can be called.
    Ready,
    /// It is away, for this reason, and is tried again.
    Failed(String),
    /// It is switched off.
    Disabled,
}

/// Where a source comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// It stands in the configuration.
    Configuration,
    /// It was added over the API.
    Api,
    /// It dialled in by itself.
    Endpoint,
    /// It is part of this server.
    Builtin,
}

/// How a source is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// We connect to it over HTTP.
    Http,
    /// We connect to it over WebSocket.
    WebSocket,
    /// We run it as a child process.
    Stdio,
    /// It dialled in.
    Endpoint,
    /// It is this server itself.
    Builtin,
}

impl SourceKind {
    /// Its name among metrics.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::WebSocket => "websocket",
            Self::Stdio => "stdio",
            Self::Endpoint => "endpoint",
            Self::Builtin => "builtin",
        }
    }
}

/// What is known of a source, for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SourceReport {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub kind: SourceKind,
    /// Where it comes from.
    pub origin: Origin,
    /// The devices that it is for; all where there are none.
    pub devices: Vec<String>,
    /// Where it stands, and why.
    #[serde(flatten)]
    pub state: SourceState,
    /// The version of MCP that it speaks, or of LiteMCP; empty while it is away.
    pub protocol: String,
    /// Connections that it has had.
    pub connections: u64,
    /// Its tools, as they were last known.
    pub tools: Vec<ToolReport>,
}

/// A tool, for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolReport {
    /// Its name at the source.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: serde_json::Value,
}

impl ToolReport {
    pub(super) fn from_tool(tool: &Tool) -> Self {
        Self {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
        }
    }
}

struct Status {
    state: SourceState,
    tools: Arc<[Tool]>,
    connection: Option<Link>,
    connections: u64,
    /// Attempts to connect that have failed, in all.
    failures: u64,
    /// Nobody tries to connect any more.
    ended: bool,
}

struct Shared {
    name: String,
    kind: SourceKind,
    timeout: Duration,
    status: watch::Sender<Status>,
    /// Somebody wants it while it is away.
    wanted: Notify,
    /// Its connection looks broken.
    suspected: Notify,
    calls: AtomicUsize,
}

/// A source; clones share it.
#[derive(Clone)]
pub(super) struct ConnectedSource(Arc<Shared>);

impl ConnectedSource {
    /// One that is on its way; its calls may take this long.
    pub(super) fn new(name: String, kind: SourceKind, timeout: Duration) -> Self {
        let (status, _) = watch::channel(Status {
            state: SourceState::Connecting,
            tools: Arc::default(),
            connection: None,
            connections: 0,
            failures: 0,
            ended: false,
        });
        Self(Arc::new(Shared {
            name,
            kind,
            timeout,
            status,
            wanted: Notify::new(),
            suspected: Notify::new(),
            calls: AtomicUsize::new(0),
        }))
    }

    /// What is known of it.
    pub(super) fn report(&self) -> SourceReport {
        let status = self.0.status.borrow();
        SourceReport {
            name: self.0.name.clone(),
            kind: self.0.kind,
            origin: Origin::Endpoint,
            devices: Vec::new(),
            state: status.state.clone(),
            protocol: status.connection.as_ref().map(Link::protocol).unwrap_or_default(),
            connections: status.connections,
            tools: status.tools.iter().map(ToolReport::from_tool).collect(),
        }
    }

    /// Calls may wait for this long.
    pub(super) fn call_timeout(&self) -> Duration {
        self.0.timeout
    }

    pub(super) fn connecting(&self) {
        self.0.status.send_modify(|s| s.state = SourceState::Connecting);
    }

    pub(super) fn ready(&self, connection: &Link, tools: Arc<[Tool]>) {
        self.0.status.send_modify(|s| {
            if s.connection.is_none() {
                s.connections += 1;
            }
            s.state = SourceState::Ready;
            s.connection = Some(connection.clone());
            s.tools = tools;
        });
    }

    /// Its connection has ended. Its tools stay known: a call tries to reach it at once.
    pub(super) fn lost(&self, reason: String) {
        self.0.status.send_modify(|s| {
            s.state = SourceState::Failed(reason);
            s.connection = None;
        });
    }

    /// An attempt to connect has failed.
    pub(super) fn failed(&self, reason: String) {
        self.0.status.send_modify(|s| {
            s.state = SourceState::Failed(reason);
            s.connection = None;
            s.failures += 1;
        });
    }

    /// It is gone for good; its calls fail at once.
    pub(super) fn ended(&self, reason: String) {
        self.0.status.send_modify(|s| {
            s.state = SourceState::Failed(reason);
            s.connection = None;
            s.ended = true;
        });
    }

    /// Tells whenever its state or its tools change, for ever.
    pub(super) async fn tell_changes(&self, changes: &watch::Sender<()>) {
        let mut status = self.0.status.subscribe();
        while status.changed().await.is_ok() {
            changes.send_replace(());
        }
    }

    /// It is switched off from the start.
    pub(super) fn disabled(&self) {
        self.0.status.send_modify(|s| s.state = SourceState::Disabled);
    }

    /// Ends when a call wants the source while it is away.
    pub(super) async fn wanted(&self) {
        self.0.wanted.notified().await;
    }

    /// Ends when its connection is to be looked at.
    pub(super) async fn suspected(&self) {
        self.0.suspected.notified().await;
    }

    /// Has its connection looked at soon.
    pub(super) fn suspect(&self) {
        self.0.suspected.notify_one();
    }

    /// Its connection broke under a call: the next ones wait until it was looked at.
    fn doubt(&self, connection: &Link) {
        let doubted = self.0.status.send_if_modified(|s| {
            let same = s.connection.as_ref().is_some_and(|c| c.is(connection));
            if same {
                s.state = SourceState::Connecting;
            }
            same
        });
        if doubted {
            self.suspect();
        }
    }

    /// No call waits for it.
    pub(super) fn idle(&self) -> bool {
        self.0.calls.load(Ordering::Relaxed) == 0
    }

    /// The connection, as soon as there is one; the reason once an attempt has failed meanwhile.
    /// A source that was there before is given time to come back.
    async fn connection(&self) -> Result<Link, ToolError> {
        let mut status = self.0.status.subscribe();
        let begun = Instant::now();
        let mut failures = status.borrow().failures;
        let mut asked = false;
        loop {
            {
                let now = status.borrow_and_update();
                let patience = if now.connections == 0 { Duration::ZERO } else { PATIENCE };
                match (&now.state, &now.connection) {
                    (SourceState::Ready, Some(connection)) => return Ok(connection.clone()),
                    (SourceState::Disabled, _) => {
                        return Err(ToolError::Unavailable("it is switched off".into()));
                    }
                    (SourceState::Failed(reason), _) if now.ended => {
                        return Err(ToolError::Unavailable(reason.clone()));
                    }
                    (SourceState::Failed(reason), _) => {
                        if now.failures > failures {
                            if begun.elapsed() >= patience {
                                return Err(ToolError::Unavailable(reason.clone()));
                            }
                            failures = now.failures;
                            asked = false;
                        }
                        if !asked {
                            asked = true;
                            self.0.wanted.notify_one();
                        }
                    }
                    _ => {}
                }
            }
            let gone = |_| ToolError::Unavailable("it is no longer a source".into());
            status.changed().await.map_err(gone)?;
        }
    }

    /// One call. Where the server has not even seen it, it is made once more on the next
    /// connection.
    async fn attempt(&self, call: &ToolCall) -> Result<ToolOutput, ToolError> {
        let mut again = true;
        loop {
            let connection = self.connection().await?;
            if !self.tools().iter().any(|t| t.name == call.name) {
                return Err(ToolError::Unknown(call.name.clone()));
            }
            let failed = match connection.call(call).await {
                Ok(output) => return Ok(output),
                Err(failed) => failed,
            };
            if failed.broken {
                self.doubt(&connection);
            }
            if !(failed.never_left && again) {
                return Err(failed.error);
            }
            again = false;
        }
    }
}

/// Counts a call while it lasts.
struct Waiting(ConnectedSource);

impl Waiting {
    fn on(live: &ConnectedSource) -> Self {
        live.0.calls.fetch_add(1, Ordering::Relaxed);
        Self(live.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ToolSource for ConnectedSource {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn kind(&self) -> &'static str {
        self.0.kind.word()
    }

    fn tools(&self) -> Arc<[Tool]> {
        Arc::clone(&self.0.status.borrow().tools)
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let live = self.clone();
        Box::pin(async move {
            let _waiting = Waiting::on(&live);
            let within = live.call_timeout();
            let answered = tokio::time::timeout(within, live.attempt(&call)).await;
            answered.unwrap_or(Err(ToolError::Timeout(within)))
        })
    }

    fn timeout(&self) -> Duration {
        self.0.timeout
    }
}
