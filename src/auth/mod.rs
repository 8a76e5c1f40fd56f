//! Device tokens: proof that our OTA response admitted a device. The format is that of the
//! reference server (xinnan-tech/xiaozhi-esp32-server), so its tools can create and read the
//! tokens: `base64url(HMAC-SHA256(secret, "client|device|seconds")) + "." + seconds`. Not for where
//! a request carries its token.

mod secrets_file;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hearken_base::Secret;
use hearken_base::wall_clock::DateRange;
use hmac::{Hmac, Mac as _};
use jiff::{SignedDuration, Timestamp};
use sha2::Sha256;

pub use secrets_file::{SecretFileError, load_or_create};

/// Tolerance for clocks that are ahead of this server's.
pub const CLOCK_SKEW: Duration = Duration::from_secs(300);

/// Character that no device id may contain: it separates the signed fields.
const SEPARATOR: char = '|';

/// Reason why a token is refused. The messages are human-readable and contain nothing that helps a forger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// There is no token.
    #[error("the token is missing: ask /xiaozhi/ota/ for one")]
    Missing,
    /// The token is malformed.
    #[error("the token is malformed")]
    Malformed,
    /// The token has expired.
    #[error("the token has expired: ask /xiaozhi/ota/ for another")]
    Expired,
    /// The token's time of creation is in the future.
    #[error("the token was created in the future: compare the clocks of device and server")]
    Future,
    /// The token was made before its device was deleted, or its device now belongs to another client.
    #[error("the token was revoked: ask /xiaozhi/ota/ for another")]
    Revoked,
    /// The token is forged, or was made for another server, device or client.
    #[error("the token is forged, or belongs to another device, client or server")]
    Wrong,
}

/// Device tokens signed with one secret.
#[derive(Clone)]
pub struct Tokens {
    key: Hmac<Sha256>,
    lifetime: Duration,
}

impl Tokens {
    /// Creates a signer of tokens with this lifetime.
    pub fn new(secret: &Secret, lifetime: Duration) -> Self {
        Self { key: keyed(secret.expose().as_bytes()), lifetime }
    }

    /// Returns the lifetime of a token.
    pub fn lifetime(&self) -> Duration {
        self.lifetime
    }

    /// Creates a token for this device at this time. Device ids are case-insensitive. Returns
    /// `None` if the id contains `|` and cannot be signed.
    pub fn mint(&self, device_id: &str, client_id: &str, at: Timestamp) -> Option<String> {
        let mac = self.mac(device_id, client_id, at.as_second())?.finalize().into_bytes();
        Some(format!("{}.{}", URL_SAFE_NO_PAD.encode(mac), at.as_second()))
    }

    /// Checks that the token was made by this server for this device and client, and has not
    /// expired. Returns its creation time. Does not check for revocation.
    ///
    /// # Errors
    /// See [`TokenError`]. A forged token is reported as forged whatever its age.
    pub fn check(
        &self,
        token: &str,
        device_id: &str,
        client_id: &str,
        dates: impl Into<DateRange>,
    ) -> Result<Timestamp, TokenError> {
        let DateRange { earliest, latest } = dates.into();
        if token.is_empty() {
            return Err(TokenError::Missing);
        }
        let (mac, seconds) = token.split_once('.').ok_or(TokenError::Malformed)?;
        let mac = URL_SAFE_NO_PAD.decode(mac).map_err(|_| TokenError::Malformed)?;
        let digits = !seconds.is_empty() && seconds.bytes().all(|b| b.is_ascii_digit());
        let at: i64 = seconds.parse().ok().filter(|_| digits).ok_or(TokenError::Malformed)?;
        let expected = self.mac(device_id, client_id, at).ok_or(TokenError::Wrong)?;
        expected.verify_slice(&mac).map_err(|_| TokenError::Wrong)?;
        let age = |now: Timestamp| i128::from(now.as_second()) - i128::from(at);
        if age(latest) < -i128::from(CLOCK_SKEW.as_secs()) {
            return Err(TokenError::Future);
        }
        if age(earliest) > i128::from(self.lifetime.as_secs()) {
            return Err(TokenError::Expired);
        }
        Timestamp::from_second(at).map_err(|_| TokenError::Malformed)
    }

    fn mac(&self, device_id: &str, client_id: &str, seconds: i64) -> Option<Hmac<Sha256>> {
        if device_id.contains(SEPARATOR) {
            return None;
        }
        let device_id = device_id.to_lowercase();
        let signed = self.key.clone();
        Some(signed.chain_update(format!("{client_id}|{device_id}|{seconds}")))
    }
}

/// Returns the creation time of a new token: at least one second after the last revocation, because
/// tokens have a resolution of one second.
pub fn next_token_at(revoked_until: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let next = revoked_until.and_then(|at| at.checked_add(SignedDuration::from_secs(1)).ok());
    next.map_or(now, |next| next.max(now))
}

/// Creates an HMAC-SHA256 with this key.
fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

/// Returns true if the device answered our challenge with its burned-in key; compares in constant
/// time. `answer` is hexadecimal, as sent by firmware (`main/ota.cc`, activation version 2).
pub fn answers_challenge(key: &[u8], challenge: &str, answer: &str) -> bool {
    let Some(answer) = bytes_of_hex(answer) else { return false };
    keyed(key).chain_update(challenge).verify_slice(&answer).is_ok()
}

