//! Tokens of tool clients and of cameras, signed with the server's secret. Each kind has its own
//! key: a token of one kind is never valid for the other, nor for a device's connection. Not for
//! the place of a token in a request.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hearken_base::Secret;
use hearken_base::wall_clock::{self, DateRange};
use hmac::{Hmac, Mac as _};
use jiff::Timestamp;
use sha2::Sha256;

/// Lifetime of a camera's token.
const VISION_LIFETIME: Duration = Duration::from_secs(3_600);
/// Tolerance for clocks that are ahead of ours, in seconds.
const CLOCK_SKEW_SECONDS: u64 = 300;
/// Maximum length of an agent's name, in bytes.
pub const MAX_AGENT_BYTES: usize = 64;

/// Reason why a token is refused. The messages contain nothing that helps a forger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenReadError {
    /// There is no token.
    #[error("the token is missing")]
    Missing,
    /// The token is malformed.
    #[error("the token is malformed")]
    Malformed,
    /// The token is forged, or made for another server or owner.
    #[error("the token is forged, or belongs to another")]
    Wrong,
    /// The token has expired.
    #[error("the token has expired")]
    Expired,
    /// The token was revoked.
    #[error("the token was revoked")]
    Revoked,
}

/// Returns the seconds since 1970.
fn in_seconds(date: Timestamp) -> u64 {
    u64::try_from(date.as_second()).unwrap_or_default()
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

/// Derives the key of one kind of token.
fn key_for(secret: &Secret, kind: &str) -> Hmac<Sha256> {
    let key = keyed(secret.expose().as_bytes()).chain_update(kind).finalize().into_bytes();
    keyed(&key)
}

fn signature(key: &Hmac<Sha256>, text: &str) -> String {
    URL_SAFE_NO_PAD.encode(key.clone().chain_update(text).finalize().into_bytes())
}

/// Verifies a signature in constant time.
fn verified(key: &Hmac<Sha256>, text: &str, signature: &str) -> Result<(), TokenReadError> {
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenReadError::Malformed)?;
    key.clone().chain_update(text).verify_slice(&signature).map_err(|_| TokenReadError::Wrong)
}

/// Content of a valid token of a tool client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolClientToken {
    /// Agent whose tools the client brings.
    pub agent: String,
    /// Serial of the token.
    pub serial: String,
}

/// Returns the name of the tool clients with the token of this serial in `tools_off` and in policies:
/// they cannot change it, unlike the names that they give themselves. `None` for an unknown serial.
pub(super) fn key_of_token(serial: &str) -> Option<String> {
    (!serial.is_empty()).then(|| format!("token:{serial}"))
}

/// Tokens with which tool clients connect: `agent.serial.signature`, the agent in base64url. They
/// are valid until they are revoked by their serial, in the configuration or in the store.
#[derive(Clone)]
pub struct AgentTokens {
    key: Hmac<Sha256>,
    revoked: Vec<String>,
}

impl AgentTokens {
    /// Creates a verifier for tokens signed with this secret, except those with a serial that the
    /// configuration revokes.
    pub fn new(secret: &Secret, revoked: &[String]) -> Self {
        Self { key: key_for(secret, "hearken/tools/1"), revoked: revoked.to_vec() }
    }

    /// Creates a token for an agent, and returns it with its serial. Returns `None` if the agent's
    /// name is empty or longer than 64 bytes.
    pub fn mint(&self, agent: &str) -> Option<(String, String)> {
        if agent.is_empty() || agent.len() > MAX_AGENT_BYTES {
            return None;
        }
        let serial: String = uuid::Uuid::new_v4().simple().to_string().chars().take(12).collect();
        let body = format!("{}.{serial}", URL_SAFE_NO_PAD.encode(agent));
        Some((format!("{body}.{}", signature(&self.key, &body)), serial))
    }

    /// Verifies a token and returns its content. Does not check whether the store revokes it.
    ///
    /// # Errors
    /// See [`TokenReadError`].
    pub fn read(&self, token: &str) -> Result<ToolClientToken, TokenReadError> {
        if token.is_empty() {
            return Err(TokenReadError::Missing);
        }
        let (body, signature) = token.rsplit_once('.').ok_or(TokenReadError::Malformed)?;
        verified(&self.key, body, signature)?;
        let (agent, serial) = body.split_once('.').ok_or(TokenReadError::Malformed)?;
        if self.revoked.iter().any(|s| s == serial) {
            return Err(TokenReadError::Revoked);
        }
        let agent = URL_SAFE_NO_PAD.decode(agent).map_err(|_| TokenReadError::Malformed)?;
        let agent = String::from_utf8(agent).map_err(|_| TokenReadError::Malformed)?;
        Ok(ToolClientToken { agent, serial: serial.to_owned() })
    }
}

/// Tokens with which a device's camera uploads pictures: `signature.seconds`, valid for an hour and
/// for that device only.
#[derive(Clone)]
pub struct VisionTokens {
    key: Hmac<Sha256>,
}

impl VisionTokens {
    /// Creates and verifies tokens signed with this secret.
    pub fn new(secret: &Secret) -> Self {
        Self { key: key_for(secret, "hearken/vision/1") }
    }

    /// Creates a token for this device now. The case of the device id does not matter.
    pub fn mint(&self, device_id: &str) -> String {
        self.mint_at(device_id, in_seconds(wall_clock::now()))
    }

    fn mint_at(&self, device_id: &str, seconds: u64) -> String {
        let text = format!("{}|{seconds}", device_id.to_lowercase());
        format!("{}.{seconds}", signature(&self.key, &text))
    }

