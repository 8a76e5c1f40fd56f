//! The MCP endpoint: tool clients that connect by themselves, several for each agent, with unique
//! names. On these connections they are the MCP servers and we are the client. Not for sockets:
//! frames are passed in and out as text.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_base::names::folded;
use hearken_ports::{
    LocalToolClient, RemoteToolClient, ToolCall, ToolClients, ToolError, ToolOutput,
    ToolSource as _,
};
use hearken_socket::HeldText;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use uuid::Uuid;

use super::connected_source::{ConnectedSource, Identity};
use super::connection::{Connection, ProtocolEra};
use super::elicitation::ElicitationPolicy;
use super::jsonrpc_repair::{MessageReader, Repair};
use super::link::Link;
use super::pins::Pins;
use super::refresh_loop;
use super::remote_instance::RemoteInstanceSource;
use super::signed_tokens::{ToolClientToken, key_of_token};

/// Maximum number of tool clients of one agent.
const MAX_PER_AGENT: usize = 32;
/// Maximum number of tool clients of one agent with the same token: otherwise its owner could take
/// all places of the agent.
const MAX_PER_TOKEN: usize = 8;
/// Maximum wait for a tool client to answer the handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(15);
/// Maximum length of a tool client's name, in characters.
const MAX_NAME_CHARS: usize = 48;
/// Name of a tool client that gives none.
const NAMELESS: &str = "tools";

/// Tool clients of every agent; clones share them.
#[derive(Clone)]
pub struct Endpoint(Arc<Shared>);

struct Shared {
    agents: Mutex<Agents>,
    call_timeout: Duration,
    /// Pins of all tool clients' tools, here and at other instances.
    pins: Pins,
    /// Notified when a tool client connects or disconnects, or changes its tools.
    changes: watch::Sender<()>,
}

#[derive(Default)]
struct Agents {
    by_agent: BTreeMap<String, Vec<ClientSlot>>,
    /// Names of other sources, folded for comparison.
    reserved: Vec<String>,
    /// Tool clients of other instances of the server.
    remote: Vec<RemoteInstanceSource>,
    /// Serials of revoked tokens.
    revoked: HashSet<String>,
}

struct ClientSlot {
    /// Number of the connection. Random, and so unique among all instances and their restarts.
    number: u64,
    /// Serial of its token.
    serial: String,
    /// Cancelled when its token is revoked.
    revoked: CancellationToken,
    /// Name and source; `None` until the handshake is done.
    source: Option<(String, ConnectedSource)>,
}

/// Reason why a tool client is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// The agent has the maximum number of tool clients.
    #[error("the agent has {MAX_PER_AGENT} tool clients, the maximum: disconnect one")]
    TooMany,
    /// The token has the maximum number of tool clients.
    #[error(
        "{MAX_PER_TOKEN} tool clients are connected with this token, the maximum: disconnect one, \
         or use another token"
    )]
    TooManyOfToken,
    /// The token was revoked.
    #[error("the token was revoked")]
    Revoked,
}

impl Endpoint {
    /// Creates an endpoint whose tool clients may take `call_timeout` for a call.
    pub fn new(call_timeout: Duration) -> Self {
        let agents = Mutex::default();
        let changes = watch::Sender::default();
        Self(Arc::new(Shared { agents, call_timeout, pins: Pins::default(), changes }))
    }

    /// Returns the pins of all tool clients' tools.
    pub(super) fn pins(&self) -> &Pins {
        &self.0.pins
    }

