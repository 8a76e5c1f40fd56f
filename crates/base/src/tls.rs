//! The process's choice of a TLS implementation. Not for certificates.

use rustls::crypto::ring;

/// Chooses ring for this process's TLS unless something is chosen already; without a choice, TLS
/// clients panic when they are built.
pub fn choose_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Someone else was quicker: as good.
        ring::default_provider().install_default().ok();
    }
}
