//! What clients of other services share: the HTTP client with its table of statuses, limits and endings of WebSocket
//! connections, the TLS provider, and errors and checks of settings. Nothing that knows one service.

pub mod http;
pub mod settings;
pub mod tls;
pub mod websocket;

pub use settings::SettingError;