    /// Reserves a slot for a tool client that has just connected.
    ///
    /// # Errors
    /// The agent or the token has the maximum number of tool clients, or the token is revoked.
    pub fn admit(&self, client: &ToolClientToken) -> Result<AdmittedClient, NotAdmitted> {
        let ToolClientToken { agent, serial } = client;
        let mut agents = self.lock();
        // `revoke` holds the same lock: a client is either refused here or ended there. Decision 0077.
        if agents.revoked.contains(serial) {
            return Err(NotAdmitted::Revoked);
        }
        let number = Uuid::new_v4().as_u64_pair().0;
        let slots = agents.by_agent.entry(agent.clone()).or_default();
        if slots.iter().filter(|slot| slot.serial == *serial).count() >= MAX_PER_TOKEN {
            return Err(NotAdmitted::TooManyOfToken);
        }
        if slots.len() >= MAX_PER_AGENT {
            return Err(NotAdmitted::TooMany);
        }
        let revoked = CancellationToken::new();
        let serial = serial.clone();
        let end = revoked.clone();
        slots.push(ClientSlot { number, serial, revoked, source: None });
        Ok(AdmittedClient { endpoint: self.clone(), agent: agent.clone(), number, revoked: end })
    }

    /// Sets the serials of revoked tokens: their tool clients are disconnected, and not admitted.
    pub(super) fn revoke(&self, serials: HashSet<String>) {
        let mut agents = self.lock();
        let clients = agents.by_agent.values().flatten();
        clients.filter(|client| serials.contains(&client.serial)).for_each(|c| c.revoked.cancel());
        agents.revoked = serials;
    }

    /// Returns the tool clients of an agent, in the order of their connection.
    pub(super) fn sources(&self, agent: &str) -> Vec<ConnectedSource> {
        let agents = self.lock();
        let slots = agents.by_agent.get(agent).into_iter().flatten();
        slots.filter_map(|s| s.source.as_ref().map(|(_, source)| source.clone())).collect()
    }

    /// Returns the tool clients of an agent at other instances, under names that are unique here.
    pub(super) fn remote(&self, agent: &str) -> Vec<RemoteInstanceSource> {
        let agents = self.lock();
        let slots = agents.by_agent.get(agent).into_iter().flatten();
        let mut names: Vec<String> =
            slots.filter_map(|s| s.source.as_ref().map(|(name, _)| name.clone())).collect();
        let mut all = Vec::new();
        for client in agents.remote.iter().filter(|client| client.agent() == agent) {
            let taken = |name: &str| {
                names.iter().any(|n| n == name) || agents.reserved.contains(&folded(name))
            };
            let name = free_name(client.name(), taken);
            names.push(name.clone());
            all.push(client.named(name));
        }
        all
    }

    /// Reserves names of other sources: tool clients get different ones.
    pub(super) fn reserve(&self, names: Vec<String>) {
        self.lock().reserved = names.iter().map(|name| folded(name)).collect();
    }

    /// Returns true if a tool client of any agent has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        let agents = self.lock();
        let mut clients = agents.by_agent.values().flatten().filter_map(|s| s.source.as_ref());
        clients.any(|(n, _)| n == name)
    }

    /// Returns the number of connected tool clients of all agents, and the number of agents that
    /// have some.
    pub fn count(&self) -> (usize, usize) {
        let agents = self.lock();
        (agents.by_agent.values().map(Vec::len).sum(), agents.by_agent.len())
    }

    fn lock(&self) -> MutexGuard<'_, Agents> {
        self.0.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names an admitted client and creates its source. The name is the requested one, or that with
    /// the lowest free number appended.
    pub(super) fn register(&self, admitted: &AdmittedClient, wanted: &str) -> ConnectedSource {
        let mut agents = self.lock();
        let Agents { by_agent, reserved, .. } = &mut *agents;
        let slots = by_agent.entry(admitted.agent.clone()).or_default();
        let taken = |name: &str| {
            let mut others = slots.iter().filter_map(|s| s.source.as_ref());
            others.any(|(n, _)| n == name) || reserved.contains(&folded(name))
        };
        let name = free_name(wanted, taken);
        // A client of the same name may be an earlier connection of this client that broke
        // unnoticed.
        let others = slots.iter().filter_map(|s| s.source.as_ref());
        others.filter(|(n, _)| n.starts_with(wanted)).for_each(|(_, other)| other.suspect());
        let pins = self.0.pins.of(&admitted.agent, &name);
        let connection = admitted.number;
        let slot = slots.iter_mut().find(|s| s.number == connection);
        let key = slot.as_ref().and_then(|slot| key_of_token(&slot.serial));
        let identity = Identity { name: name.clone(), connection, key };
        let source = ConnectedSource::of_client(identity, self.0.call_timeout, pins);
        if let Some(slot) = slot {
            slot.source = Some((name, source.clone()));
        }
        source
    }
}

