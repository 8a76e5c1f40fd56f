//! Section `[admin]`. Not for the settings that the administrator may change.

use hearken_base::Secret;
use serde::{Deserialize, Serialize};

/// Section `[admin]`: the administrator, `/api/admin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminConfig {
    /// True to enable the administrator.
    pub enabled: bool,
    /// Password of the administrator; empty for the one that was chosen at run time, else the admin token.
    pub password: Secret,
    /// Validity of an access token, in milliseconds.
    pub access_token_ms: u64,
    /// Validity of a refresh token, in milliseconds; each use replaces it.
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
