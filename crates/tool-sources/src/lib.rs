//! Tools that live outside devices, each place of them behind the port `ToolSource`: remote MCP
//! servers and LiteMCP tools that we connect to, tool clients that dial in, and tools of this
//! server itself. rmcp speaks MCP; `litemcp` is ours. Not for what a model calls a tool, nor for
//! the loop that calls them.
//!
//! ```text
//! settings -> remote  -+
//!                      +-> link (rmcp or LiteMCP) -> live (state, tools, calls) -> ToolSource
//! socket   -> endpoint-+
//! ```

mod agent;
mod builtin;
mod cameras;
mod connected_source;
mod connection;
mod elicitation;
mod endpoint;
mod jsonrpc_repair;
mod link;
mod listing;
pub mod litemcp;
mod mapping;
mod refresh_loop;
mod registry;
mod remote_instance;
mod server_connection;
mod servers;
mod settings;
mod signed_tokens;
mod source_overrides;
mod stdio_process;

use std::sync::Arc;

use hearken_actors::actors::pipeline::StyleLookup;
use hearken_actors::dialogue::{ConversationStyle, SharedStyle};
use hearken_actors::ports::ToolSource;
use hearken_actors::tools::SourceLookup;
use hearken_proto::ids::DeviceId;
use serde::Serialize;

use agent::AgentTools;
pub use builtin::{Builtin, BuiltinError, BuiltinSettings, BuiltinTool};
pub use cameras::Cameras;
pub use connected_source::{Origin, SourceKind, SourceReport, SourceState, ToolReport};
pub use endpoint::{AdmittedClient, Endpoint, Full};
pub use registry::{
    ChangeError, DeviceToolsShown, Registry, ServerShown, SessionToolsShown, SourceOfDevice,
};
use remote_instance::RemoteInstanceSource;
pub use server_connection::Environment;
pub use servers::Servers;
pub use settings::{ToolProtocol, ToolServer, ToolServerError};
pub use signed_tokens::{AgentTokens, MAX_AGENT_BYTES, TokenReadError, VisionTokens};
use source_overrides::{Choice, Choices};

/// The agent whose tool clients a device has for which no other was chosen.
pub const DEFAULT_AGENT: &str = "default";

/// Every source of tools outside devices; clones show the same.
#[derive(Clone)]
pub struct Sources {
    builtin: Builtin,
    servers: Arc<Servers>,
    endpoint: Endpoint,
    overrides: Choices,
}

/// What is known of the tools of one agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inventory {
    /// Its sources: the built-in one first, then remote servers, those that are off among them,
    /// then those that dialled in, here or at other instances of the server.
    pub sources: Vec<SourceReport>,
}

impl Sources {
    /// The built-in tools, these remote servers, and whoever dials in.
    pub fn new(builtin: Builtin, servers: Servers, endpoint: Endpoint) -> Self {
        let overrides = Choices::default();
        let all = Self { builtin, servers: Arc::new(servers), endpoint, overrides };
        all.reserve();
        all
    }

    /// Keeps tool clients' names apart from all others.
    fn reserve(&self) {
        let mut names = self.servers.names();
        names.extend(settings::RESERVED.map(str::to_owned));
        self.endpoint.reserve(names);
    }

    /// The sources of a device's conversation, less those that it goes without: the built-in
    /// tools, each remote server that is for it, and one source for all tool clients of its
    /// agent, who come and go behind it.
    fn of_conversation(&self, device: &DeviceId, choice: &Choice) -> Vec<Arc<dyn ToolSource>> {
        let mut all: Vec<Arc<dyn ToolSource>> = Vec::new();
        if !self.builtin.is_empty() {
            all.push(Arc::new(self.builtin.clone()));
        }
        all.extend(self.servers.sources(Some(device)).into_iter().map(|s| Arc::new(s) as _));
        let clients = AgentTools::new(self.endpoint.clone(), &choice.agent, &choice.off);
        all.push(Arc::new(clients));
        all.retain(|source| !choice.is_off(source.name()));
        all
    }

    /// The sources of a conversation without a device, as they are now: the built-in tools with
    /// those that change how this session is talked to, the remote servers that are for everybody,
    /// and the tool clients of the default agent.
    pub fn conversation(&self, session_id: &str, style: &SharedStyle) -> Vec<Arc<dyn ToolSource>> {
        let builtin = self.builtin.for_conversation(session_id, style);
        let mut all: Vec<Arc<dyn ToolSource>> = Vec::new();
        if !builtin.is_empty() {
            all.push(Arc::new(builtin));
        }
        all.extend(self.servers.sources(None).into_iter().map(|s| Arc::new(s) as _));
        all.push(Arc::new(AgentTools::new(self.endpoint.clone(), DEFAULT_AGENT, &[])));
        all
    }

    /// One of an agent's sources, by the name that its report gives.
    pub fn named(&self, agent: &str, name: &str) -> Option<Arc<dyn ToolSource>> {
        if name == builtin::NAME {
            return Some(Arc::new(self.builtin.clone()));
        }
        if let Some(remote) = self.servers.named(name) {
            return Some(Arc::new(remote));
        }
        let clients = self.endpoint.sources(agent);
        if let Some(here) = clients.into_iter().find(|s| s.name() == name) {
            return Some(Arc::new(here));
        }
        let elsewhere = self.endpoint.elsewhere(agent).into_iter().find(|s| s.name() == name)?;
        Some(Arc::new(elsewhere))
    }

    /// The tools of this server itself.
    pub fn builtin(&self) -> &Builtin {
        &self.builtin
    }

    /// Where tool clients dial in.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// What gives each conversation its sources as they are now; it waits for nothing.
    pub fn lookup(&self) -> SourceLookup {
        let all = self.clone();
        Arc::new(move |device, session| {
            let (sources, running) = (all.clone(), all.overrides.begin(device, session));
            Arc::new(move || match running.choice() {
                Some((device, choice)) => sources.of_conversation(&device, &choice),
                None => Vec::new(),
            })
        })
    }

    /// What tells how each device is talked to as it is now; it waits for nothing.
    pub fn styles(&self) -> StyleLookup {
        let overrides = self.overrides.clone();
        Arc::new(move |device| {
            let system_prompt = overrides.of_device(device).system_prompt.clone();
            ConversationStyle { system_prompt, ..ConversationStyle::default() }
        })
    }

    /// Where an agent's sources stand.
    pub fn inventory(&self, agent: &str) -> Inventory {
        let mut sources = Vec::new();
        if !self.builtin.is_empty() {
            sources.push(self.builtin.report());
        }
        sources.extend(self.servers.reports().into_iter().map(|r| r.source));
        sources.extend(
            self.endpoint.sources(agent).iter().map(connected_source::ConnectedSource::report),
        );
        sources.extend(self.endpoint.elsewhere(agent).iter().map(RemoteInstanceSource::report));
        Inventory { sources }
    }

    /// Ends the remote servers' connections and children, and waits for them.
    pub async fn stop(&self) {
        self.servers.stop().await;
    }
}
