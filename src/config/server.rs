//! Section `[server]`. Not for what stands before the routes, which is `[http]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Section `[server]`: addresses, threads and limits of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Address to listen on.
    pub host: String,
    /// Port to listen on; 0 takes a free one.
    pub port: u16,
    /// Threads that serve sockets; 0 means one a core.
    pub workers: usize,
    /// Threads that encode speech; 0 means two for each three cores.
    pub audio_threads: usize,
    /// Connections of devices at once; one more is refused with 503.
    pub max_connections: usize,
    /// Time that open connections have to end when the server stops.
    pub shutdown_timeout_ms: u64,
    /// Folder where every session is recorded; empty records none.
    pub record_dir: PathBuf,
    /// Folder of what the server keeps; empty is `hearken` in the user's folder for such.
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
