//! Section `[ota]`. Not for connected devices.

use std::path::PathBuf;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// Section `[ota]`: responses to booting devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OtaConfig {
    /// True if a new device must be bound by entering its code before it may talk.
    pub binding: bool,
    /// Validity of a code, in milliseconds.
    pub code_lifetime_ms: u64,
    /// IANA name of the time zone of all clocks, such as `Asia/Shanghai`: those of devices,
    /// prompts, the time tool and the log. Empty for the system's.
    pub timezone: String,
    /// Address of the device endpoint; empty to derive it from the `Host` header of the device's
    /// request.
    pub websocket_url: String,
    /// Folder with firmware images named `BOARD_VERSION.bin`; empty for none.
    pub firmware_dir: PathBuf,
    /// True if the server is behind a proxy, whose `X-Forwarded-*` headers contain the requested
    /// address.
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
