//! Section `[store]`. Not for opening what it names.

use hearken_base::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[store]`: where devices, bindings and sessions are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// Database address: `sqlite:///folder/file.db` or
    /// `postgres://user:password@host/database`. Empty uses `hearken.db` in the data
    /// folder. Several instances need a shared PostgreSQL database.
    pub url: Secret,
}
