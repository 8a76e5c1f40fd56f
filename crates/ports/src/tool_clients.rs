//! Port to connected tool clients: those of this instance, which other instances call, and those of
//! other instances, which are offered here. Not for one client's tools: see
//! [`ToolSource`](super::ToolSource).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::{Tool, ToolCall, ToolError, ToolOutput};

/// Function that calls a tool on another instance.
pub type RemoteCall =
    Arc<dyn Fn(ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync>;

/// Tool client that is connected to another instance. Clones are equal.
#[derive(Clone)]
pub struct RemoteToolClient {
    /// Agent that it serves.
    pub agent: String,
    /// Name of the client on its instance.
    pub name: String,
    /// Serial of its token; empty if its instance, of an earlier version, does not announce it.
    pub serial: String,
    /// Number of its connection, unique among all instances. A client that connects again has
    /// another number, even under the same name.
    pub connection: u64,
    /// Tools of the client.
    pub tools: Arc<[Tool]>,
    /// Maximum duration of a call.
    pub timeout: Duration,
    /// Function that calls one of its tools.
    pub call: RemoteCall,
}

/// Tool client of this instance, as reported to other instances.
pub struct LocalToolClient {
    /// Agent that it serves.
    pub agent: String,
    /// Name of the client.
    pub name: String,
    /// Serial of its token.
    pub serial: String,
    /// Number of its connection, unique among all instances.
    pub connection: u64,
    /// Tools of the client.
    pub tools: Arc<[Tool]>,
}

/// Connected tool clients.
// A port, so that `cluster` and `tool-sources` do not depend on each other. Decision 0003.
pub trait ToolClients: Send + Sync {
    /// Lists the tool clients of this instance.
    fn local(&self) -> Vec<LocalToolClient>;

    /// Returns a receiver that is notified when a tool client of this instance connects,
    /// disconnects or changes its tools.
    fn changes(&self) -> watch::Receiver<()>;

    /// Replaces the known tool clients of all other instances.
    fn set_remote(&self, clients: Vec<RemoteToolClient>);

    /// Returns the maximum duration of a call.
    fn call_timeout(&self) -> Duration;

    /// Calls a tool of a tool client of this instance, if the client has this name and its
    /// connection this number; 0 stands for any connection.
    fn call(
        &self,
        agent: String,
        client: String,
        connection: u64,
        call: ToolCall,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>>;
}
