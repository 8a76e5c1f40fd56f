//! Certificate that the server signs itself, for browsers on the local network: stored in the data
//! folder, and renewed before it expires or if the server's names change. Not for its use, which is
//! that of any certificate.

use std::net::IpAddr;
use std::path::Path;

use anyhow::Context as _;
use hearken_base::private_files;
use jiff::{SignedDuration, Timestamp};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use time::OffsetDateTime;

use crate::config::TlsConfig;

/// Files in the data folder: the certificate, its key, and the names and expiry for which they were created.
const CERTIFICATE: &str = "tls_certificate.pem";
const KEY: &str = "tls_key.pem";
const MADE_FOR: &str = "tls_made_for";
/// Validity of a certificate; browsers accept no longer ones.
const VALID: SignedDuration = SignedDuration::from_hours(24 * 397);
/// Remaining validity below which a certificate is renewed.
const RENEWED: SignedDuration = SignedDuration::from_hours(24 * 30);

/// Returns the names of this machine: its host name, its addresses, and the configured ones.
pub(crate) fn names(configured: &[String], address: IpAddr) -> Vec<String> {
    let host = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".into(), "::1".into()];
    if !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c)) {
        names.extend([format!("{host}.local"), host]);
    }
    names.push(address.to_string());
    names.extend(configured.iter().cloned());
    names.sort();
    names.dedup();
    names
}

/// Creates the certificate for these names, unless a valid one exists; returns its files.
///
/// # Errors
/// A name cannot be used in a certificate, or the files cannot be written.
pub(crate) fn ensure(data_dir: &Path, names: &[String]) -> anyhow::Result<TlsConfig> {
    let file = |name: &str| data_dir.join(name);
    let files =
        TlsConfig { certificate: file(CERTIFICATE), key: file(KEY), ..TlsConfig::default() };
    let now = Timestamp::now();
    let made_for = std::fs::read_to_string(file(MADE_FOR)).unwrap_or_default();
    if is_good(&made_for, names, now) && files.certificate.is_file() && files.key.is_file() {
        return Ok(files);
    }
    let until = now + VALID;
    let (certificate, key) = signed(names, now, until)?;
    private_files::create_folder(data_dir)?;
    let made_for = format!("{until}\n{}\n", names.join("\n"));
    for (name, text) in
        [(MADE_FOR, String::new()), (KEY, key), (CERTIFICATE, certificate), (MADE_FOR, made_for)]
    {
        write(&file(name), &text)
            .with_context(|| format!("cannot write {}", file(name).display()))?;
    }
    tracing::info!(certificate = %files.certificate.display(), ?names, "made a certificate for HTTPS: browsers ask once whether to trust it");
    Ok(files)
}

/// Returns true if a certificate with this note is for these names, and valid for long enough.
fn is_good(made_for: &str, names: &[String], now: Timestamp) -> bool {
    let Some((until, noted)) = made_for.split_once('\n') else { return false };
    let lasts = until.parse::<Timestamp>().is_ok_and(|until| until.duration_since(now) > RENEWED);
    lasts && noted.lines().eq(names.iter().map(String::as_str))
}

fn signed(names: &[String], from: Timestamp, until: Timestamp) -> anyhow::Result<(String, String)> {
    let mut params = CertificateParams::new(names)
        .context("a name of `http.host_names` cannot be used in a certificate")?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Hearken");
    let date = |at: Timestamp| OffsetDateTime::from_unix_timestamp(at.as_second());
    // Clocks of clients may be behind.
    params.not_before = date(from - SignedDuration::from_hours(24))?;
    params.not_after = date(until)?;
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// Writes a file that only its owner can read, in place of an existing one.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    private_files::write_new(file, text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    #[test]
    fn a_certificate_is_reused_while_valid_and_renewed_for_other_names() {
        let folder = tempfile::tempdir().unwrap();
        let read = |files: &TlsConfig| std::fs::read(&files.certificate).unwrap();
        let names = names(&["voice.example".into()], "192.0.2.7".parse().unwrap());
        assert!(names.contains(&"voice.example".into()) && names.contains(&"192.0.2.7".into()));
        let first = ensure(folder.path(), &names).unwrap();
        let kept = read(&first);
        assert_eq!(read(&ensure(folder.path(), &names).unwrap()), kept);
        crate::tls::Certificate::load(&first).unwrap().unwrap();
        let others = vec!["localhost".to_owned()];
        assert_ne!(read(&ensure(folder.path(), &others).unwrap()), kept);
        // Files from a run that crashed between two writes are not used.
        std::fs::write(folder.path().join(MADE_FOR), "").unwrap();
        let before = read(&first);
        assert_ne!(read(&ensure(folder.path(), &others).unwrap()), before);
    }

    #[test]
    fn a_certificate_that_expires_soon_is_renewed() {
        let names = ["localhost".to_owned()];
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let noted =
            |days: i64| format!("{}\nlocalhost\n", now + SignedDuration::from_hours(24 * days));
        assert!(is_good(&noted(31), &names, now));
        for bad in [noted(29), noted(-1), "soon\nlocalhost\n".into(), String::new()] {
            assert!(!is_good(&bad, &names, now), "{bad}");
        }
    }
}
