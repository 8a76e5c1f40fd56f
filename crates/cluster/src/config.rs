//! The table of the Redis that several instances of the server share. Not for what they keep in
//! it.

use hearken_base::Secret;
use serde::{Deserialize, Serialize};

/// The Redis by which instances of the server know of each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisConfig {
    /// Where it is: `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]`; empty where this server is
    /// alone.
    pub url: Secret,
    /// What all our keys begin with; equal for all instances of one deployment.
    pub prefix: String,
    /// Longest wait for an answer; beyond, the instance goes on alone until Redis is back.
    pub timeout_ms: u64,
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self { url: Secret::default(), prefix: "hearken".into(), timeout_ms: 500 }
    }
}
