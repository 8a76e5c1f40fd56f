//! Section `[redis]`: the Redis that several instances of the server share. Not for the data in it.

use hearken_base::Secret;
use serde::{Deserialize, Serialize};

/// Section `[redis]`: connection to the Redis that instances share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisConfig {
    /// Address: `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]`; empty for an instance that
    /// works alone.
    pub url: Secret,
    /// Prefix of all keys; equal for all instances of one deployment.
    pub prefix: String,
    /// Longest wait for an answer, in milliseconds; then the instance works alone until Redis is
    /// back.
    pub timeout_ms: u64,
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self { url: Secret::default(), prefix: "hearken".into(), timeout_ms: 500 }
    }
}
