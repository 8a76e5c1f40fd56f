//! Connection to a source over either protocol. Not for the protocols.

use std::sync::Arc;
use std::time::Duration;

use hearken_ports::{Tool, ToolCall, ToolOutput};

use super::connection::{CallFailed, Connection};
use super::litemcp::client::LiteMcpConnection;

/// Open connection; clones share it.
#[derive(Clone)]
pub(super) enum Link {
    /// MCP connection.
    Mcp(Connection),
    /// LiteMCP connection.
    LiteMcp(LiteMcpConnection),
}

impl Link {
    /// Returns true if both are the same connection.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Mcp(one), Self::Mcp(other)) => one.is(other),
            (Self::LiteMcp(one), Self::LiteMcp(other)) => one.is(other),
            _ => false,
        }
    }

    /// Returns the protocol version in use.
    pub(super) fn protocol(&self) -> String {
        match self {
            Self::Mcp(connection) => connection.protocol(),
            Self::LiteMcp(session) => session.protocol(),
        }
    }

    /// Returns the server's tools. Each response may take `within`.
    ///
    /// # Errors
    /// Human-readable reason why there is no list.
    pub(super) async fn tools(&self, within: Duration) -> Result<Arc<[Tool]>, String> {
        match self {
            Self::Mcp(connection) => connection.tools(within).await,
            Self::LiteMcp(session) => session.tools(within).await,
        }
    }

    /// Calls a tool. Dropping the future cancels the call as far as the protocol allows.
    pub(super) async fn call(&self, call: &ToolCall) -> Result<ToolOutput, CallFailed> {
        match self {
            Self::Mcp(connection) => connection.call(call).await,
            Self::LiteMcp(session) => session.call(call).await,
        }
    }

    /// Waits until the connection is closed.
    pub(super) async fn gone(&self) {
        match self {
            Self::Mcp(connection) => connection.gone().await,
            Self::LiteMcp(session) => session.gone().await,
        }
    }

    /// Waits until the server reports a change of its tools; LiteMCP has no such message.
    pub(super) async fn changed(&self) {
        match self {
            Self::Mcp(connection) => connection.changed().await,
            Self::LiteMcp(_) => std::future::pending().await,
        }
    }

    /// Closes the connection gracefully, within a time limit. Pending calls fail.
    pub(super) async fn close(self) {
        match self {
            Self::Mcp(connection) => connection.close().await,
            Self::LiteMcp(session) => session.close().await,
        }
    }
}
