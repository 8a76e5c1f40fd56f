//! Choice of the TLS implementation of the process. Not for certificates.

use rustls::crypto::ring;

/// Chooses ring for the TLS of this process, unless another implementation is chosen already.
/// Without a choice, TLS clients panic when they are built.
pub fn choose_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread was faster. Its choice works too.
        ring::default_provider().install_default().ok();
    }
}