impl ToolClients for Endpoint {
    fn local(&self) -> Vec<LocalToolClient> {
        let agents = self.lock();
        let mut all = Vec::new();
        for (agent, slots) in &agents.by_agent {
            let client = |slot: &ClientSlot| {
                let (name, source) = slot.source.as_ref()?;
                Some(LocalToolClient {
                    agent: agent.clone(),
                    name: name.clone(),
                    serial: slot.serial.clone(),
                    connection: slot.number,
                    tools: source.tools(),
                })
            };
            all.extend(slots.iter().filter_map(client));
        }
        all
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    fn set_remote(&self, clients: Vec<RemoteToolClient>) {
        let source = |client: RemoteToolClient| {
            let pins = self.0.pins.of(&client.agent, &client.name);
            RemoteInstanceSource::new(client, pins)
        };
        self.lock().remote = clients.into_iter().map(source).collect();
    }

    fn call_timeout(&self) -> Duration {
        self.0.call_timeout
    }

    fn call(
        &self,
        agent: String,
        client: String,
        connection: u64,
        call: ToolCall,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let clients = self.sources(&agent);
        Box::pin(async move {
            // A new connection may have taken the name.
            let is_meant = |source: &&ConnectedSource| {
                let is_same = connection == 0 || source.connection_of(&call.name) == connection;
                source.name() == client && is_same
            };
            let Some(client) = clients.iter().find(is_meant) else {
                return Err(ToolError::Unavailable("the tool client has disconnected".into()));
            };
            client.call(call).await
        })
    }
}

/// Returns the requested name, or that with the lowest free number appended.
fn free_name(wanted: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut name = wanted.to_owned();
    let mut number = 1_u32;
    while taken(&name) {
        number += 1;
        name = format!("{wanted}-{number}");
    }
    name
}

/// Slot of a tool client; released when dropped.
pub struct AdmittedClient {
    endpoint: Endpoint,
    agent: String,
    number: u64,
    revoked: CancellationToken,
}

impl AdmittedClient {
    /// Resolves when the token of the client is revoked.
    pub fn revoked(&self) -> WaitForCancellationFutureOwned {
        self.revoked.clone().cancelled_owned()
    }

    /// Speaks MCP over these frames until the tool client disconnects. Returns the reason of the
    /// end.
    pub async fn serve(
        self,
        incoming: mpsc::Receiver<HeldText>,
        outgoing: mpsc::Sender<String>,
    ) -> String {
        let revoked = self.revoked();
        tokio::select! {
            // First: nothing more of a client with a revoked token is handled.
            biased;
            () = revoked => "its token was revoked".into(),
            reason = self.serve_frames(incoming, outgoing) => reason,
        }
    }

