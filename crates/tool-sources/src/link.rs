//! A connection to a source, whichever protocol it speaks. Not for the protocols.

use std::sync::Arc;
use std::time::Duration;

use hearken_actors::ports::{Tool, ToolCall, ToolOutput};

use super::connection::{CallFailed, Connection};
use super::litemcp::Session;

/// A connection that is open; clones share it.
#[derive(Clone)]
pub(super) enum Link {
    /// Speaks MCP.
    Mcp(Connection),
    /// Speaks LiteMCP.
    LiteMcp(Session),
}

impl Link {
    /// Both are the same connection.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Mcp(one), Self::Mcp(other)) => one.is(other),
            (Self::LiteMcp(one), Self::LiteMcp(other)) => one.is(other),
            _ => false,
        }
    }

    /// The version of the protocol that is spoken.
    pub(super) fn protocol(&self) -> String {
        match self {
            Self::Mcp(connection) => connection.protocol(),
            Self::LiteMcp(session) => session.protocol(),
        }
    }

    /// The server's tools; each of its answers may take this long.
    ///
    /// # Errors
    /// Why there is no list, for people.
    pub(super) async fn tools(&self, within: Duration) -> Result<Arc<[Tool]>, String> {
        match self {
            Self::Mcp(connection) => connection.tools(within).await,
            Self::LiteMcp(session) => session.tools(within).await,
        }
    }

    /// Calls a tool. Dropping the future ends the call as far as the protocol can.
    pub(super) async fn call(&self, call: &ToolCall) -> Result<ToolOutput, CallFailed> {
        match self {
            Self::Mcp(connection) => connection.call(call).await,
            Self::LiteMcp(session) => session.call(call).await,
        }
    }

    /// Ends when the connection is gone.
    pub(super) async fn gone(&self) {
        match self {
            Self::Mcp(connection) => connection.gone().await,
            Self::LiteMcp(session) => session.gone().await,
        }
    }

    /// Ends when the server says that its tools are others now; LiteMCP has no words for it.
    pub(super) async fn changed(&self) {
        match self {
            Self::Mcp(connection) => connection.changed().await,
            Self::LiteMcp(_) => std::future::pending().await,
        }
    }

    /// Closes in order, within bounds; calls that still wait fail.
    pub(super) async fn close(self) {
        match self {
            Self::Mcp(connection) => connection.close().await,
            Self::LiteMcp(session) => session.close().await,
        }
    }
}
