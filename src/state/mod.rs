//! The client of a state server, behind [`hearken_actors::ports::StateServer`]. Not the server
//! itself: one to learn from and to test against is in [`crate::state_server`].

mod answer;
mod client;

use std::sync::Arc;
use std::time::Duration;

use hearken_actors::ports::StateServer;

pub use client::HttpStateServer;

use crate::config::StateConfig;
use crate::providers::retry::RetryPolicy;
use crate::providers::{self, ProviderConfigError};

/// Longest wait that a state server may ask for before it is asked again.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The state server that `state.url` names; none where it is empty.
///
/// # Errors
/// A setting that cannot be used, with its key, its value and what is allowed.
pub fn state_server(
    config: &StateConfig,
) -> Result<Option<Arc<dyn StateServer>>, ProviderConfigError> {
    if config.url.trim().is_empty() {
        return Ok(None);
    }
    let policy = RetryPolicy { longest_wait: LONGEST_WAIT, ..RetryPolicy::patient() };
    Ok(Some(Arc::new(http(config, policy)?)))
}

/// The client of `state.url`, which calls again as `policy` says.
///
/// # Errors
/// As [`state_server`]; also an empty address.
pub fn http(
    config: &StateConfig,
    policy: RetryPolicy,
) -> Result<HttpStateServer, ProviderConfigError> {
    const ALLOWED: &str = "http://HOST:PORT or https://HOST:PORT, or leave it empty";
    providers::check_key("state.token", &config.token)?;
    let url = providers::parse("state.url", &config.url, ALLOWED)?;
    if !matches!(url.scheme(), "http" | "https") || url.query().is_some() {
        return Err(ProviderConfigError::value("state.url", providers::shown(&url), ALLOWED));
    }
    HttpStateServer::new(&url, config, policy)
}
