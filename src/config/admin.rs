//! Section `[admin]`. Not for what the administrator may change.

use hearken_base::Secret;
use serde::{Deserialize, Serialize};

/// Section `[admin]`: the administrator, `/api/admin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminConfig {
    /// The administrator is let in.
    pub enabled: bool,
    /// The administrator's password; empty is the admin token.
    pub password: Secret,
    /// How long an access token is good.
    pub access_token_ms: u64,
    /// How long a refresh token is good, unless it is used.
    pub refresh_token_ms: u64,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            password: Secret::default(),
            access_token_ms: 900_000,
            refresh_token_ms: 604_800_000,
        }
    }
}
