//! Tools outside devices. Each kind of source implements the port `ToolSource`: remote MCP servers
//! and LiteMCP tools that this server connects to, tool clients that connect to its endpoint, and
//! its built-in tools. rmcp implements MCP; `litemcp` is our own implementation. Not for the names
//! under which a model calls tools, nor for the loop that calls them.
//!
//! ```text
//! settings -> server_connection -+
//!                                +-> link (rmcp or LiteMCP) -> connected_source -> ToolSource
//! socket   -> endpoint ----------+
//! ```

mod agent;
mod backoff;
mod builtin;
mod cameras;
mod connected_source;
mod connection;
mod elicitation;
mod endpoint;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod http_client;
mod jsonrpc_repair;
mod link;
mod listing;
pub mod litemcp;
mod mapping;
mod paced_client;
mod peer_transport;
mod pins;
mod refresh_loop;
mod registry;
mod remote_instance;
mod report;
mod server_connection;
mod servers;
mod serving;
mod settings;
mod signed_tokens;
mod source_overrides;
mod stdio_process;
mod stdio_transport;

use std::collections::HashMap;
use std::sync::Arc;

use agent::AgentTools;
use hearken_dialogue::role::{AssignedRole, RoleLookup};
use hearken_dialogue::style::StyleLookup;
use hearken_dialogue::tools::{SourceLookup, allot};
use hearken_dialogue::{ConversationStyle, SharedStyle};
use hearken_ports::{Tool, ToolSource, source_names};
use hearken_proto::ids::DeviceId;
use pins::{Pins, SourcePins};
use remote_instance::RemoteInstanceSource;
use serde::Serialize;
use source_overrides::{OverrideTable, Overrides};

pub use builtin::{Builtin, BuiltinError, BuiltinSettings, BuiltinTool};
pub use cameras::Cameras;
pub use endpoint::{AdmittedClient, Endpoint, NotAdmitted};
pub use registry::{
    DeviceToolsView, Registry, RegistryError, ServerView, SessionToolsView, SourceOfDevice,
};
pub use report::{Origin, SourceKind, SourceReport, SourceState, SourceUsage, ToolReport};
pub use servers::Servers;
pub use settings::{ToolProtocol, ToolServer, ToolServerError};
pub use signed_tokens::{
    AgentTokens, MAX_AGENT_BYTES, TokenReadError, ToolClientToken, VisionTokens,
};
pub use stdio_process::Environment;

/// Agent of devices for which no other agent was chosen.
pub const DEFAULT_AGENT: &str = "default";

/// Every source of tools outside devices; clones share them.
#[derive(Clone)]
pub struct Sources {
    builtin: Builtin,
    servers: Arc<Servers>,
    endpoint: Endpoint,
    overrides: OverrideTable,
}

/// Report on the tools of one agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inventory {
    /// Sources of the agent: the built-in one first, then remote servers including disabled ones,
    /// then tool clients of this instance and of others.
    pub sources: Vec<SourceReport>,
}

impl Inventory {
    /// Adds a warning to each source of which only a part is offered to a conversation that has no
    /// tools of its own device or client, and is offered at most `max_tools`.
    #[must_use]
    pub fn warn_beyond(mut self, max_tools: usize) -> Self {
        let lengths = |are_clients: bool| -> Vec<usize> {
            let all = self.sources.iter().filter(|s| s.group().is_some() == are_clients);
            all.map(SourceReport::offerable).collect()
        };
        // All tool clients of an agent are one source of a conversation.
        let of_clients = lengths(true);
        let mut of_sources = lengths(false);
        of_sources.push(of_clients.iter().sum());
        let mut of_sources = allot(&of_sources, max_tools);
        let room = of_sources.pop().unwrap_or_default();
        let mut of_clients = allot(&of_clients, room).into_iter();
        let mut of_sources = of_sources.into_iter();
        for source in &mut self.sources {
            let is_client = source.group().is_some();
            let share = if is_client { of_clients.next() } else { of_sources.next() };
            let offered = share.unwrap_or_default();
            let all = source.offerable();
            if offered < all {
                source.warning = Some(format!(
                    "{offered} of its {all} tools are offered at most: raise `tools.max_tools`"
                ));
            }
        }
        self
    }
}

impl Sources {
    /// Combines the built-in tools, these remote servers, and the clients of `endpoint`.
    pub fn new(builtin: Builtin, servers: Servers, endpoint: Endpoint) -> Self {
        let overrides = OverrideTable::default();
        let all = Self { builtin, servers: Arc::new(servers), endpoint, overrides };
        all.reserve();
        all
    }

    /// Reserves the names of all other sources: tool clients get different ones.
    fn reserve(&self) {
        let mut names = self.servers.names();
        names.extend(source_names::ALL.iter().map(|name| (*name).to_owned()));
        self.endpoint.reserve(names);
    }

