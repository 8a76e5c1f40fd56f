//! Source for a tool client that is connected to another instance of the server. Not for the
//! communication between instances.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_actors::ports::{RemoteToolClient, Tool, ToolCall, ToolError, ToolOutput, ToolSource};

use super::connected_source::{Origin, SourceKind, SourceReport, SourceState, ToolReport};

/// Tool client of another instance; clones share it.
#[derive(Clone)]
pub(super) struct RemoteInstanceSource(RemoteToolClient);

impl RemoteInstanceSource {
    /// Creates the source of this tool client.
    pub(super) fn new(client: RemoteToolClient) -> Self {
        Self(client)
    }

    /// Returns the agent of the tool client.
    pub(super) fn agent(&self) -> &str {
        &self.0.agent
    }

    /// Returns this source under another name.
    pub(super) fn named(&self, name: String) -> Self {
        Self(RemoteToolClient { name, ..self.0.clone() })
    }

    /// Returns a report on the source.
    pub(super) fn report(&self) -> SourceReport {
        SourceReport {
            name: self.0.name.clone(),
            kind: SourceKind::Endpoint,
            origin: Origin::Endpoint,
            devices: Vec::new(),
            state: SourceState::Ready,
            protocol: String::new(),
            connections: 1,
            tools: self.0.tools.iter().map(ToolReport::from_tool).collect(),
        }
    }
}

impl ToolSource for RemoteInstanceSource {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn kind(&self) -> &'static str {
        SourceKind::Endpoint.label()
    }

    fn tools(&self) -> Arc<[Tool]> {
        Arc::clone(&self.0.tools)
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let (work, within) = ((self.0.call)(call), self.0.timeout);
        Box::pin(async move {
            let answered = tokio::time::timeout(within, work).await;
            answered.unwrap_or(Err(ToolError::Timeout(within)))
        })
    }

    fn timeout(&self) -> Duration {
        self.0.timeout
    }
}