/// Decodes an even number of hexadecimal digits; `None` if the text is not that.
pub fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let digits = digits.filter(|d| !d.is_empty() && d.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Returns true if two secrets are equal. Takes constant time, so that the duration reveals nothing
/// about the matching part.
pub fn same(a: &str, b: &str) -> bool {
    let digest = |text: &str| keyed(b"compare").chain_update(text);
    digest(a).verify_slice(&digest(b).finalize().into_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: i64 = 86_400;
    const NOW: i64 = 1_790_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn tokens() -> Tokens {
        Tokens::new(&Secret::new("a secret of some length"), Duration::from_secs(30 * 86_400))
    }

    #[test]
    fn the_format_is_the_reference_servers() {
        // python3: base64.urlsafe_b64encode(hmac.new(b"key", b"client|aa:bb|1700000000",
        // hashlib.sha256).digest()).rstrip(b"=")
        let tokens = Tokens::new(&Secret::new("key"), Duration::from_secs(1));
        let token = tokens.mint("AA:BB", "client", at(1_700_000_000)).unwrap();
        assert_eq!(token, "rWfbnxfcJ3XIsrcm2OtK-M6kXy3mZAgK9YlLchIx9sk.1700000000");
    }

    #[test]
    fn a_token_is_valid_for_its_device_and_client_until_it_expires() {
        let tokens = tokens();
        let token = tokens.mint("aa:bb", "c", at(NOW)).unwrap();
        let check = |device, client, now| tokens.check(&token, device, client, at(now)).map(drop);
        assert_eq!(tokens.check(&token, "aa:bb", "c", at(NOW)), Ok(at(NOW)));
        assert_eq!(check("aa:bb", "c", NOW), Ok(()));
        assert_eq!(check("AA:BB", "c", NOW + 30 * DAY), Ok(()));
        assert_eq!(check("aa:bb", "c", NOW - 300), Ok(()));
        assert_eq!(check("aa:bb", "c", NOW - 301), Err(TokenError::Future));
        assert_eq!(check("aa:bb", "c", NOW + 30 * DAY + 1), Err(TokenError::Expired));
        assert_eq!(check("aa:bc", "c", NOW), Err(TokenError::Wrong));
        assert_eq!(check("aa:bb", "d", NOW), Err(TokenError::Wrong));
        // After a clock jump, expiry is checked at the earliest possible date, and a token from the
        // future at the latest.
        let within = |earliest, latest| DateRange { earliest: at(earliest), latest: at(latest) };
        for dates in [within(NOW, NOW + 300 * DAY), within(NOW - 3_600, NOW)] {
            assert_eq!(tokens.check(&token, "aa:bb", "c", dates), Ok(at(NOW)), "{dates:?}");
        }
        let other = Tokens::new(&Secret::new("another secret"), Duration::from_secs(1));
        assert_eq!(other.check(&token, "aa:bb", "c", at(NOW)), Err(TokenError::Wrong));
    }

    #[test]
    fn malformed_forged_and_expired_tokens_are_distinguished() {
        let tokens = tokens();
        let token = tokens.mint("d", "c", at(NOW)).unwrap();
        for (text, error) in [
            ("", TokenError::Missing),
            ("x", TokenError::Malformed),
            (".", TokenError::Malformed),
            ("!!!.17", TokenError::Malformed),
            ("AAAA.+17", TokenError::Malformed),
            ("AAAA.99999999999999999999", TokenError::Malformed),
            ("AAAA.17", TokenError::Wrong),
            (&format!("{token}0"), TokenError::Wrong),
            (&format!("{token}.1"), TokenError::Malformed),
        ] {
            assert_eq!(tokens.check(text, "d", "c", at(NOW)), Err(error), "{text}");
        }
    }

    #[test]
    fn fields_cannot_be_shifted_across_their_separator() {
        let tokens = tokens();
        assert_eq!(tokens.mint("b|c", "a", at(NOW)), None);
        let token = tokens.mint("c", "a|b", at(NOW)).unwrap();
        assert_eq!(tokens.check(&token, "b|c", "a", at(NOW)), Err(TokenError::Wrong));
    }

    #[test]
    fn a_challenge_is_answered_with_the_right_key_only() {
        let mac = keyed(&[7; 32]).chain_update("challenge").finalize().into_bytes();
        let hex: String = mac.iter().map(|b| format!("{b:02x}")).collect();
        assert!(answers_challenge(&[7; 32], "challenge", &hex));
        assert!(answers_challenge(&[7; 32], "challenge", &hex.to_uppercase()));
        assert!(!answers_challenge(&[8; 32], "challenge", &hex));
        assert!(!answers_challenge(&[7; 32], "another", &hex));
        assert!(!answers_challenge(&[7; 32], "challenge", "zz"));
        assert!(!answers_challenge(&[7; 32], "challenge", ""));
        assert!(!answers_challenge(&[7; 32], "challenge", &format!("{hex}0")), "half a byte");
        assert!(same("abc", "abc") && !same("abc", "abd") && !same("", "a"));
    }

    proptest! {
        #[test]
        fn any_text_is_refused_without_a_panic(text in ".*", device in ".*", client in ".*") {
            prop_assert!(tokens().check(&text, &device, &client, at(NOW)).is_err());
        }

        #[test]
        fn any_token_is_accepted_once_made(device in "[^|]*", client in ".*", age in 0..30 * DAY) {
            let tokens = tokens();
            let token = tokens.mint(&device, &client, at(NOW)).unwrap();
            prop_assert_eq!(tokens.check(&token, &device, &client, at(NOW + age)), Ok(at(NOW)));
        }
    }
}
