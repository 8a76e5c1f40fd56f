//! The state server's table of the configuration. Not for what is asked of it.

use hearken_base::Secret;
use serde::{Deserialize, Serialize};

/// The server that keeps what is true in chat sessions' worlds, and its tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StateConfig {
    /// Where it is: `http(s)://...`; empty is none.
    pub url: String,
    /// Sent as a bearer token; empty sends none.
    pub token: Secret,
    /// Longest time for a request, however often it is made again.
    pub timeout_ms: u64,
    /// Requests at once; one more waits, within the same time.
    pub max_connections: usize,
}

impl Default for StateConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            token: Secret::default(),
            timeout_ms: 10_000,
            max_connections: 100,
        }
    }
}
