//! Client of a state server, behind [`hearken_ports::StateServer`]. Not the server itself:
//! a sample server for tests is in `hearken-state-server`.

mod answer;
mod client;
mod config;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;

use std::sync::Arc;
use std::time::Duration;

use hearken_base::redaction::shown;
use hearken_outbound::SettingError;
use hearken_outbound::settings::{check_key, parse};
use hearken_ports::StateServer;

use crate::retry::RetryPolicy;

pub use client::HttpStateServer;
pub use config::StateConfig;

/// Maximum wait before a retry that a state server may request.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Builds the client of the state server at `state.url`; none if it is empty.
///
/// # Errors
/// A setting cannot be used. Names its key, its value and the accepted values.
pub fn state_server(config: &StateConfig) -> Result<Option<Arc<dyn StateServer>>, SettingError> {
    if config.url.trim().is_empty() {
        return Ok(None);
    }
    let policy = RetryPolicy { longest_wait: LONGEST_WAIT, ..RetryPolicy::patient() };
    Ok(Some(Arc::new(http(config, policy)?)))
}

/// Builds the client of `state.url`, with retries by `policy`.
///
/// # Errors
/// A setting cannot be used, as for [`state_server`]; also an empty URL.
pub fn http(config: &StateConfig, policy: RetryPolicy) -> Result<HttpStateServer, SettingError> {
    const ALLOWED: &str = "http://HOST:PORT or https://HOST:PORT, or leave it empty";
    check_key("state.token", &config.token)?;
    let url = parse("state.url", &config.url, ALLOWED)?;
    if !matches!(url.scheme(), "http" | "https") || url.query().is_some() {
        return Err(SettingError::value("state.url", shown(&url), ALLOWED));
    }
    HttpStateServer::new(&url, config, policy)
}
