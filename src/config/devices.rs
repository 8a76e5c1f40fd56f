//! Section `[devices]`. Not for the timers of a connection, which `[device]` has, nor for the OTA address.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[devices]`: which devices from outside have a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DevicesConfig {
    /// Requirement for a device from outside. `bound` admits it once its code has been
    /// entered. `token` displays no codes and admits only devices with a token that was
    /// issued when they were bound or created by an administrator. `anyone` admits every
    /// device; devices that are not bound cannot use the household's tools.
    pub admit: DeviceAdmission,
}

/// What a device from outside needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
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
