//! Section `[state]`. Not for the requests to the state server.

use hearken_base::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[state]`: the server that stores the states of chat sessions, and has tools to change them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StateConfig {
    /// Address of the state server, `http(s)://HOST:PORT`. Empty for none.
    pub url: String,
    /// Token, sent as a bearer token. Empty sends none.
    pub token: Secret,
    /// Maximum time for a request, including all attempts and the waits between them. A
    /// request that timed out is not retried.
    #[schemars(range(min = 100, max = 600_000))]
    pub timeout_ms: u64,
    /// Maximum number of concurrent requests. Further ones wait, within the same timeout.
    #[schemars(range(min = 1, max = 10_000))]
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