    async fn serve_frames(
        self,
        incoming: mpsc::Receiver<HeldText>,
        outgoing: mpsc::Sender<String>,
    ) -> String {
        let transport = Frames {
            incoming,
            outgoing: Some(outgoing),
            messages: MessageReader::new(Repair::default()),
        };
        let opening = Connection::open(transport, ProtocolEra::Oldest, ElicitationPolicy::Declined);
        let opened = timeout(HANDSHAKE_WITHIN, opening).await;
        let connection = match opened {
            Ok(Ok(connection)) => connection,
            Ok(Err(failed)) => return failed.reason,
            Err(_) => return "it did not answer the handshake".into(),
        };
        let wanted = named(connection.server_name().as_deref().unwrap_or_default());
        let source = self.endpoint.register(&self, &wanted);
        tracing::info!(agent = self.agent, source = wanted, "a tool client connected");
        let connection = Link::Mcp(connection);
        let changes = &self.endpoint.0.changes;
        let reason = tokio::select! {
            reason = refresh_loop::run(&source, &connection) => reason,
            () = source.notify_changes(changes) => "the connection was lost".into(),
        };
        source.set_lost(reason.clone());
        connection.close().await;
        reason
    }
}

impl Drop for AdmittedClient {
    fn drop(&mut self) {
        let mut agents = self.endpoint.lock();
        let Some(slots) = agents.by_agent.get_mut(&self.agent) else { return };
        if let Some(position) = slots.iter().position(|s| s.number == self.number) {
            let slot = slots.remove(position);
            if let Some((_, source)) = slot.source {
                source.set_ended("the tool client has disconnected".into());
            }
        }
        if slots.is_empty() {
            agents.by_agent.remove(&self.agent);
        }
        self.endpoint.0.changes.send_replace(());
    }
}

/// Cleans up the name that a tool client gives itself.
fn named(given: &str) -> String {
    // A slash separates the name of a source from those of its tools in policies.
    let plain = given.chars().filter(|c| !c.is_control()).map(|c| if c == '/' { '-' } else { c });
    let kept: String = plain.take(MAX_NAME_CHARS).collect();
    let kept = kept.trim();
    if kept.is_empty() { NAMELESS.into() } else { kept.to_owned() }
}

/// Transport of rmcp over the text frames of a socket.
struct Frames {
    incoming: mpsc::Receiver<HeldText>,
    outgoing: Option<mpsc::Sender<String>>,
    messages: MessageReader,
}

/// Error: a frame could not be sent.
#[derive(Debug, thiserror::Error)]
enum FrameError {
    #[error("the tool client has disconnected")]
    Gone,
    #[error("cannot write a message")]
    Unwritable(#[from] serde_json::Error),
}

impl Transport<RoleClient> for Frames {
    type Error = FrameError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), FrameError>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        self.messages.note(&item);
        async move {
            let text = serde_json::to_string(&item)?;
            let outgoing = outgoing.ok_or(FrameError::Gone)?;
            outgoing.send(text).await.map_err(|_| FrameError::Gone)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.messages.next().await {
                return Some(message);
            }
            self.messages.begin(self.incoming.recv().await?);
        }
    }

