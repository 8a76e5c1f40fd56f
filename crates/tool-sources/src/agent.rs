//! Source that combines all tool clients of one agent: clients may come and go during a
//! conversation while its list of sources stays unchanged. Not for a single tool client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
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
    /// Last listing: a list of many tools is asked about each of them.
    last: Mutex<Option<Arc<Listing>>>,
}

impl AgentTools {
    pub(super) fn new(endpoint: Endpoint, agent: &str, off: &[String]) -> Self {
        Self { endpoint, agent: agent.to_owned(), off: off.to_vec(), last: Mutex::default() }
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

    /// Lists the tools of these clients.
    fn listing(&self, clients: &[Arc<dyn ToolSource>]) -> Arc<Listing> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(listing) if listing.is_of(clients) => Arc::clone(listing),
            _ => Arc::clone(last.insert(Arc::new(Listing::of(clients)))),
        }
    }
}

/// Tools of an agent's clients, under their names in the list.
struct Listing {
    /// Tools of each client.
    lists: Vec<Arc<[Tool]>>,
    /// Names of the clients, in the same order.
    names: Vec<String>,
    tools: Arc<[Tool]>,
    /// Client of each listed tool, and the index of the tool in the client's own list.
    places: HashMap<String, Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    client: usize,
    tool: usize,
}

impl Listing {
    /// Lists the tools of these clients in one pass.
    fn of(clients: &[Arc<dyn ToolSource>]) -> Self {
        let lists: Vec<Arc<[Tool]>> = clients.iter().map(|client| client.tools()).collect();
        let names: Vec<String> = clients.iter().map(|client| client.name().to_owned()).collect();
        let mut listed: Vec<Tool> = Vec::new();
        let mut places = HashMap::new();
        for (client, (list, source)) in lists.iter().zip(&names).enumerate() {
            for (number, tool) in list.iter().enumerate() {
                let mut tool = tool.clone();
                if places.contains_key(&tool.name) {
                    tool.name = format!("{source}.{}", tool.name);
                }
                // Of several tools with the same name, the first is called.
                places.entry(tool.name.clone()).or_insert(Place { client, tool: number });
                listed.push(tool);
            }
        }
        Self { lists, names, tools: listed.into(), places }
    }

    /// Returns true if these clients still have these tools.
    fn is_of(&self, clients: &[Arc<dyn ToolSource>]) -> bool {
        let known = self.lists.iter().zip(&self.names);
        clients.len() == self.lists.len()
            && clients.iter().zip(known).all(|(client, (list, name))| {
                Arc::ptr_eq(&client.tools(), list) && client.name() == name
            })
    }

    /// Returns the client and the own name of a listed tool.
    fn find(&self, name: &str) -> Option<(usize, &str)> {
        let Place { client, tool } = *self.places.get(name)?;
        Some((client, &self.lists.get(client)?.get(tool)?.name))
    }

    /// Returns the client and the own name of a tool whose name has the prefix of its client.
    fn find_prefixed(&self, name: &str) -> Option<(usize, &str)> {
        let of_client = |(client, source): (usize, &String)| {
            let own = name.strip_prefix(source.as_str())?.strip_prefix('.')?;
            let tool = self.lists.get(client)?.iter().find(|tool| tool.name == own)?;
            Some((client, tool.name.as_str()))
        };
        self.names.iter().enumerate().find_map(of_client)
    }
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
        let listing = self.listing(&clients);
        let found = listing.find(tool).and_then(|(at, own)| Some((clients.get(at)?, own)));
        found.map_or_else(
            || Provenance::untrusted(ENDPOINT, tool),
            |(client, own)| client.provenance(own),
        )
    }

    fn tools(&self) -> Arc<[Tool]> {
        Arc::clone(&self.listing(&self.clients()).tools)
    }

    fn call(&self, mut call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let clients = self.clients();
        let listing = self.listing(&clients);
        // Another client may have connected or disconnected since the model received the name.
        let found = listing.find(&call.name).or_else(|| listing.find_prefixed(&call.name));
        match found.and_then(|(at, own)| Some((clients.get(at)?, own))) {
            Some((client, own)) => {
                own.clone_into(&mut call.name);
                client.call(call)
            }
            None => Box::pin(std::future::ready(Err(ToolError::Unknown(call.name)))),
        }
    }

    fn timeout(&self) -> Duration {
        self.endpoint.call_timeout()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Client {
        name: &'static str,
        tools: Arc<[Tool]>,
    }

    impl ToolSource for Client {
        fn name(&self) -> &str {
            self.name
        }

        fn kind(&self) -> &'static str {
            "endpoint"
        }

        fn tools(&self) -> Arc<[Tool]> {
            Arc::clone(&self.tools)
        }

        fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
            Box::pin(std::future::ready(Err(ToolError::Unknown(call.name))))
        }

        fn timeout(&self) -> Duration {
            Duration::from_secs(1)
        }
    }

    fn client(name: &'static str, tools: &[&str]) -> Arc<dyn ToolSource> {
        let tool = |name: &&str| Tool {
            name: (*name).into(),
            description: String::new(),
            parameters: json!({}),
            finishes: false,
            destructive: false,
        };
        let tools = tools.iter().map(tool).collect();
        Arc::new(Client { name, tools })
    }

    #[test]
    fn each_tool_is_found_at_the_client_that_its_name_belongs_to() {
        let clients = [
            client("a", &["add", "b.add", "x"]),
            client("b", &["add", "c.add"]),
            client("c", &["add", "x"]),
        ];
        let listing = Listing::of(&clients);
        let names: Vec<&str> = listing.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["add", "b.add", "x", "b.add", "c.add", "c.add", "c.x"]);
        for (name, found) in [
            ("add", Some((0, "add"))),
            ("b.add", Some((0, "b.add"))),
            ("c.add", Some((1, "c.add"))),
            ("c.x", Some((2, "x"))),
            ("y", None),
        ] {
            assert_eq!(listing.find(name), found, "{name}");
        }
        assert_eq!(listing.find_prefixed("a.x"), Some((0, "x")));
        assert_eq!(listing.find_prefixed("b.x"), None);
    }

    #[test]
    fn a_listing_is_built_again_only_if_the_clients_or_their_tools_change() {
        let source = AgentTools::new(Endpoint::new(Duration::from_secs(1)), "a", &[]);
        let clients = [client("a", &["add"]), client("b", &["add"])];
        let first = source.listing(&clients);
        assert!(Arc::ptr_eq(&first, &source.listing(&clients)));
        for other in [
            vec![Arc::clone(&clients[0])],
            vec![Arc::clone(&clients[0]), client("b", &["add"])],
            vec![Arc::clone(&clients[1]), Arc::clone(&clients[0])],
        ] {
            assert!(!first.is_of(&other));
            assert!(!Arc::ptr_eq(&first, &source.listing(&other)));
        }
    }
}
