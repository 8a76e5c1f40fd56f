//! Section `[redis]`: the Redis that several instances of the server share. Not for the data in it.

use hearken_base::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[redis]`: connection to the Redis that instances share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RedisConfig {
    /// Redis address: `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]`. TLS (`rediss://`)
    /// is not supported; use a private network or a tunnel. Empty for a single instance.
    pub url: Secret,
    /// Prefix of all keys in Redis: 1 to 64 letters, digits, `-`, `_` and `.`. All
    /// instances of one deployment must use the same value; deployments that share a Redis
    /// server need different ones.
    pub prefix: String,
    /// Maximum wait for a response from Redis. After a timeout, the instance works alone
    /// until Redis is available again.
    #[schemars(range(min = 10, max = 60_000))]
    pub timeout_ms: u64,
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self { url: Secret::default(), prefix: "hearken".into(), timeout_ms: 500 }
    }
}
