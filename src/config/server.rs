//! Section `[server]`. Not for the middleware before the routes, which is `[http]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Section `[server]`: addresses, threads and limits of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Address to listen on.
    pub host: String,
    /// Port to listen on; 0 for a free one.
    pub port: u16,
    /// Number of threads that serve sockets; 0 for one per core.
    pub workers: usize,
    /// Number of threads that encode speech; 0 for two per three cores.
    pub audio_threads: usize,
    /// Maximum number of connections of devices; a further one is refused with 503.
    pub max_connections: usize,
    /// Time for open connections to end at shutdown, in milliseconds.
    pub shutdown_timeout_ms: u64,
    /// Folder in which every session is recorded; empty for none.
    pub record_dir: PathBuf,
    /// Folder of the server's data; empty for `hearken` in the user's data folder.
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
            shutdown_timeout_ms: 8_000,
            record_dir: PathBuf::new(),
            data_dir: PathBuf::new(),
        }
    }
}
