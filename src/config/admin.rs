//! Section `[admin]`. Not for the settings that the administrator may change.

use hearken_base::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[admin]`: the administrator, `/api/admin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdminConfig {
    /// Enable the administrator API.
    pub enabled: bool,
    /// Administrator password, at least 16 characters long. Empty uses the password set in
    /// the console or with `hearken password`, or the admin token of `[auth]` if none was
    /// set.
    pub password: Secret,
    /// Validity of an access token, which a login returns.
    #[schemars(range(min = 60_000, max = 86_400_000))]
    pub access_token_ms: u64,
    /// Validity of a refresh token; each use replaces it with a new one. Must not be less
    /// than `access_token_ms`. A user who is inactive for longer has to log in again.
    #[schemars(range(max = 31_536_000_000_u64))]
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
