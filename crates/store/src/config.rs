//! Section `[store]`. Not for opening what it names.

use hearken_base::Secret;
use serde::{Deserialize, Serialize};

/// Section `[store]`: where devices, bindings and sessions are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// A `sqlite:` or `postgres:` address; empty is `hearken.db` in the data folder.
    pub url: Secret,
}
