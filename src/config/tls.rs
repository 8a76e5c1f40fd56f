//! Section `[tls]`. Not for reading the files that it names.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Section `[tls]`: certificate of the server's port, or of a port of its own; without one, there is plain HTTP alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file of the certificate, followed by its issuers' certificates.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
    /// Port for TLS beside the plain one; 0 for TLS on the server's port.
    pub port: u16,
    /// Whether the server makes its certificate itself, where none is given.
    pub self_signed: bool,
}

/// Port for TLS with a certificate that the server made, where none is given.
const SELF_SIGNED_PORT: u16 = 9_443;

impl TlsConfig {
    /// Returns true if a certificate is given.
    pub fn has_certificate(&self) -> bool {
        !self.certificate.as_os_str().is_empty()
    }

    /// Returns true if the server's port uses TLS.
    pub fn is_on(&self) -> bool {
        self.has_certificate() && self.port == 0
    }

    /// Returns the port for TLS beside the server's port, if there is one. Boards check certificates, and need the plain
    /// port where the server made its own.
    pub fn own_port(&self) -> Option<u16> {
        match self.port {
            0 => (self.self_signed && !self.has_certificate()).then_some(SELF_SIGNED_PORT),
            port => (self.self_signed || self.has_certificate()).then_some(port),
        }
    }
}
