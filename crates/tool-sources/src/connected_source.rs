//! State of a source whose connection may be lost and restored, and calls that wait for the
//! connection. The task that maintains the connection writes here; the port reads. Not for how it
//! is connected.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_ports::{Provenance, Tool, ToolCall, ToolError, ToolOutput, ToolSource, source_names};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::link::Link;
use super::pins::SourcePins;
use super::report::{Origin, SourceKind, SourceReport, SourceState, SourceUsage, ToolReport};

/// Maximum number of concurrent calls of one source, of all conversations together.
const MAX_CALLS: usize = 64;
/// Minimum time that a call waits for a previously connected source to reconnect.
const RECONNECT_WAIT: Duration = Duration::from_secs(3);

struct Status {
    state: SourceState,
    tools: Arc<[Tool]>,
    connection: Option<Link>,
    connections: u64,
    /// Total number of failed attempts to connect.
    failures: u64,
    /// True if the source was removed: there are no more attempts to connect.
    ended: bool,
}

/// Identity of a source.
pub(super) struct Identity {
    /// Name of the source.
    pub(super) name: String,
    /// Number of the connection of a tool client; 0 for a server, which has its name from the
    /// administrator.
    pub(super) connection: u64,
    /// Name of a tool client that it cannot choose: see [`Provenance::key`].
    pub(super) key: Option<String>,
}

struct Shared {
    identity: Identity,
    kind: SourceKind,
    timeout: Duration,
    status: watch::Sender<Status>,
    /// Notified when a call needs the source while it is not connected.
    wanted: Notify,
    /// Notified when its connection may be broken.
    suspected: Notify,
    calls: AtomicUsize,
    usage: Mutex<SourceUsage>,
    pins: SourcePins,
    trust: bool,
}

/// Source with its connection state; clones share it.
#[derive(Clone)]
pub(super) struct ConnectedSource(Arc<Shared>);

impl ConnectedSource {
    /// Creates the source of a server that is being connected; its calls may take `timeout`. Its
    /// definitions are pinned in `pins`. `trust` is that of [`Provenance::own_trust`].
    pub(super) fn of_server(
        name: String,
        kind: SourceKind,
        timeout: Duration,
        pins: SourcePins,
        trust: bool,
    ) -> Self {
        let identity = Identity { name, connection: 0, key: None };
        Self::new(identity, kind, timeout, pins, trust)
    }

    /// Creates the source of a tool client.
    pub(super) fn of_client(identity: Identity, timeout: Duration, pins: SourcePins) -> Self {
        Self::new(identity, SourceKind::Endpoint, timeout, pins, false)
    }

    fn new(
        identity: Identity,
        kind: SourceKind,
        timeout: Duration,
        pins: SourcePins,
        trust: bool,
    ) -> Self {
        let (status, _) = watch::channel(Status {
            state: SourceState::Connecting,
            tools: Arc::default(),
            connection: None,
            connections: 0,
            failures: 0,
            ended: false,
        });
        Self(Arc::new(Shared {
            identity,
            kind,
            timeout,
            status,
            wanted: Notify::new(),
            suspected: Notify::new(),
            calls: AtomicUsize::new(0),
            usage: Mutex::default(),
            pins,
            trust,
        }))
    }

    /// Returns a report on the source.
    pub(super) fn report(&self) -> SourceReport {
        let status = self.0.status.borrow();
        SourceReport {
            name: self.0.identity.name.clone(),
            key: self.0.identity.key.clone(),
            kind: self.0.kind,
            origin: Origin::Endpoint,
            devices: Vec::new(),
            state: status.state.clone(),
            protocol: status.connection.as_ref().map(Link::protocol).unwrap_or_default(),
            connections: status.connections,
            usage: Some(*self.usage()),
            warning: None,
            tools: status
                .tools
                .iter()
                .map(|tool| ToolReport::from_tool(tool, self.is_changed(tool)))
                .collect(),
        }
    }

