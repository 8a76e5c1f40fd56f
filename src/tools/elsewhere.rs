//! A tool client that dialled in at another instance of the server, as a source here. Not for how
//! instances ask each other.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_actors::ports::{Tool, ToolCall, ToolError, ToolOutput, ToolSource};

use super::live::{Origin, SourceKind, SourceReport, SourceState, ToolReport};

/// Calls a tool at its instance.
pub type CallElsewhere =
    Arc<dyn Fn(ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync>;

/// A tool client of another instance; clones are the same.
#[derive(Clone)]
pub struct ClientElsewhere {
    agent: String,
    name: String,
    tools: Arc<[Tool]>,
    timeout: Duration,
    call: CallElsewhere,
}

impl ClientElsewhere {
    /// One with these tools, whose calls may take this long.
    pub fn new(
        agent: String,
        name: String,
        tools: Arc<[Tool]>,
        timeout: Duration,
        call: CallElsewhere,
    ) -> Self {
        Self { agent, name, tools, timeout, call }
    }

    /// The agent whose tool client it is.
    pub(super) fn agent(&self) -> &str {
        &self.agent
    }

    /// The same under another name.
    pub(super) fn named(&self, name: String) -> Self {
        Self { name, ..self.clone() }
    }

    /// What is known of it.
    pub(super) fn report(&self) -> SourceReport {
        SourceReport {
            name: self.name.clone(),
            kind: SourceKind::Endpoint,
            origin: Origin::Endpoint,
            devices: Vec::new(),
            state: SourceState::Ready,
            protocol: String::new(),
            connections: 1,
            tools: self.tools.iter().map(ToolReport::of).collect(),
        }
    }
}

impl ToolSource for ClientElsewhere {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        SourceKind::Endpoint.word()
    }

    fn tools(&self) -> Arc<[Tool]> {
        Arc::clone(&self.tools)
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let (work, within) = ((self.call)(call), self.timeout);
        Box::pin(async move {
            let answered = tokio::time::timeout(within, work).await;
            answered.unwrap_or(Err(ToolError::Timeout(within)))
        })
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }
}
