//! Section `[http]`. Not for who is let in, which is `[auth]`.

use serde::{Deserialize, Serialize};

/// Section `[http]`: how often clients may ask, and from which sites' pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Requests to `/api` of one client in a minute; beyond, 429. 0 sets no limit.
    pub requests_per_minute: u32,
    /// Sites whose pages may ask, such as `https://museum.example`; `*` lets all. It holds for
    /// every address, also for the OTA address: a page that plays a device boots there.
    pub cors_origins: Vec<String>,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self { requests_per_minute: 600, cors_origins: Vec::new() }
    }
}
