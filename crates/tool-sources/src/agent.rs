//! Source that combines all tool clients of one agent: clients may come and go during a
//! conversation while its list of sources stays unchanged. Not for a single tool client.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_ports::{
    Provenance, Tool, ToolCall, ToolClients as _, ToolError, ToolOutput, ToolSource,
};

use super::endpoint::Endpoint;
use super::report::SourceKind;
use super::settings::ENDPOINT;

/// Tool clients of an agent. A tool has its own name, unless an earlier client has a tool of the
/// same name: then it is prefixed with the name of its client (`calc-2.add`).
pub(super) struct AgentTools {
    endpoint: Endpoint,
    agent: String,
    /// Names of excluded clients.
    off: Vec<String>,
}

impl AgentTools {
    pub(super) fn new(endpoint: Endpoint, agent: &str, off: &[String]) -> Self {
        Self { endpoint, agent: agent.to_owned(), off: off.to_vec() }
    }

    /// Returns the clients of this instance first, then those of other instances.
    fn clients(&self) -> Vec<Arc<dyn ToolSource>> {
        let here = self.endpoint.sources(&self.agent).into_iter();
        let mut clients: Vec<Arc<dyn ToolSource>> =
            here.map(|source| Arc::new(source) as _).collect();
        let remote = self.endpoint.remote(&self.agent).into_iter();
        clients.extend(remote.map(|client| Arc::new(client) as _));
        clients.retain(|client| !self.off.iter().any(|name| name == client.name()));
        clients
    }
}

/// Returns every tool of these clients under its name in the list, with its client and its own
/// name.
fn all(clients: &[Arc<dyn ToolSource>]) -> Vec<(Tool, &dyn ToolSource, String)> {
    let mut named: Vec<(Tool, &dyn ToolSource, String)> = Vec::new();
    for client in clients {
        let client = &**client;
        for tool in client.tools().iter() {
            let own = tool.name.clone();
            let mut tool = tool.clone();
            if named.iter().any(|(t, ..)| t.name == own) {
                tool.name = format!("{}.{own}", client.name());
            }
            named.push((tool, client, own));
        }
    }
    named
}

impl ToolSource for AgentTools {
    fn name(&self) -> &str {
        ENDPOINT
    }

    fn kind(&self) -> &'static str {
        SourceKind::Endpoint.label()
    }

    fn without(&self, names: &[String]) -> Option<Arc<dyn ToolSource>> {
        let off = [&self.off[..], names].concat();
        Some(Arc::new(Self::new(self.endpoint.clone(), &self.agent, &off)))
    }

    fn provenance(&self, tool: &str) -> Provenance {
        let clients = self.clients();
        let tools = all(&clients);
        let found = tools.iter().find(|(known, ..)| known.name == tool);
        found.map_or_else(
            || Provenance::untrusted(ENDPOINT, tool),
            |(_, client, own)| client.provenance(own),
        )
    }

    fn tools(&self) -> Arc<[Tool]> {
        let clients = self.clients();
        all(&clients).into_iter().map(|(tool, ..)| tool).collect()
    }

    fn call(&self, mut call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let clients = self.clients();
        // Another client may have connected or disconnected since the model received the name.
        let full = |client: &dyn ToolSource, own: &str| format!("{}.{own}", client.name());
        let tools = all(&clients);
        let found = tools
            .iter()
            .find(|(tool, ..)| tool.name == call.name)
            .or_else(|| tools.iter().find(|(_, client, own)| full(*client, own) == call.name));
        match found {
            Some((_, client, own)) => {
                call.name.clone_from(own);
                client.call(call)
            }
            None => Box::pin(std::future::ready(Err(ToolError::Unknown(call.name)))),
        }
    }

    fn timeout(&self) -> Duration {
        self.endpoint.call_timeout()
    }
}
