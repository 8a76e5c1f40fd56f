//! Section `[devices]`. Not for the timers of a connection, which `[device]` has, nor for the OTA address.

use serde::{Deserialize, Serialize};

/// Section `[devices]`: which devices from outside have a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DevicesConfig {
    /// What a device needs that connects from outside this machine and its private networks, or through a proxy.
    pub admit: DeviceAdmission,
}

/// What a device from outside needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceAdmission {
    /// Its binding: until somebody enters its code, it has no token and no session.
    #[default]
    Bound,
    /// A token: the OTA address gives it to a bound device alone, and shows no codes. An administrator makes others.
    Token,
    /// Nothing: the OTA address gives everybody a token.
    Anyone,
}
