//! Section `[traces]`. Not for sending them.

use hearken_base::Secret;
use serde::{Deserialize, Serialize};

/// Section `[traces]`: each turn as an OpenTelemetry trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TracesConfig {
    /// Address of a collector that takes OTLP over HTTP; empty for none.
    pub otlp_url: String,
    /// Value of the header `Authorization` of its requests; empty for none.
    pub authorization: Secret,
    /// Longest time of a request, in milliseconds.
    pub timeout_ms: u64,
}

impl Default for TracesConfig {
    fn default() -> Self {
        Self { otlp_url: String::new(), authorization: Secret::default(), timeout_ms: 10_000 }
    }
}
