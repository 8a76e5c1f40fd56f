//! Section `[auth]`. Not for the administrator, who has `[admin]`.

use hearken_base::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[auth]`: access control.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// Whether devices need a token, and users of `/api` the admin token. `always` requires
    /// them. `auto` is the same, except that devices on this machine need no token if the
    /// server listens on a loopback address only. `never` gives every client that reaches
    /// the port full access.
    pub required: AuthRequired,
    /// Secret that signs device tokens, at least 16 characters long. Empty uses a secret
    /// generated at the first start and stored in the data folder. Changing it invalidates
    /// all signed tokens; all instances of a cluster need the same value.
    pub secret: Secret,
    /// Validity of a device token. A device receives a new one at each boot, so raise the
    /// value for devices that run longer without rebooting.
    #[schemars(range(min = 1, max = 3_650))]
    pub token_days: u32,
    /// Device ids (MAC addresses) that may connect. Empty allows all.
    pub allowed_devices: Vec<String>,
    /// Admin token that users and programs send to `/api`, at least 16 characters long.
    /// Empty uses a token generated at the first start and stored in the data folder. All
    /// instances of a cluster need the same value.
    pub admin_token: Secret,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            required: AuthRequired::Auto,
            secret: Secret::default(),
            token_days: 30,
            allowed_devices: Vec::new(),
            admin_token: Secret::default(),
        }
    }
}

/// Requirement of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthRequired {
    /// Required, except from devices on this machine if the server listens on a loopback address
    /// only.
    #[default]
    Auto,
    /// Always required.
    Always,
    /// Never required: everybody who reaches the port has access to everything.
    Never,
}
