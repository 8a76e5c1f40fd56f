//! Section `[traces]`. Not for sending them.

use hearken_base::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[traces]`: each turn as an OpenTelemetry trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TracesConfig {
    /// Address of a collector that accepts OTLP over HTTP, such as `http://localhost:4318`.
    /// Empty disables the export.
    pub otlp_url: String,
    /// Value of the `Authorization` header of requests to the collector, such as `Bearer
    /// ...`. Empty sends none.
    pub authorization: Secret,
    /// Maximum time for a request to the collector.
    #[schemars(range(min = 100, max = 60_000))]
    pub timeout_ms: u64,
}

impl Default for TracesConfig {
    fn default() -> Self {
        Self { otlp_url: String::new(), authorization: Secret::default(), timeout_ms: 10_000 }
    }
}
