//! Section `[server]`. Not for the middleware before the routes, which is `[http]`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[server]`: addresses, threads and limits of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Address or host name to listen on. Use a loopback address to accept connections from
    /// this machine only.
    pub host: String,
    /// TCP port to listen on. `0` lets the system choose a free port.
    pub port: u16,
    /// Number of threads that serve HTTP and WebSocket connections. `0` starts one per
    /// core.
    #[schemars(range(max = 4_096))]
    pub workers: usize,
    /// Number of threads that encode speech. `0` starts two for every three cores, which
    /// leaves cores for sending packets on time.
    #[schemars(range(max = 4_096))]
    pub audio_threads: usize,
    /// Maximum number of concurrent device connections; further ones get 503.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_connections: usize,
    /// Addresses or networks of the proxies in front of the server, such as `10.0.0.5` or
    /// `10.0.0.0/8`. The headers `X-Forwarded-Proto`, `-Host`, `-Port` and `-For` of their
    /// requests, and of no others, determine the addresses sent to devices, and the client
    /// address for limits and ownership: the last address in `-For` that is not in this
    /// list. List only proxies that set all of them. Empty trusts none, unless
    /// `ota.trust_proxy` is set.
    pub trusted_proxies: Vec<String>,
    /// Grace period for open connections to finish when the server stops.
    #[schemars(range(min = 100, max = 10_000))]
    pub shutdown_timeout_ms: u64,
    /// Folder in which every device session is recorded; `hearken serve --record DIR`
    /// overrides it. Recordings contain speech, are readable by their owner only, have
    /// tokens masked, and are deleted with their device. Empty disables recording.
    pub record_dir: PathBuf,
    /// Maximum total size of the recordings in `server.record_dir`, in MiB; the oldest ones beyond
    /// it are deleted, and those in progress end if they take all of it. An hour of conversation
    /// takes about 20 MiB.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_recordings_mib: u64,
    /// Folder for the database and the secrets that the server generates. Empty selects
    /// `hearken` in `XDG_DATA_HOME`, or `~/.local/share/hearken` if that variable is not
    /// set.
    pub data_dir: PathBuf,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            host: "0.0.0.0".into(),
            port: 9400,
            workers: 0,
            audio_threads: 0,
            max_connections: 10_000,
            trusted_proxies: Vec::new(),
            shutdown_timeout_ms: 8_000,
            record_dir: PathBuf::new(),
            max_recordings_mib: 1_024,
            data_dir: PathBuf::new(),
        }
    }
}