    async fn close(&mut self) -> Result<(), FrameError> {
        self.outgoing = None;
        self.incoming.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use hearken_ports::source_names;

    use super::*;

    fn client(agent: &str, serial: &str) -> ToolClientToken {
        ToolClientToken { agent: agent.into(), serial: serial.into() }
    }

    #[tokio::test]
    async fn a_revoked_token_ends_its_clients_and_admits_no_others() {
        let endpoint = Endpoint::new(Duration::from_secs(1));
        let first = client("a", "1");
        let other = client("a", "2");
        let ends = endpoint.admit(&first).unwrap();
        let stays = endpoint.admit(&other).unwrap();
        let (_hold, incoming) = mpsc::channel(1);
        let (outgoing, _sent) = mpsc::channel(1);
        let serving = tokio::spawn(ends.serve(incoming, outgoing));
        endpoint.revoke(["1".to_owned()].into());
        assert_eq!(serving.await.unwrap(), "its token was revoked");
        assert_eq!(endpoint.admit(&first).err(), Some(NotAdmitted::Revoked));
        assert_eq!((endpoint.count(), stays.revoked.is_cancelled()), ((1, 1), false));
        endpoint.revoke(HashSet::new());
        assert!(endpoint.admit(&first).is_ok(), "a restored backup lacks the revocation");
    }

    #[test]
    fn an_agent_has_a_limited_number_of_slots_and_frees_them() {
        let endpoint = Endpoint::new(Duration::from_secs(1));
        let mut admitted: Vec<AdmittedClient> = (0..MAX_PER_AGENT)
            .map(|n| endpoint.admit(&client("a", &n.to_string())).unwrap())
            .collect();
        assert_eq!(endpoint.admit(&client("a", "new")).err(), Some(NotAdmitted::TooMany));
        assert!(endpoint.admit(&client("b", "new")).is_ok());
        admitted.pop();
        assert!(endpoint.admit(&client("a", "new")).is_ok());
        drop(admitted);
        assert_eq!(endpoint.count(), (0, 0));
    }

    #[test]
    fn one_token_leaves_places_of_its_agent_to_others() {
        let endpoint = Endpoint::new(Duration::from_secs(1));
        let admit = |serial: &str| endpoint.admit(&client("a", serial));
        let mut admitted: Vec<AdmittedClient> =
            (0..MAX_PER_TOKEN).map(|_| admit("1").unwrap()).collect();
        assert_eq!(admit("1").err(), Some(NotAdmitted::TooManyOfToken));
        let other = admit("2");
        assert!(other.is_ok());
        admitted.pop();
        assert!(admit("1").is_ok());
    }

    #[test]
    fn equal_names_are_numbered_and_numbers_are_reused() {
        let endpoint = Endpoint::new(Duration::from_secs(1));
        let admitted: Vec<AdmittedClient> =
            (0..3).map(|_| endpoint.admit(&client("a", "1")).unwrap()).collect();
        for admitted in &admitted {
            endpoint.register(admitted, "calc");
        }
        let names =
            || -> Vec<String> { endpoint.sources("a").iter().map(|s| s.report().name).collect() };
        assert_eq!(names(), ["calc", "calc-2", "calc-3"]);
        let mut admitted = admitted;
        drop(admitted.remove(1));
        let back = endpoint.admit(&client("a", "1")).unwrap();
        endpoint.register(&back, "calc");
        assert_eq!(names(), ["calc", "calc-3", "calc-2"]);
        assert!(endpoint.sources("b").is_empty());
        endpoint.reserve(vec!["weather".into()]);
        let last = endpoint.admit(&client("b", "2")).unwrap();
        endpoint.register(&last, "weather");
        assert_eq!(endpoint.sources("b")[0].report().name, "weather-2");
    }

    #[test]
    fn no_tool_client_has_a_name_that_looks_like_that_of_another_source() {
        let endpoint = Endpoint::new(Duration::from_secs(1));
        endpoint.reserve(source_names::ALL.iter().map(|name| (*name).to_owned()).collect());
        for name in source_names::ALL {
            for wanted in [(*name).to_owned(), name.to_uppercase()] {
                let admitted = endpoint.admit(&client("a", "1")).unwrap();
                endpoint.register(&admitted, &wanted);
                let given = endpoint.sources("a")[0].report().name;
                assert_eq!(given, format!("{wanted}-2"));
            }
        }
    }

    #[tokio::test]
    async fn a_call_of_another_instance_reaches_only_the_connection_that_it_names() {
        let endpoint = Endpoint::new(Duration::from_secs(1));
        let dial = |wanted: &str| {
            let admitted = endpoint.admit(&client("a", "1")).unwrap();
            endpoint.register(&admitted, wanted);
            admitted
        };
        let first = dial("calc");
        let before = first.number;
        drop(first);
        let again = dial("calc");
        let _other = dial("lamp");
        let now = again.number;
        assert_ne!(before, now);
        let announced: Vec<_> =
            endpoint.local().into_iter().map(|c| (c.name, c.connection == now)).collect();
        assert_eq!(announced, [("calc".to_owned(), true), ("lamp".to_owned(), false)]);
        for (name, connection, reaches_it) in [
            ("calc", now, true),
            // From an instance of an earlier version.
            ("calc", 0, true),
            ("calc", before, false),
            ("lamp", now, false),
            ("none", 0, false),
        ] {
            let arguments = serde_json::Map::new();
            let call = ToolCall { id: "1".into(), name: "add".into(), arguments };
            let ended = endpoint.call("a".into(), name.into(), connection, call).now_or_never();
            // A reached one is waited for: it has not listed its tools yet.
            let gone = ToolError::Unavailable("the tool client has disconnected".into());
            assert_eq!(ended, (!reaches_it).then_some(Err(gone)), "{name} {connection}");
        }
    }

    #[test]
    fn names_are_cleaned_up() {
        assert_eq!(named(" Weather\u{7} "), "Weather");
        assert_eq!(named("home/*"), "home-*");
        assert_eq!(named("\n"), NAMELESS);
        assert_eq!(named(&"字".repeat(99)).chars().count(), MAX_NAME_CHARS);
    }
}
