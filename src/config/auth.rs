//! Section `[auth]`. Not for the administrator, who has `[admin]`.

use hearken_base::Secret;
use serde::{Deserialize, Serialize};

/// Section `[auth]`: access control.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// Requirement of tokens for devices, and of the admin token for people.
    pub required: AuthRequired,
    /// Secret that signs the tokens of devices; empty for one created at the first start, stored in
    /// `secret` in the data folder.
    pub secret: Secret,
    /// Validity of a device's token, in days; a device gets a new one at each boot.
    pub token_days: u32,
    /// Ids of the allowed devices; empty to allow all.
    pub allowed_devices: Vec<String>,
    /// Admin token for `/api`; empty for one created at the first start, stored in `admin_token` in
    /// the data folder.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
