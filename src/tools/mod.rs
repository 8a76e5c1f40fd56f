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
mod attend;
mod builtin;
mod child;
mod connection;
mod endpoint;
mod frames;
mod link;
mod listing;
pub mod litemcp;
mod live;
mod mapping;
mod questions;
mod remote;
mod seal;
mod settings;
mod vision;

use std::sync::Arc;

use hearken_actors::ports::ToolSource;
use hearken_actors::tools::SourceDesk;
use serde::Serialize;

use agent::AgentTools;
pub use builtin::{Builtin, BuiltinError, BuiltinSettings, BuiltinTool};
pub use endpoint::{Endpoint, Full, Guest};
pub use live::{SourceKind, SourceReport, SourceState, ToolReport};
pub use remote::{Environment, Remotes};
pub use seal::{AgentTokens, SealError, VisionTokens};
pub use settings::{ToolProtocol, ToolServer, ToolServerError};
pub use vision::{Cameras, Vision, VisionError, VisionSettings};

/// The agent whose tools every conversation has.
pub const DEFAULT_AGENT: &str = "default";

/// Every source of tools outside devices; clones show the same.
#[derive(Clone)]
pub struct Sources {
    builtin: Builtin,
    remotes: Arc<Remotes>,
    endpoint: Endpoint,
}

/// What is known of the tools of one agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inventory {
    /// Its sources: the built-in one first, then those of the configuration, then those that
    /// dialled in.
    pub sources: Vec<SourceReport>,
}

impl Sources {
    /// The built-in tools, these remote servers, and whoever dials in.
    pub fn new(builtin: Builtin, remotes: Remotes, endpoint: Endpoint) -> Self {
        endpoint.reserve(remotes.sources().iter().map(|s| s.name().to_owned()).collect());
        Self { builtin, remotes: Arc::new(remotes), endpoint }
    }

    /// The sources of an agent: the built-in tools, each remote server, and one for all tool
    /// clients, who come and go behind it.
    pub fn of_agent(&self, agent: &str) -> Vec<Arc<dyn ToolSource>> {
        let mut all: Vec<Arc<dyn ToolSource>> = Vec::new();
        if !self.builtin.is_empty() {
            all.push(Arc::new(self.builtin.clone()));
        }
        all.extend(self.remotes.sources().iter().map(|s| Arc::new(s.clone()) as _));
        all.push(Arc::new(AgentTools::new(self.endpoint.clone(), agent)));
        all
    }

    /// One of an agent's sources, by the name that its report gives.
    pub fn named(&self, agent: &str, name: &str) -> Option<Arc<dyn ToolSource>> {
        if name == builtin::NAME {
            return Some(Arc::new(self.builtin.clone()));
        }
        let mut all = self.remotes.sources().to_vec();
        all.extend(self.endpoint.sources(agent));
        let found = all.into_iter().find(|s| s.name() == name)?;
        Some(Arc::new(found))
    }

    /// The tools of this server itself.
    pub fn builtin(&self) -> &Builtin {
        &self.builtin
    }

    /// Where tool clients dial in.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// What gives each device's conversation the sources of an agent.
    pub fn desk(&self, agent: &str) -> SourceDesk {
        let (sources, agent) = (self.clone(), agent.to_owned());
        Arc::new(move |_| sources.of_agent(&agent))
    }

    /// Where an agent's sources stand.
    pub fn inventory(&self, agent: &str) -> Inventory {
        let mut sources = Vec::new();
        if !self.builtin.is_empty() {
            sources.push(self.builtin.report());
        }
        sources.extend(self.remotes.sources().iter().map(live::Live::report));
        sources.extend(self.endpoint.sources(agent).iter().map(live::Live::report));
        Inventory { sources }
    }

    /// Ends the remote servers' connections and children, and waits for them.
    pub async fn stop(&self) {
        self.remotes.stop().await;
    }
}
