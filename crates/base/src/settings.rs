//! Settings that cannot be used, and the checks that several sections share. Not for reading a
//! configuration, nor for what one section allows.

use std::borrow::Cow;

use hearken_actors::ports::BoxError;
use url::Url;

use crate::Secret;
use crate::http;

/// Why a provider cannot be built from its settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// A setting has a value that cannot be used.
    #[error("`{key}` is `{value}`: use {allowed}")]
    Value {
        /// The setting, as in `config.toml`.
        key: Cow<'static, str>,
        /// Its value; passwords in URLs are left out.
        value: String,
        /// What may stand there.
        allowed: &'static str,
    },
    /// The HTTP client cannot be set up.
    #[error("cannot set up the HTTP client for `{key}`: install the machine's CA certificates")]
    Client {
        /// The setting that asks for it.
        key: Cow<'static, str>,
        /// What the client says.
        #[source]
        source: BoxError,
    },
}

impl SettingError {
    /// Says that `key` holds `value` where only `allowed` may stand.
    pub fn value(
        key: impl Into<Cow<'static, str>>,
        value: impl ToString,
        allowed: &'static str,
    ) -> Self {
        Self::Value { key: key.into(), value: value.to_string(), allowed }
    }

    /// Says that the HTTP client of `key` cannot be built.
    pub fn client(key: &'static str, source: reqwest::Error) -> Self {
        Self::Client { key: key.into(), source: source.into() }
    }

    /// Moves the error from `section` to `elsewhere`, as `asr.url` to `asr.more_urls[1]`.
    pub fn within(mut self, section: &str, elsewhere: &str) -> Self {
        let (Self::Value { key, .. } | Self::Client { key, .. }) = &mut self;
        if let Some(rest) = key.strip_prefix(section) {
            *key = format!("{elsewhere}{rest}").into();
        }
        self
    }
}

/// Parses a URL with a host.
///
/// # Errors
/// It is none; `allowed` says what may stand there.
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

/// Shows the URL without its password.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    if url.password().is_some() && url.set_password(Some("***")).is_err() {
        return format!("{}://...", url.scheme());
    }
    url.into()
}

/// Checks that a key can stand in a header.
///
/// # Errors
/// It holds line breaks or invisible characters.
pub fn check_key(key: &'static str, secret: &Secret) -> Result<(), SettingError> {
    match http::bearer(secret) {
        Ok(_) => Ok(()),
        Err(_) => Err(SettingError::value(key, secret, "visible characters, on one line")),
    }
}

/// Checks that times in milliseconds are above zero and at most a day.
///
/// # Errors
/// The first one that is not.
pub fn check_times(times: &[(&'static str, u64)]) -> Result<(), SettingError> {
    const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
    match times.iter().find(|(_, value)| *value == 0 || *value > DAY_MS) {
        Some((key, value)) => Err(SettingError::value(*key, value, "1 to 86400000")),
        None => Ok(()),
    }
}
