//! Section `[ota]`. Not for what happens once a device is in.

use std::path::PathBuf;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// Section `[ota]`: what devices are told when they boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OtaConfig {
    /// A new device must be bound by somebody who enters its code before it may talk.
    pub binding: bool,
    /// How long a code is good.
    pub code_lifetime_ms: u64,
    /// IANA name of the time zone of all clocks, such as `Asia/Shanghai`: what devices show, what
    /// models are told, the time tool and the log. Empty is the system's.
    pub timezone: String,
    /// Address of the device endpoint; empty builds it from the `Host` that the device asked.
    pub websocket_url: String,
    /// Folder with firmware images named `BOARD_VERSION.bin`; empty offers none.
    pub firmware_dir: PathBuf,
    /// A proxy stands before us: its `X-Forwarded-*` headers say what the device asked.
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
    /// The time zone; none where there is none of this name.
    pub fn time_zone(&self) -> Option<TimeZone> {
        match self.timezone.as_str() {
            "" => Some(TimeZone::system()),
            name => TimeZone::get(name).ok(),
        }
    }
}
