//! Base code for every crate that talks to other services: secrets and their redaction, checks of
//! settings, the outbound HTTP client, limits of WebSocket connections, TLS, thread priority, private
//! files, the environment of child processes, the signals that end a process, the format of the log.
//! Not for any one service or protocol.

pub mod child_env;
pub mod http;
pub mod log;
pub mod priority;
pub mod private_files;
pub mod redaction;
pub mod settings;
pub mod stop_signal;
pub mod tls;
pub mod websocket;

pub use hearken_actors::settings::Secret;
pub use settings::SettingError;
