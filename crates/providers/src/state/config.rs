//! Section `[state]`. Not for the requests to the state server.

use hearken_base::Secret;
use serde::{Deserialize, Serialize};

/// Section `[state]`: the server that stores the states of chat sessions, and has tools to change them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StateConfig {
    /// Address, `http(s)://...`; empty for none.
    pub url: String,
    /// Bearer token; empty for none.
    pub token: Secret,
    /// Longest time for a request with all its attempts, in milliseconds.
    pub timeout_ms: u64,
    /// Maximum number of concurrent requests; a further one waits, within the same time.
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
