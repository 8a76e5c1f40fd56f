//! Source that combines all tool clients of one agent: clients may come and go during a
//! conversation while its list of sources stays unchanged. Not for a single tool client.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_ports::{
    Provenance, Tool, ToolCall, ToolClients as _, ToolError, ToolOutput, ToolSource, source_names,
};

use super::endpoint::Endpoint;
use super::report::SourceKind;

/// Tool clients of an agent. A tool has its own name, unless an earlier client has a tool of the
/// same name: then it is prefixed with the name of its client (`calc-2.add`). If an earlier client
/// has a tool of that name, too, it is left out.
///
/// The names are those of the first listing: a client that connects or disconnects afterwards
/// changes the meaning of none. Each offer is made with a new instance.
pub(super) struct AgentTools {
    endpoint: Endpoint,
    agent: String,
    /// Names and keys of excluded clients.
    off: Vec<String>,
    listing: OnceLock<Listing>,
}

impl AgentTools {
    pub(super) fn new(endpoint: Endpoint, agent: &str, off: &[String]) -> Self {
        let listing = OnceLock::new();
        Self { endpoint, agent: agent.to_owned(), off: off.to_vec(), listing }
    }

    /// Returns the clients of this instance first, then those of other instances.
    fn clients(&self) -> Vec<Arc<dyn ToolSource>> {
        let here = self.endpoint.sources(&self.agent).into_iter();
        let here = here.filter(|client| !self.is_off(client.name(), client.key()));
        let mut clients: Vec<Arc<dyn ToolSource>> =
            here.map(|source| Arc::new(source) as _).collect();
        let remote = self.endpoint.remote(&self.agent).into_iter();
        let remote = remote.filter(|client| !self.is_off(client.name(), client.key().as_deref()));
        clients.extend(remote.map(|client| Arc::new(client) as _));
        clients
    }

    /// Reports whether a client is excluded.
    fn is_off(&self, name: &str, key: Option<&str>) -> bool {
        self.off.iter().any(|off| off == name || Some(off.as_str()) == key)
    }

    /// Returns the first listing.
    fn listing(&self) -> &Listing {
        self.listing.get_or_init(|| Listing::of(self.clients()))
    }
}

/// Tools of an agent's clients, under their names in the list.
struct Listing {
    clients: Vec<ListedClient>,
    tools: Arc<[Tool]>,
    /// Client of each listed tool, and the index of the tool in the client's own list.
    places: HashMap<String, Place>,
}

struct ListedClient {
    source: Arc<dyn ToolSource>,
    tools: Arc<[Tool]>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    client: usize,
    tool: usize,
}

impl Listing {
    /// Lists the tools of these clients in one pass.
    fn of(clients: Vec<Arc<dyn ToolSource>>) -> Self {
        let listed = |source: Arc<dyn ToolSource>| ListedClient { tools: source.tools(), source };
        let clients: Vec<ListedClient> = clients.into_iter().map(listed).collect();
        let mut tools: Vec<Tool> = Vec::new();
        let mut places = HashMap::new();
        for (client, ListedClient { source, tools: own }) in clients.iter().enumerate() {
            for (number, tool) in own.iter().enumerate() {
                let mut tool = tool.clone();
                if places.contains_key(&tool.name) {
                    tool.name = format!("{}.{}", source.name(), tool.name);
                }
                // A name belongs to the first client that has it: with another definition, the call
                // of its tool would be decided and checked by that of a later client.
                if let Entry::Vacant(vacant) = places.entry(tool.name.clone()) {
                    vacant.insert(Place { client, tool: number });
                    tools.push(tool);
                }
            }
        }
        Self { clients, tools: tools.into(), places }
    }

    /// Returns the client and the own name of a tool, by its name in the list, or by its own name
    /// with the prefix of its client, under which another listing may have it.
    fn find(&self, name: &str) -> Option<(&dyn ToolSource, &str)> {
        let Some(Place { client, tool }) = self.places.get(name) else {
            return self.clients.iter().find_map(|client| client.find_prefixed(name));
        };
        let client = self.clients.get(*client)?;
        Some((&*client.source, &client.tools.get(*tool)?.name))
    }
}