    /// Returns the sources of a device's conversation, without the ones switched off for it: the
    /// built-in tools, each remote server that the device may use, and one source for all tool
    /// clients of its agent, whose clients may change during the conversation. None if the device's
    /// role does not exist, or until the store was read.
    fn of_conversation(
        &self,
        device: &DeviceId,
        overrides: &Overrides,
    ) -> Vec<Arc<dyn ToolSource>> {
        let role = self.overrides.role_of(overrides);
        if role.as_ref().is_some_and(|role| role.is_missing) {
            return Vec::new();
        }
        let mut all: Vec<Arc<dyn ToolSource>> = Vec::new();
        if !self.builtin.is_empty() {
            // Devices are offered only weather, time and place: small models choose badly among
            // many tools. Decision 0027.
            all.push(Arc::new(self.builtin.clone()));
        }
        all.extend(self.servers.sources(Some(device)).into_iter().map(|s| Arc::new(s) as _));
        let mut off = overrides.off.clone();
        off.extend(role.into_iter().flat_map(|role| role.tools_off.clone()));
        let clients = AgentTools::new(self.endpoint.clone(), &overrides.agent, &off);
        all.push(Arc::new(clients));
        all.retain(|source| !off.iter().any(|off| off == source.name()));
        all
    }

    /// Returns the current sources of a text client's conversation: the built-in tools with those
    /// that change the style of this session, the remote servers that are for all devices, and the
    /// tool clients of the default agent. Until the store was read, only the built-in tools: a
    /// server may be disabled there.
    pub fn conversation(&self, session_id: &str, style: &SharedStyle) -> Vec<Arc<dyn ToolSource>> {
        self.without_device(self.builtin.for_conversation(session_id, style))
    }

    /// Returns the current sources of an application's session, which has no style that a tool
    /// could change: otherwise as for a text client.
    pub fn chat_session(&self) -> Vec<Arc<dyn ToolSource>> {
        self.without_device(self.builtin.clone())
    }

    fn without_device(&self, builtin: Builtin) -> Vec<Arc<dyn ToolSource>> {
        let mut all: Vec<Arc<dyn ToolSource>> = Vec::new();
        if !builtin.is_empty() {
            all.push(Arc::new(builtin));
        }
        if self.overrides.awaits_store() {
            return all;
        }
        all.extend(self.servers.sources(None).into_iter().map(|s| Arc::new(s) as _));
        all.push(Arc::new(AgentTools::new(self.endpoint.clone(), DEFAULT_AGENT, &[])));
        all
    }

    /// Returns one of an agent's sources by the name in its report.
    pub fn named(&self, agent: &str, name: &str) -> Option<Arc<dyn ToolSource>> {
        if name == source_names::BUILTIN {
            return Some(Arc::new(self.builtin.clone()));
        }
        if let Some(remote) = self.servers.named(name) {
            return Some(Arc::new(remote));
        }
        let clients = self.endpoint.sources(agent);
        if let Some(here) = clients.into_iter().find(|s| s.name() == name) {
            return Some(Arc::new(here));
        }
        let remote = self.endpoint.remote(agent).into_iter().find(|s| s.name() == name)?;
        Some(Arc::new(remote))
    }

    /// Returns the current tools of one of an agent's sources outside this server, and their pins.
    fn pinned(&self, agent: &str, name: &str) -> Option<(Arc<[Tool]>, SourcePins)> {
        let clients = self.endpoint.sources(agent);
        let connected = self.servers.named(name);
        let connected = connected.or_else(|| clients.into_iter().find(|s| s.name() == name));
        if let Some(connected) = connected {
            return Some((connected.tools(), connected.pins().clone()));
        }
        let remote = self.endpoint.remote(agent).into_iter().find(|s| s.name() == name)?;
        Some((remote.tools(), remote.pins().clone()))
    }

    /// Returns the pins of remote servers, and those of tool clients.
    fn all_pins(&self) -> [&Pins; 2] {
        [self.servers.pins(), self.endpoint.pins()]
    }

    /// Returns the built-in tools.
    pub fn builtin(&self) -> &Builtin {
        &self.builtin
    }

    /// Returns the endpoint to which tool clients connect.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns a non-blocking lookup of a conversation's current sources.
    pub fn lookup(&self) -> SourceLookup {
        let all = self.clone();
        Arc::new(move |device, session| {
            let sources = all.clone();
            // The lookup owns this and drops it with the conversation, which ends the choices for
            // the session. Decision 0025.
            let running = all.overrides.begin(device, session);
            Arc::new(move || match running.overrides() {
                Some((device, overrides)) => sources.of_conversation(&device, &overrides),
                None => Vec::new(),
            })
        })
    }

    /// Returns a non-blocking lookup of a device's current style.
    pub fn styles(&self) -> StyleLookup {
        let overrides = self.overrides.clone();
        Arc::new(move |device| {
            let own = overrides.of_device(device);
            let system_prompt = own.system_prompt.clone();
            let role = overrides.role_of(&own);
            ConversationStyle { system_prompt, role, ..ConversationStyle::default() }
        })
    }

