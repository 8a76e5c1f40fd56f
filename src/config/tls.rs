//! Section `[tls]`. Not for reading the files that it names.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[tls]`: certificate of the server's port, or of a port of its own; without one, there is plain HTTP alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file of the certificate, followed by its issuer certificates. Requires `key`;
    /// empty disables TLS unless `self_signed` is set.
    pub certificate: PathBuf,
    /// PEM file of the private key. Requires `certificate`.
    pub key: PathBuf,
    /// Additional port for TLS; the plain port of `[server]` remains open. `0` enables TLS
    /// on the plain port itself.
    pub port: u16,
    /// Generate a certificate in the data folder if none is configured, for nearby browsers
    /// that need HTTPS for microphone access. It is served on port 9443 if `port` is `0`.
    /// Browsers ask once whether to trust it; boards do not trust it and continue to use
    /// the plain port. Equivalent to `hearken serve --tls self-signed`.
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
