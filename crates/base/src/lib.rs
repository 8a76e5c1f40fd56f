//! Base code for every crate that talks to other services: secrets, checks of settings, the
//! outbound HTTP client, limits of WebSocket connections, TLS, thread priority. Not for any one
//! service or protocol.

pub mod http;
pub mod priority;
pub mod settings;
pub mod tls;
pub mod websocket;

pub use hearken_actors::settings::Secret;
pub use settings::SettingError;
