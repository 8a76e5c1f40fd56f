//! Section `[tls]`. Not for reading the files that it names.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Section `[tls]`: the certificate by which the server's port speaks TLS; both empty speak plainly.
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