    /// Checks that the token was made by this server for this device, less than an hour ago.
    /// Returns the time when it was made. Does not check whether it was revoked.
    ///
    /// # Errors
    /// See [`TokenReadError`].
    pub fn check(&self, token: &str, device_id: &str) -> Result<Timestamp, TokenReadError> {
        let made = i64::try_from(self.check_at(token, device_id, wall_clock::dates())?);
        made.ok().and_then(|at| Timestamp::from_second(at).ok()).ok_or(TokenReadError::Malformed)
    }

    fn check_at(
        &self,
        token: &str,
        device_id: &str,
        dates: DateRange,
    ) -> Result<u64, TokenReadError> {
        if token.is_empty() {
            return Err(TokenReadError::Missing);
        }
        let (signature, seconds) = token.split_once('.').ok_or(TokenReadError::Malformed)?;
        let digits = seconds.bytes().all(|b| b.is_ascii_digit());
        let made: u64 = seconds.parse().ok().filter(|_| digits).ok_or(TokenReadError::Malformed)?;
        verified(&self.key, &format!("{}|{seconds}", device_id.to_lowercase()), signature)?;
        let fresh = made <= in_seconds(dates.latest).saturating_add(CLOCK_SKEW_SECONDS)
            && in_seconds(dates.earliest).saturating_sub(made) <= VISION_LIFETIME.as_secs();
        if fresh { Ok(made) } else { Err(TokenReadError::Expired) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_790_000_000;

    fn at(seconds: u64) -> DateRange {
        Timestamp::from_second(i64::try_from(seconds).unwrap()).unwrap().into()
    }

    fn secret() -> Secret {
        Secret::new("a secret of some length")
    }

    #[test]
    fn a_tool_clients_token_names_its_agent_until_it_is_revoked() {
        let tokens = AgentTokens::new(&secret(), &[]);
        let (token, serial) = tokens.mint("客厅 1").unwrap();
        let said = ToolClientToken { agent: "客厅 1".into(), serial: serial.clone() };
        assert_eq!(tokens.read(&token), Ok(said));
        let stricter = AgentTokens::new(&secret(), &[serial]);
        assert_eq!(stricter.read(&token), Err(TokenReadError::Revoked));
        let (another, _) = tokens.mint("客厅 1").unwrap();
        assert_eq!(stricter.read(&another).unwrap().agent, "客厅 1");
        let other = AgentTokens::new(&Secret::new("another secret"), &[]);
        assert_eq!(other.read(&token), Err(TokenReadError::Wrong));
        assert_eq!((tokens.mint(""), tokens.mint(&"x".repeat(65))), (None, None));
    }

    #[test]
    fn no_part_of_a_token_can_be_changed() {
        let tokens = AgentTokens::new(&secret(), &[]);
        let (token, serial) = tokens.mint("kitchen").unwrap();
        let (_, signature) = token.rsplit_once('.').unwrap();
        let forged = format!("{}.{serial}.{signature}", URL_SAFE_NO_PAD.encode("cellar"));
        assert_eq!(tokens.read(&forged), Err(TokenReadError::Wrong));
        for (text, error) in [
            ("", TokenReadError::Missing),
            ("x", TokenReadError::Malformed),
            ("a.b.!", TokenReadError::Malformed),
            ("a.b.AAAA", TokenReadError::Wrong),
        ] {
            assert_eq!(tokens.read(text), Err(error), "{text}");
        }
    }

    #[test]
    fn a_cameras_token_is_valid_for_its_device_and_an_hour() {
        let tokens = VisionTokens::new(&secret());
        let token = tokens.mint_at("AA:bb", NOW);
        assert_eq!(tokens.check_at(&token, "aa:BB", at(NOW + 3_600)), Ok(NOW));
        assert_eq!(tokens.check_at(&token, "aa:bb", at(NOW + 3_601)), Err(TokenReadError::Expired));
        assert_eq!(tokens.check_at(&token, "aa:bb", at(NOW - 301)), Err(TokenReadError::Expired));
        let jumped = DateRange { earliest: at(NOW).earliest, latest: at(NOW + 7_200).latest };
        assert_eq!(tokens.check_at(&token, "aa:bb", jumped), Ok(NOW), "the clock jumped ahead");
        assert_eq!(tokens.check_at(&token, "aa:bc", at(NOW)), Err(TokenReadError::Wrong));
        assert_eq!(tokens.check("", "aa:bb"), Err(TokenReadError::Missing));
        assert_eq!(tokens.check("x", "aa:bb"), Err(TokenReadError::Malformed));
        assert_eq!(tokens.check("AAAA.+1", "aa:bb"), Err(TokenReadError::Malformed));
        assert!(tokens.check(&tokens.mint("aa:bb"), "aa:bb").is_ok());
    }

    #[test]
    fn a_token_of_one_kind_is_refused_as_the_other() {
        let agents = AgentTokens::new(&secret(), &[]);
        let cameras = VisionTokens::new(&secret());
        assert_eq!(agents.read(&cameras.mint("a")), Err(TokenReadError::Malformed));
        let (token, _) = agents.mint("a").unwrap();
        assert!(cameras.check(&token, "a").is_err());
    }

    proptest! {
        #[test]
        fn every_text_is_refused_without_a_panic(text in ".*", device in ".*") {
            prop_assert!(VisionTokens::new(&secret()).check(&text, &device).is_err());
            prop_assert!(AgentTokens::new(&secret(), &[]).read(&text).is_err());
        }
    }
}
