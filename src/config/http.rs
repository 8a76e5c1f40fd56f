//! Section `[http]`. Not for access control, which is `[auth]`.

use std::time::Duration;

use hearken_base::ms;
use serde::{Deserialize, Serialize};

/// Section `[http]`: limits and allowed origins of requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Maximum number of requests of one address to `/api` in a minute; further ones get 429. 0 for
    /// no limit.
    pub requests_per_minute: u32,
    /// Maximum number of requests of one address to the OTA address in a minute; 0 for no limit.
    pub boots_per_minute: u32,
    /// Maximum number of WebSocket handshakes of one address in a minute; 0 for no limit.
    pub upgrades_per_minute: u32,
    /// Maximum number of requests of one address in progress.
    pub requests_at_once: usize,
    /// Share of one address in slots that are limited in number, such as connections of devices, in
    /// percent.
    pub address_percent: u8,
    /// Origins whose pages may send requests, such as `https://museum.example`; `*` for all.
    /// Applies to every address, including the OTA address: a page that acts as a device boots
    /// there.
    pub cors_origins: Vec<String>,
    /// Names of this server in addresses that clients use, such as `voice.example`; `*` for all. A
    /// request for any other name is refused. Known without this: numeric addresses, `localhost`,
    /// this machine's name, and the hosts in `cors_origins` and `ota.websocket_url`.
    pub host_names: Vec<String>,
    /// Maximum time from the end of one request of a connection to the whole head of its next one;
    /// then the connection is closed.
    #[serde(rename = "next_request_ms", with = "ms")]
    pub next_request: Duration,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            requests_per_minute: 600,
            boots_per_minute: 240,
            upgrades_per_minute: 600,
            requests_at_once: 64,
            address_percent: 50,
            cors_origins: Vec::new(),
            host_names: Vec::new(),
            next_request: Duration::from_secs(15),
        }
    }
}
