//! Section `[console]`. Not for who may use it: that is `[admin]` and `[auth]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[console]`: the web console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConsoleConfig {
    /// Serve the web console.
    pub enabled: bool,
}

impl Default for ConsoleConfig {
    fn default() -> Self {
        Self { enabled: true }
    }
}
