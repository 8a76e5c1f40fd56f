//! Shared code of clients of other services: the HTTP client with its table of statuses, limits and
//! close handshakes of WebSocket connections, the TLS provider, and errors and checks of settings.
//! Nothing specific to one service.

pub mod http;
pub mod settings;
pub mod tls;
pub mod websocket;

pub use settings::SettingError;
