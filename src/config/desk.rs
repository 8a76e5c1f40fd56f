//! Keys of what stands before the routes: limits, other sites' pages, TLS and the administrator.
//! Not for who is let in by which token, which is `auth`.

use std::path::PathBuf;

use hearken_base::Secret;
use serde::{Deserialize, Serialize};

/// How often clients may ask, and from which sites' pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Requests to `/api` of one client in a minute; beyond, 429. 0 sets no limit.
    pub requests_per_minute: u32,
    /// Sites whose pages may ask, such as `https://museum.example`; `*` lets all. It holds for
    /// every address, also for the OTA address: a page that plays a device boots there.
    pub cors_origins: Vec<String>,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self { requests_per_minute: 600, cors_origins: Vec::new() }
    }
}

/// The certificate by which the server's port speaks TLS; both empty speak plainly.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file of the certificate, with those that it is signed by.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
}

impl TlsConfig {
    /// The port speaks TLS.
    pub fn is_on(&self) -> bool {
        !self.certificate.as_os_str().is_empty()
    }
}

/// The administrator, `/api/admin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminConfig {
    /// The administrator is let in.
    pub enabled: bool,
    /// The administrator's password; empty is the admin token.
    pub password: Secret,
    /// How long an access token is good.
    pub access_token_ms: u64,
    /// How long a refresh token is good, unless it is used.
    pub refresh_token_ms: u64,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            password: Secret::default(),
            access_token_ms: 900_000,
            refresh_token_ms: 604_800_000,
        }
    }
}