impl ListedClient {
    /// Returns the client and the own name of a tool, if its name has the prefix of this client.
    fn find_prefixed(&self, name: &str) -> Option<(&dyn ToolSource, &str)> {
        let own = name.strip_prefix(self.source.name())?.strip_prefix('.')?;
        let tool = self.tools.iter().find(|tool| tool.name == own)?;
        Some((&*self.source, &tool.name))
    }
}

impl ToolSource for AgentTools {
    fn name(&self) -> &str {
        source_names::ENDPOINT
    }

    fn kind(&self) -> &'static str {
        SourceKind::Endpoint.label()
    }

    fn without(&self, names: &[String]) -> Option<Arc<dyn ToolSource>> {
        let off = [&self.off[..], names].concat();
        Some(Arc::new(Self::new(self.endpoint.clone(), &self.agent, &off)))
    }

    fn provenance(&self, tool: &str) -> Provenance {
        self.listing().find(tool).map_or_else(
            || Provenance::untrusted(source_names::ENDPOINT, tool),
            |(client, own)| client.provenance(own),
        )
    }

    fn tools(&self) -> Arc<[Tool]> {
        Arc::clone(&self.listing().tools)
    }

    fn connection_of(&self, tool: &str) -> u64 {
        self.listing().find(tool).map_or(0, |(client, own)| client.connection_of(own))
    }

    fn call(&self, mut call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        match self.listing().find(&call.name) {
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
    use std::collections::HashSet;

    use futures_util::FutureExt as _;
    use hearken_ports::RemoteToolClient;
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::endpoint::AdmittedClient;
    use super::super::signed_tokens::ToolClientToken;
    use super::*;

    /// Tool client that answers each call with its own name and that of the tool.
    struct Client {
        name: String,
        connection: u64,
        tools: Arc<[Tool]>,
    }

    impl ToolSource for Client {
        fn name(&self) -> &str {
            &self.name
        }

        fn tools(&self) -> Arc<[Tool]> {
            Arc::clone(&self.tools)
        }

        fn connection_of(&self, _tool: &str) -> u64 {
            self.connection
        }

        fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
            let answer = ToolOutput::text(format!("{}/{}", self.name, call.name));
            Box::pin(std::future::ready(Ok(answer)))
        }
    }

    fn client(name: &str, connection: u64, tools: &[&str]) -> Arc<dyn ToolSource> {
        let tool = |own: &&str| Tool {
            name: (*own).into(),
            description: format!("{name}/{own}"),
            parameters: json!({}),
            finishes: false,
            destructive: false,
        };
        let tools = tools.iter().map(tool).collect();
        Arc::new(Client { name: name.into(), connection, tools })
    }

    /// The clients of an agent, once they are listed.
    fn agent(clients: Vec<Arc<dyn ToolSource>>) -> AgentTools {
        let listing = OnceLock::from(Listing::of(clients));
        let endpoint = Endpoint::new(Duration::from_secs(1));
        AgentTools { listing, ..AgentTools::new(endpoint, "a", &[]) }
    }

    fn called(source: &AgentTools, name: &str) -> Result<ToolOutput, ToolError> {
        let arguments = serde_json::Map::new();
        let call = ToolCall { id: "1".into(), name: name.into(), arguments };
        source.call(call).now_or_never().unwrap()
    }

    #[test]
    fn each_tool_is_found_at_the_client_that_its_name_belongs_to() {
        let source = agent(vec![
            client("a", 1, &["add", "b.add", "x"]),
            client("b", 2, &["add", "c.add"]),
            client("c", 3, &["add", "x"]),
        ]);
        let tools = source.tools();
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        // `add` of `b` and `c` is left out: a client before them has `b.add`, and `c.add`.
        assert_eq!(names, ["add", "b.add", "x", "c.add", "c.x"]);
        for (name, connection, answer) in [
            ("add", 1, "a/add"),
            ("b.add", 1, "a/b.add"),
            ("c.add", 2, "b/c.add"),
            ("c.x", 3, "c/x"),
            // Names of other listings.
            ("a.x", 1, "a/x"),
            ("b.c.add", 2, "b/c.add"),
        ] {
            assert_eq!(source.connection_of(name), connection, "{name}");
            assert_eq!(called(&source, name), Ok(ToolOutput::text(answer)));
        }
        for name in ["y", "b.x", "d.add", "a."] {
            assert_eq!(source.connection_of(name), 0, "{name}");
            assert_eq!(called(&source, name), Err(ToolError::Unknown(name.into())));
        }
    }

    /// Tool client of another instance, with the token of this serial.
    fn remote(name: &str, serial: &str) -> RemoteToolClient {
        RemoteToolClient {
            agent: "a".into(),
            name: name.into(),
            serial: serial.into(),
            connection: 9,
            tools: Arc::default(),
            timeout: Duration::from_secs(1),
            call: Arc::new(|call: ToolCall| -> BoxFuture<'static, _> {
                Box::pin(std::future::ready(Err(ToolError::Unknown(call.name))))
            }),
        }
    }

    #[test]
    fn a_token_excludes_its_clients_whatever_their_names() {
        let endpoint = Endpoint::new(Duration::from_secs(1));
        let dial = |serial: &str, name: &str| -> AdmittedClient {
            let token = ToolClientToken { agent: "a".into(), serial: serial.into() };
            let admitted = endpoint.admit(&token).unwrap();
            endpoint.register(&admitted, name);
            admitted
        };
        let _here = [dial("1", "calc"), dial("1", "token:2"), dial("2", "lamp")];
        endpoint.set_remote(vec![remote("calc", "1"), remote("far", "3"), remote("old", "")]);
        for (off, left) in [
            (&[][..], "calc token:2 lamp calc-2 far old"),
            (&["calc"], "token:2 lamp calc-2 far old"),
            (&["token:1"], "lamp far old"),
            (&["token:1", "token:3"], "lamp old"),
            // A client of another token has this name.
            (&["token:2"], "calc calc-2 far old"),
            (&["token:"], "calc token:2 lamp calc-2 far old"),
        ] {
            let off: Vec<String> = off.iter().map(|name| (*name).to_owned()).collect();
            let clients = AgentTools::new(endpoint.clone(), "a", &off).clients();
            let names: Vec<&str> = clients.iter().map(|client| client.name()).collect();
            assert_eq!(names.join(" "), left, "{off:?}");
        }
        let clients = AgentTools::new(endpoint.clone(), "a", &[]).clients();
        let keys: Vec<_> = clients.iter().map(|client| client.provenance("add").key).collect();
        let of = |serial: &str| Some(format!("token:{serial}"));
        assert_eq!(keys, [of("1"), of("1"), of("2"), of("1"), of("3"), None]);
    }

    #[test]
    fn a_listing_keeps_its_clients_while_others_come_and_go() {
        let source = agent(vec![client("window", 1, &["open"]), client("garage", 2, &["open"])]);
        // The endpoint of this source has no client any more.
        assert!(source.clients().is_empty());
        assert_eq!(called(&source, "open"), Ok(ToolOutput::text("window/open")));
        assert_eq!(called(&source, "garage.open"), Ok(ToolOutput::text("garage/open")));
    }

    proptest! {
        #[test]
        fn the_listed_definition_is_that_of_the_called_tool(
            lists in proptest::collection::vec(
                proptest::collection::hash_set("([ab][.]){0,2}[tu]", 0..5), 0..4),
        ) {
            let named = ["a", "b", "a.b", "b.a"];
            let clients = lists.iter().zip(named).enumerate().map(|(number, (tools, name))| {
                let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
                client(name, 1 + number as u64, &tools)
            });
            let source = agent(clients.collect());
            let tools = source.tools();
            let names: HashSet<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            prop_assert_eq!(names.len(), tools.len());
            for tool in &*tools {
                let answer = ToolOutput::text(tool.description.clone());
                prop_assert_eq!(called(&source, &tool.name), Ok(answer), "{}", tool.name);
            }
        }
    }
}
