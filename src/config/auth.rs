//! Section `[auth]`. Not for the administrator, who has `[admin]`.

use hearken_base::Secret;
use serde::{Deserialize, Serialize};

/// Section `[auth]`: who is let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// Whether devices need a token, and people the admin token.
    pub required: AuthRequired,
    /// Signs the tokens of devices; empty takes one made at the first start, kept in `secret` in
    /// the data folder.
    pub secret: Secret,
    /// How long a device's token is good; a device gets a new one at each boot.
    pub token_days: u32,
    /// Ids of the devices that are let in; empty lets in all.
    pub allowed_devices: Vec<String>,
    /// What people and programs show to `/api`; empty takes one made at the first start, kept in
    /// `admin_token` in the data folder.
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

/// Whether tokens are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthRequired {
    /// Unless the server listens on a loopback address only.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never: whoever reaches the port is let in.
    Never,
}