    fn usage(&self) -> MutexGuard<'_, SourceUsage> {
        self.0.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name of a tool client that it cannot choose: see [`Provenance::key`].
    pub(super) fn key(&self) -> Option<&str> {
        self.0.identity.key.as_deref()
    }

    /// Returns the pins of its definitions.
    pub(super) fn pins(&self) -> &SourcePins {
        &self.0.pins
    }

    /// Reports whether a definition differs from that of its pin, or could not be pinned.
    fn is_changed(&self, tool: &Tool) -> bool {
        self.0.pins.is_changed(tool).unwrap_or(true)
    }

    /// Returns the timeout of calls.
    pub(super) fn call_timeout(&self) -> Duration {
        self.0.timeout
    }

    pub(super) fn set_connecting(&self) {
        self.0.status.send_modify(|s| s.state = SourceState::Connecting);
    }

    pub(super) fn set_ready(&self, connection: &Link, tools: Arc<[Tool]>) {
        self.0.pins.note(&tools);
        self.0.status.send_modify(|s| {
            if s.connection.is_none() {
                s.connections += 1;
            }
            s.state = SourceState::Ready;
            s.connection = Some(connection.clone());
            s.tools = tools;
        });
    }

    /// Sets the state after the connection was lost. The tools remain listed: a call triggers an
    /// immediate attempt to connect.
    pub(super) fn set_lost(&self, reason: String) {
        self.0.status.send_modify(|s| {
            s.state = SourceState::Failed(reason);
            s.connection = None;
        });
    }

    /// Sets the state after an attempt to connect failed.
    pub(super) fn set_failed(&self, reason: String) {
        self.0.status.send_modify(|s| {
            s.state = SourceState::Failed(reason);
            s.connection = None;
            s.failures += 1;
        });
    }

    /// Sets the state of a removed source: its calls fail at once.
    pub(super) fn set_ended(&self, reason: String) {
        self.0.status.send_modify(|s| {
            s.state = SourceState::Failed(reason);
            s.connection = None;
            s.ended = true;
        });
    }

    /// Notifies `changes` of every change of the state or the tools. Returns only when the source
    /// is dropped.
    pub(super) async fn notify_changes(&self, changes: &watch::Sender<()>) {
        let mut status = self.0.status.subscribe();
        while status.changed().await.is_ok() {
            changes.send_replace(());
        }
    }

    /// Sets the state of a source that is disabled from the start.
    pub(super) fn set_disabled(&self) {
        self.0.status.send_modify(|s| s.state = SourceState::Disabled);
    }

    /// Waits until a call needs the source while it is not connected.
    pub(super) async fn wait_until_needed(&self) {
        self.0.wanted.notified().await;
    }

    /// Waits until the connection is to be checked.
    pub(super) async fn wait_until_suspected(&self) {
        self.0.suspected.notified().await;
    }

    /// Requests a check of the connection.
    pub(super) fn suspect(&self) {
        self.0.suspected.notify_one();
    }