    /// Returns a non-blocking lookup of roles.
    pub fn roles(&self) -> RoleLookup {
        let overrides = self.overrides.clone();
        Arc::new(move |role_id| overrides.role(role_id))
    }

    /// Returns a non-blocking lookup of roles by id or name.
    pub fn roles_by_id_or_name(&self) -> RoleLookup {
        let overrides = self.overrides.clone();
        Arc::new(move |name| overrides.role_called(name))
    }

    /// Replaces all roles; they apply from each conversation's next turn on.
    fn set_roles(&self, roles: HashMap<String, Arc<AssignedRole>>) {
        self.overrides.set_roles(roles);
    }

    /// Returns the state of an agent's sources.
    pub fn inventory(&self, agent: &str) -> Inventory {
        let mut sources = Vec::new();
        if !self.builtin.is_empty() {
            sources.push(self.builtin.report());
        }
        sources.extend(self.servers.reports().into_iter().map(|r| r.source));
        sources.extend(
            self.endpoint.sources(agent).iter().map(connected_source::ConnectedSource::report),
        );
        sources.extend(self.endpoint.remote(agent).iter().map(RemoteInstanceSource::report));
        Inventory { sources }
    }

    /// Closes the remote servers' connections and ends their child processes, and waits for them.
    pub async fn stop(&self) {
        self.servers.stop().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hearken_ports::role::Keep;
    use hearken_proto::ids::SessionId;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn report(name: &str, kind: SourceKind, tools: usize) -> SourceReport {
        let tool = |number: usize| ToolReport {
            name: number.to_string(),
            description: String::new(),
            parameters: serde_json::Value::Null,
            destructive: false,
            changed: false,
            definition_hash: String::new(),
        };
        SourceReport {
            name: name.into(),
            key: None,
            kind,
            origin: Origin::Configuration,
            devices: Vec::new(),
            state: SourceState::Ready,
            protocol: String::new(),
            connections: 1,
            usage: None,
            warning: None,
            tools: (0..tools).map(tool).collect(),
        }
    }

    #[test]
    fn sources_of_which_only_a_part_is_offered_have_a_warning() {
        let disabled = report("old", SourceKind::Http, 500);
        let sources = vec![
            report("builtin", SourceKind::Builtin, 3),
            report("home", SourceKind::Http, 90),
            SourceReport { state: SourceState::Disabled, ..disabled },
            report("flood", SourceKind::Endpoint, 1_000),
            report("lamp", SourceKind::Endpoint, 2),
        ];
        let warned = |max_tools: usize| -> Vec<(String, String)> {
            let inventory = Inventory { sources: sources.clone() }.warn_beyond(max_tools);
            let warning = |s: SourceReport| Some((s.name, s.warning?));
            inventory.sources.into_iter().filter_map(warning).collect()
        };
        let warning = |name: &str, offered: usize, all: usize| {
            let why = "tools are offered at most: raise `tools.max_tools`";
            (name.to_owned(), format!("{offered} of its {all} {why}"))
        };
        // 3, and half of the others each; of those of the clients, 2 and 61.
        assert_eq!(warned(129), [warning("home", 63, 90), warning("flood", 61, 1_000)]);
        assert_eq!(warned(2_000), []);
    }

    #[tokio::test]
    async fn until_the_store_was_read_nothing_is_offered_that_it_may_withhold() {
        let process = CancellationToken::new();
        // No server listens there: an unreachable server does not remove a source from the list.
        let url = "http://127.0.0.1:9/mcp".into();
        let home = ToolServer { name: "home".into(), url, ..ToolServer::default() };
        let remotes = Servers::start(&[home], &Environment::default(), &process).unwrap();
        let builtin = Builtin::new(&BuiltinSettings::default(), &jiff::tz::TimeZone::UTC).unwrap();
        let sources = Sources::new(builtin, remotes, Endpoint::new(Duration::from_secs(1)));
        let device = DeviceId::new("02:00:00:00:00:01");
        let of_device = sources.lookup()(&device, &SessionId::new("s-1"));
        let style = sources.styles();
        let names = |all: Vec<Arc<dyn ToolSource>>| -> Vec<String> {
            all.iter().map(|source| source.name().to_owned()).collect()
        };
        let of_text = || names(sources.conversation("s-2", &SharedStyle::default()));
        let all = ["builtin", "home", "endpoint"];
        for (awaits, offered_to_device, offered_to_text, history) in [
            (false, &all[..], &all[..], None),
            (true, &[], &["builtin"], Some(Keep::Off)),
            (false, &all, &all, None),
        ] {
            if awaits {
                sources.overrides.await_store();
            } else {
                sources.overrides.store_was_read();
            }
            assert_eq!(names(of_device()), offered_to_device, "{awaits}");
            assert_eq!(of_text(), offered_to_text, "{awaits}");
            assert_eq!(style(&device).role.and_then(|role| role.history), history, "{awaits}");
        }
        process.cancel();
        sources.stop().await;
    }
}
