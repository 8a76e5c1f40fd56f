//! TLS: the implementation that the process uses, and the certificate of the server's port, which
//! is reloaded when its files change. Not for the certificates of other servers.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::TlsConfig;

/// Interval at which the files are checked for changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Reason why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("`{key}`: cannot read {}", file.display())]
    Unreadable {
        /// Name of the setting.
        key: &'static str,
        /// Path of the file.
        file: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// A file contains no certificate, or no key.
    #[error("`{key}`: {} holds no {wanted} in PEM (-----BEGIN ...-----)", file.display())]
    Empty {
        /// Name of the setting.
        key: &'static str,
        /// Path of the file.
        file: PathBuf,
        /// Description of the missing part.
        wanted: &'static str,
    },
    /// Certificate and key do not match, or are of an unsupported type.
    #[error("the key in {} cannot be used with the certificate in {}: use the pair that was made together", key.display(), certificate.display())]
    Pair {
        /// Path of the certificate.
        certificate: PathBuf,
        /// Path of the key.
        key: PathBuf,
        /// Error of the TLS implementation.
        #[source]
        source: rustls::Error,
    },
    /// The TLS implementation cannot be set up.
    #[error("TLS cannot be set up")]
    Setup(#[source] rustls::Error),
}

/// Current certificate of the server's port, reloaded from its files.
#[derive(Debug)]
pub struct Certificate {
    files: TlsConfig,
    pair: ArcSwap<CertifiedKey>,
    seen: Mutex<Stamps>,
}

/// Modification time and length of both files at the last check.
type Stamps = [Option<(SystemTime, u64)>; 2];

impl Certificate {
    /// Loads the certificate of this configuration; `None` if none is configured.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn load(config: &TlsConfig) -> Result<Option<Arc<Self>>, TlsError> {
        if !config.has_certificate() {
            return Ok(None);
        }
        let seen = Mutex::new(stamps(config));
        let pair = ArcSwap::from_pointee(read(config)?);
        Ok(Some(Arc::new(Self { files: config.clone(), pair, seen })))
    }

    /// Returns the TLS configuration of a server with this certificate.
    ///
    /// The TLS implementation refuses the configuration.
    /// The TLS implementation refuses.
    pub fn server_config(self: &Arc<Self>) -> Result<ServerConfig, TlsError> {
        let versions = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?;
        Ok(versions.with_no_client_auth().with_cert_resolver(Arc::clone(self) as _))
    }

    /// Reloads the files when they change, and on SIGHUP. Never returns. Open connections continue
    /// with the old certificate; an invalid pair is ignored.
    pub async fn reload_loop(self: Arc<Self>) {
        let mut told = signal(SignalKind::hangup()).ok();
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        loop {
            let asked = async {
                match &mut told {
                    Some(told) => told.recv().await,
                    None => std::future::pending().await,
                }
            };
            let forced = tokio::select! {
                _ = ticks.tick() => false,
                _ = asked => true,
            };
            let this = Arc::clone(&self);
            if tokio::task::spawn_blocking(move || this.check_files(forced)).await.is_err() {
                tracing::warn!("cannot check the certificate's files for changes");
            }
        }
    }

    fn check_files(&self, forced: bool) {
        let now = stamps(&self.files);
        {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if *seen == now && !forced {
                return;
            }
            *seen = now;
        }
        match read(&self.files) {
            Ok(pair) => {
                self.pair.store(Arc::new(pair));
                tracing::info!("reloaded the certificate: new connections use it");
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, cause, "cannot reload the certificate: keeping the old one");
            }
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.pair.load_full())
    }
}

fn stamps(files: &TlsConfig) -> Stamps {
    [&files.certificate, &files.key].map(|file| {
        let about = std::fs::metadata(file).ok()?;
        Some((about.modified().ok()?, about.len()))
    })
}

fn read(files: &TlsConfig) -> Result<CertifiedKey, TlsError> {
    let text = bytes("tls.certificate", &files.certificate)?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&text).filter_map(Result::ok).collect();
    let empty = |key, file: &Path, wanted| TlsError::Empty { key, file: file.to_owned(), wanted };
    if chain.is_empty() {
        return Err(empty("tls.certificate", &files.certificate, "certificate"));
    }
    let text = bytes("tls.key", &files.key)?;
    let key = PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| empty("tls.key", &files.key, "private key"))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|source| TlsError::Pair {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        source,
    })
}

fn bytes(key: &'static str, file: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file).map_err(|source| TlsError::Unreadable {
        key,
        file: file.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(folder: &Path, name: &str) -> TlsConfig {
        let pair = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let certificate = folder.join(format!("{name}.pem"));
        let key = folder.join(format!("{name}.key"));
        std::fs::write(&certificate, pair.cert.pem()).unwrap();
        std::fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
        TlsConfig { certificate, key, ..TlsConfig::default() }
    }

    #[test]
    fn unusable_files_are_reported_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let one = made(folder.path(), "one");
        let other = made(folder.path(), "other");
        assert!(Certificate::load(&TlsConfig::default()).unwrap().is_none());
        assert!(Certificate::load(&one).unwrap().is_some());
        let told = |certificate: &Path, key: &Path| {
            let files = TlsConfig {
                certificate: certificate.to_owned(),
                key: key.to_owned(),
                ..TlsConfig::default()
            };
            Certificate::load(&files).unwrap_err().to_string()
        };
        let none = folder.path().join("none");
        assert!(told(&none, &one.key).starts_with("`tls.certificate`: cannot read "));
        assert!(told(&one.certificate, &none).starts_with("`tls.key`: cannot read "));
        assert!(told(&one.key, &one.key).contains("one.key holds no certificate in PEM"));
        let crossed = told(&one.certificate, &one.certificate);
        assert!(crossed.contains("one.pem holds no private key in PEM"), "{crossed}");
        let crossed = told(&one.certificate, &other.key);
        assert!(crossed.ends_with("use the pair that was made together"), "{crossed}");
    }

    #[test]
    fn an_invalid_pair_is_ignored_and_a_valid_one_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let one = made(folder.path(), "one");
        let other = made(folder.path(), "other");
        let certificate = Certificate::load(&one).unwrap().unwrap();
        let first = certificate.pair.load_full().cert.clone();
        std::fs::copy(&other.certificate, &one.certificate).unwrap();
        certificate.check_files(true);
        assert_eq!(certificate.pair.load().cert, first, "its key is missing yet");
        std::fs::copy(&other.key, &one.key).unwrap();
        certificate.check_files(true);
        assert_ne!(certificate.pair.load().cert, first);
    }
}
