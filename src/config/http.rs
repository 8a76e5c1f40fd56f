//! Section `[http]`. Not for access control, which is `[auth]`.

use std::time::Duration;

use hearken_base::ms;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[http]`: limits and allowed origins of requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Maximum number of requests per minute from one address to `/api`; further ones get
    /// 429 with `Retry-After`. If a client sends a token listed under `[http]`, each
    /// `session-id` header is counted separately and the address may send ten times as
    /// many. WebSocket connections, `/healthz`, `/readyz` and `/metrics` are not counted.
    /// `0` disables the limit.
    #[schemars(range(max = 1_000_000))]
    pub requests_per_minute: u32,
    /// Maximum number of requests per minute from one address to the OTA address. A board
    /// sends one at each boot, and 20 while it waits to be bound. `0` disables the limit.
    #[schemars(range(max = 1_000_000))]
    pub boots_per_minute: u32,
    /// Maximum number of WebSocket handshakes per minute from one address, for devices,
    /// text clients and all other sockets together. `0` disables the limit.
    #[schemars(range(max = 1_000_000))]
    pub upgrades_per_minute: u32,
    /// Maximum number of requests in progress from one address; further ones get 429. Those
    /// of `/healthz`, `/readyz` and `/metrics` are counted separately.
    #[schemars(range(min = 1, max = 100_000))]
    pub requests_at_once: usize,
    /// Maximum share of one address in each limited resource: device connections
    /// (`server.max_connections`), text client connections (`gateway.max_connections`),
    /// watchers (`chat.max_watchers`), LiteMCP sockets, pictures in progress and open TCP
    /// connections. Raise it if most clients share one address.
    #[schemars(range(min = 1, max = 100))]
    pub address_percent: u8,
    /// Origins whose web pages may send requests (CORS), such as `https://museum.example`;
    /// `*` allows all. Applies to every path, including the OTA address and picture
    /// uploads: a page that acts as a device needs an entry in order to boot, and a page
    /// opened as a file needs `*`. Requests to `/api` require the admin token regardless.
    pub cors_origins: Vec<String>,
    /// Host names under which clients reach this server, such as `voice.example`; `*`
    /// accepts any. Requests for other names are refused, which protects against DNS
    /// rebinding. Numeric addresses, `localhost`, this machine's name and the hosts in
    /// `cors_origins`, `ota.websocket_url` and `vision.url` are always accepted.
    pub host_names: Vec<String>,
    /// Maximum time from the end of one request until the next request on the same
    /// connection has arrived completely; then the connection is closed. A connection on
    /// which nothing arrives is closed after 5 s. WebSocket connections have separate
    /// timeouts.
    #[serde(rename = "next_request_ms", with = "ms")]
    #[schemars(with = "u64", range(min = 100, max = 600_000))]
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
