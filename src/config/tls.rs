//! Section `[tls]`. Not for reading the files that it names.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Section `[tls]`: certificate of the server's port; with both empty, the port uses plain HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file of the certificate, followed by its issuers' certificates.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
}

impl TlsConfig {
    /// Returns true if the port uses TLS.
    pub fn is_on(&self) -> bool {
        !self.certificate.as_os_str().is_empty()
    }
}
