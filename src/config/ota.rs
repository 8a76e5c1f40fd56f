//! Section `[ota]`. Not for connected devices.

use std::path::PathBuf;

use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[ota]`: responses to booting devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OtaConfig {
    /// Require every new device to be bound, by entering its code, before it can be used.
    pub binding: bool,
    /// Validity of a binding code.
    #[schemars(range(min = 60_000, max = 86_400_000))]
    pub code_lifetime_ms: u64,
    /// IANA time zone, such as `Asia/Shanghai`, for device clocks, prompts, the time tool,
    /// the log and the daily limits of `[usage]`. Empty uses the system's time zone.
    pub timezone: String,
    /// WebSocket address sent to devices, such as `ws://HOST:9400/xiaozhi/v1/`. Empty
    /// derives it from the `Host` header of the device's request. Set it if devices must
    /// connect to an address other than the OTA address.
    pub websocket_url: String,
    /// Folder of firmware images named `BOARD_VERSION.bin`, such as
    /// `bread-compact-wifi_2.4.2.bin`, offered to boards of that type with an older
    /// version. Empty offers none.
    pub firmware_dir: PathBuf,
    /// Without `server.trusted_proxies`: trust the headers `X-Forwarded-Proto`, `-Host`,
    /// `-Port` and `-For` of every request that comes from this machine or one of its
    /// private networks, with the last address in `-For`. Clients in these networks can
    /// then invent an address: `server.trusted_proxies` trusts the proxy alone.
    pub trust_proxy: bool,
}

impl Default for OtaConfig {
    fn default() -> Self {
        Self {
            binding: false,
            code_lifetime_ms: 1_800_000,
            timezone: String::new(),
            websocket_url: String::new(),
            firmware_dir: PathBuf::new(),
            trust_proxy: false,
        }
    }
}

impl OtaConfig {
    /// Returns the time zone; `None` if there is no zone of this name.
    pub fn time_zone(&self) -> Option<TimeZone> {
        match self.timezone.as_str() {
            "" => Some(TimeZone::system()),
            name => TimeZone::get(name).ok(),
        }
    }
}
