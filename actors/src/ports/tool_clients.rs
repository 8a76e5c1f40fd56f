//! The port to tool clients that have dialled in: those of this instance, for the others to call,
//! and those of the others, to be offered here. Not for one client's tools: see
//! [`ToolSource`](super::ToolSource).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::{Tool, ToolCall, ToolError, ToolOutput};

/// Calls a tool at its instance.
pub type RemoteCall =
    Arc<dyn Fn(ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync>;

/// A tool client that is connected to another instance; clones are the same.
#[derive(Clone)]
pub struct RemoteToolClient {
    /// The agent that it serves.
    pub agent: String,
    /// Its name there.
    pub name: String,
    /// Its tools.
    pub tools: Arc<[Tool]>,
    /// Longest time for a call.
    pub timeout: Duration,
    /// Calls one of its tools.
    pub call: RemoteCall,
}

/// A tool client of this instance, as the others are told of it.
pub struct LocalToolClient {
    /// The agent that it serves.
    pub agent: String,
    /// Its name.
    pub name: String,
    /// Its tools.
    pub tools: Arc<[Tool]>,
}

/// The tool clients that have dialled in.
pub trait ToolClients: Send + Sync {
    /// Lists the tool clients of this instance.
    fn local(&self) -> Vec<LocalToolClient>;

    /// Tells whenever a tool client of this instance comes or goes, or has other tools.
    fn changes(&self) -> watch::Receiver<()>;

    /// Takes the tool clients of all other instances in place of those known before.
    fn set_remote(&self, clients: Vec<RemoteToolClient>);

    /// Longest wait for a call.
    fn call_timeout(&self) -> Duration;

    /// Calls a tool of a tool client of this instance.
    fn call(
        &self,
        agent: String,
        client: String,
        call: ToolCall,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>>;
}
