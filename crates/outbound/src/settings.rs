//! Error for unusable settings, and checks that several sections share. Not for reading a
//! configuration, nor for the rules of one section.

use std::borrow::Cow;

use hearken_base::Secret;
use hearken_base::redaction::shown;
use hearken_ports::BoxError;
use url::Url;

use crate::http;

/// Reason that a provider cannot be built from its settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// A setting has a value that cannot be used.
    #[error("`{key}` is `{value}`: use {allowed}")]
    Value {
        /// The setting, as in `config.toml`.
        key: Cow<'static, str>,
        /// Its value, without passwords in URLs.
        value: String,
        /// Description of the accepted values.
        allowed: &'static str,
    },
    /// The HTTP client cannot be set up.
    #[error("cannot set up the HTTP client for `{key}`: install the machine's CA certificates")]
    Client {
        /// The setting that needs the client.
        key: Cow<'static, str>,
        /// Error of the HTTP client.
        #[source]
        source: BoxError,
    },
}

impl SettingError {
    /// Builds the error for a setting `key` whose value `value` is not `allowed`.
    pub fn value(
        key: impl Into<Cow<'static, str>>,
        value: impl ToString,
        allowed: &'static str,
    ) -> Self {
        Self::Value { key: key.into(), value: value.to_string(), allowed }
    }

    /// Builds the error for an HTTP client of `key` that cannot be built.
    pub fn client(key: &'static str, source: reqwest::Error) -> Self {
        Self::Client { key: key.into(), source: source.into() }
    }

    /// Renames the key from `section` to `elsewhere`: for example `asr.url` to `asr.more_urls[1]`.
    pub fn within(mut self, section: &str, elsewhere: &str) -> Self {
        let (Self::Value { key, .. } | Self::Client { key, .. }) = &mut self;
        if let Some(rest) = key.strip_prefix(section) {
            *key = format!("{elsewhere}{rest}").into();
        }
        self
    }
}

/// Parses a URL with a host. `allowed` describes accepted values, for the error.
///
/// # Errors
/// The value is no such URL.
pub fn parse(
    key: impl Into<Cow<'static, str>>,
    value: &str,
    allowed: &'static str,
) -> Result<Url, SettingError> {
    match Url::parse(value.trim()) {
        Ok(url) if url.host_str().is_some_and(|host| !host.is_empty()) => Ok(url),
        Ok(url) => Err(SettingError::value(key, shown(&url), allowed)),
        Err(_) => Err(SettingError::value(key, value, allowed)),
    }
}

/// Checks that a key can be sent in a header.
///
/// # Errors
/// The key contains line breaks or invisible characters.
pub fn check_key(key: &'static str, secret: &Secret) -> Result<(), SettingError> {
    match http::bearer(secret) {
        Ok(_) => Ok(()),
        Err(_) => Err(SettingError::value(key, secret, "visible characters, on one line")),
    }
}

/// Checks that times in milliseconds are above zero and at most one day.
///
/// # Errors
/// Names the first setting that is outside these bounds.
pub fn check_times(times: &[(&'static str, u64)]) -> Result<(), SettingError> {
    const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
    match times.iter().find(|(_, value)| *value == 0 || *value > DAY_MS) {
        Some((key, value)) => Err(SettingError::value(*key, value, "1 to 86400000")),
        None => Ok(()),
    }
}
