//! Source for a tool client that is connected to another instance of the server. Not for the
//! communication between instances.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_ports::{
    Provenance, RemoteToolClient, Tool, ToolCall, ToolError, ToolOutput, ToolSource, source_names,
};

use super::pins::SourcePins;
use super::report::{Origin, SourceKind, SourceReport, SourceState, ToolReport};
use super::signed_tokens::key_of_token;

/// Tool client of another instance; clones share it.
#[derive(Clone)]
pub(super) struct RemoteInstanceSource {
    client: RemoteToolClient,
    /// Pins under the name that the client has at its own instance, which creates them.
    pins: SourcePins,
}

impl RemoteInstanceSource {
    /// Creates the source of this tool client, with the pins of its definitions.
    pub(super) fn new(client: RemoteToolClient, pins: SourcePins) -> Self {
        Self { client, pins }
    }

    /// Returns the pins of its definitions.
    pub(super) fn pins(&self) -> &SourcePins {
        &self.pins
    }

    /// Reports whether a definition differs from that of its pin.
    fn is_changed(&self, tool: &Tool) -> bool {
        // A tool that is new at its instance is pinned there, and this instance learns of it soon;
        // one without a pin for lack of space counts as changed.
        self.pins.is_changed(tool).unwrap_or_else(|| self.pins.is_full())
    }

    /// Returns the agent of the tool client.
    pub(super) fn agent(&self) -> &str {
        &self.client.agent
    }

    /// Returns the name of the tool client that it cannot choose: see [`Provenance::key`].
    pub(super) fn key(&self) -> Option<String> {
        key_of_token(&self.client.serial)
    }

    /// Returns this source under another name.
    pub(super) fn named(&self, name: String) -> Self {
        let client = RemoteToolClient { name, ..self.client.clone() };
        Self { client, pins: self.pins.clone() }
    }

    /// Returns a report on the source.
    pub(super) fn report(&self) -> SourceReport {
        SourceReport {
            name: self.client.name.clone(),
            key: self.key(),
            kind: SourceKind::Endpoint,
            origin: Origin::Endpoint,
            devices: Vec::new(),
            state: SourceState::Ready,
            protocol: String::new(),
            connections: 1,
            usage: None,
            warning: None,
            tools: self
                .client
                .tools
                .iter()
                .map(|tool| ToolReport::from_tool(tool, self.is_changed(tool)))
                .collect(),
        }
    }
}

impl ToolSource for RemoteInstanceSource {
    fn name(&self) -> &str {
        &self.client.name
    }

    fn kind(&self) -> &'static str {
        SourceKind::Endpoint.label()
    }

    fn provenance(&self, tool: &str) -> Provenance {
        let found = self.client.tools.iter().find(|known| known.name == tool);
        let changed = found.is_some_and(|found| self.is_changed(found));
        let group = Some(source_names::ENDPOINT.to_owned());
        let key = self.key();
        Provenance { changed, group, key, ..Provenance::untrusted(&self.client.name, tool) }
    }

    fn tools(&self) -> Arc<[Tool]> {
        Arc::clone(&self.client.tools)
    }

    fn connection_of(&self, _tool: &str) -> u64 {
        self.client.connection
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let work = (self.client.call)(call);
        let within = self.client.timeout;
        Box::pin(async move {
            let answered = tokio::time::timeout(within, work).await;
            answered.unwrap_or(Err(ToolError::Timeout(within)))
        })
    }

    fn timeout(&self) -> Duration {
        self.client.timeout
    }
}