    /// Marks the connection as doubtful after it broke during a call: the next calls wait until it
    /// was checked.
    fn mark_doubtful(&self, connection: &Link) {
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

    /// Returns true if no call is waiting for the source.
    pub(super) fn idle(&self) -> bool {
        self.0.calls.load(Ordering::Relaxed) == 0
    }

    /// Returns the connection as soon as there is one, or the reason once an attempt has failed in
    /// the meantime. A previously connected source is given time to reconnect.
    async fn connection(&self) -> Result<Link, ToolError> {
        let mut status = self.0.status.subscribe();
        let begun = Instant::now();
        let mut failures = status.borrow().failures;
        let mut asked = false;
        loop {
            {
                let now = status.borrow_and_update();
                let patience = if now.connections == 0 { Duration::ZERO } else { RECONNECT_WAIT };
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

    /// Makes one call. A call that never reached the server is repeated once, on the next
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
                self.mark_doubtful(&connection);
            }
            // A call that timed out is not repeated: it may have rolled the dice. Decision 0029.
            if !(failed.not_sent && again) {
                return Err(failed.error);
            }
            again = false;
        }
    }
}

/// Guard that counts a call while it lasts, and its usage when it is dropped.
struct CallInProgress {
    source: ConnectedSource,
    begun: Instant,
    sent: usize,
    received: usize,
}

impl CallInProgress {
    /// Begins a call; none if the source has too many.
    fn on(source: &ConnectedSource, call: &ToolCall) -> Option<Self> {
        if source.0.calls.fetch_add(1, Ordering::Relaxed) >= MAX_CALLS {
            source.0.calls.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let source = source.clone();
        let sent = call.size_bytes();
        Some(Self { source, begun: Instant::now(), sent, received: 0 })
    }
}

impl Drop for CallInProgress {
    fn drop(&mut self) {
        self.source.0.calls.fetch_sub(1, Ordering::Relaxed);
        let mut usage = self.source.usage();
        usage.calls += 1;
        usage.bytes_sent += self.sent as u64;
        usage.bytes_received += self.received as u64;
        usage.seconds += self.begun.elapsed().as_secs_f64();
    }
}

impl ToolSource for ConnectedSource {
    fn name(&self) -> &str {
        &self.0.identity.name
    }

    fn kind(&self) -> &'static str {
        self.0.kind.label()
    }

    fn metric_name(&self) -> Option<&str> {
        (self.0.kind != SourceKind::Endpoint).then_some(self.name())
    }

    fn provenance(&self, tool: &str) -> Provenance {
        let tools = self.tools();
        let found = tools.iter().find(|known| known.name == tool);
        let changed = found.is_some_and(|found| self.is_changed(found));
        let own_trust = self.0.trust;
        // A tool client gives itself its name; a server has its name from the administrator.
        let group =
            (self.0.kind == SourceKind::Endpoint).then(|| source_names::ENDPOINT.to_owned());
        let key = self.0.identity.key.clone();
        Provenance { changed, own_trust, group, key, ..Provenance::untrusted(self.name(), tool) }
    }

    fn tools(&self) -> Arc<[Tool]> {
        Arc::clone(&self.0.status.borrow().tools)
    }

    fn connection_of(&self, _tool: &str) -> u64 {
        self.0.identity.connection
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let source = self.clone();
        Box::pin(async move {
            let Some(mut waiting) = CallInProgress::on(&source, &call) else {
                let why = format!("{MAX_CALLS} calls of it are in progress, the maximum");
                return Err(ToolError::Unavailable(why));
            };
            let within = source.call_timeout();
            let answered = tokio::time::timeout(within, source.attempt(&call)).await;
            waiting.received = answered
                .as_ref()
                .ok()
                .and_then(|answer| answer.as_ref().ok())
                .map_or(0, ToolOutput::size_bytes);
            answered.unwrap_or_else(|_| {
                // The tool may be slow, or the server may be gone.
                source.suspect();
                Err(ToolError::Timeout(within))
            })
        })
    }

    fn timeout(&self) -> Duration {
        self.0.timeout
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::pins::Pins;

    #[tokio::test]
    async fn calls_of_a_source_are_limited() {
        let pins = Pins::default().of("a", "s");
        let within = Duration::from_secs(9);
        let source = ConnectedSource::of_server("s".into(), SourceKind::Http, within, pins, false);
        let call = || {
            let arguments = serde_json::Map::new();
            source.call(ToolCall { id: "1".into(), name: "t".into(), arguments })
        };
        // They wait for the connection.
        let mut waiting: Vec<_> = (0..MAX_CALLS).map(|_| call()).collect();
        assert!(waiting.iter_mut().all(|call| call.now_or_never().is_none()));
        let refused = ToolError::Unavailable("64 calls of it are in progress, the maximum".into());
        assert_eq!(call().now_or_never(), Some(Err(refused)));
        assert_eq!(source.usage().calls, 0, "a refused call is not counted");
        waiting.pop();
        assert!(call().now_or_never().is_none(), "an ended call makes room");
    }
}
