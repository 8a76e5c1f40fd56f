//! Access control of requests: devices by their token and the list of allowed devices, users by the
//! admin token. Not for the format of tokens, nor for the rendering of a refusal.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::header;
use hearken_base::Secret;
use hearken_proto::fault::Fault;
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;

use super::fault::{Refusal, refusal};
use super::middleware::middleware_state;
use super::request_identity::{Caller, bearer, bearer_in, shows};
use crate::auth::{SecretFileError, TokenError, Tokens, load_or_create, same};
use crate::config::{AuthConfig, AuthRequired};

/// File name of the tokens' secret in the data folder.
const SECRET_FILE: &str = "secret";
/// File name of the admin token in the data folder.
pub const ADMIN_TOKEN_FILE: &str = "admin_token";

/// Access rules.
pub struct Auth {
    /// Keys for checking tokens; `None` if no token is required.
    keys: Option<Keys>,
    /// Allowed device ids in lower case; empty allows all.
    allowed: HashSet<String>,
}

struct Keys {
    tokens: Tokens,
    admin: Secret,
}

/// State of a device's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenState {
    /// The token is valid, or none is required.
    Known,
    /// The token is missing or invalid.
    Refused(TokenError),
}

/// Returns the secret with which a server with this configuration signs its tokens. Creates and
/// stores it if none is configured.
///
/// # Errors
/// The secret can neither be read nor stored.
pub fn secret(config: &AuthConfig, data_dir: &Path) -> Result<Secret, SecretFileError> {
    if config.secret.is_empty() {
        load_or_create(data_dir, SECRET_FILE)
    } else {
        Ok(config.secret.clone())
    }
}

/// Returns the admin token of a server with this configuration. Creates and stores it if none is
/// configured.
///
/// # Errors
/// The token can neither be read nor stored.
pub fn admin_token(config: &AuthConfig, data_dir: &Path) -> Result<Secret, SecretFileError> {
    if config.admin_token.is_empty() {
        load_or_create(data_dir, ADMIN_TOKEN_FILE)
    } else {
        Ok(config.admin_token.clone())
    }
}

/// Creates the signer of device tokens for this configuration.
///
/// # Errors
/// The secret can neither be read nor stored.
pub fn tokens(config: &AuthConfig, data_dir: &Path) -> Result<Tokens, SecretFileError> {
    Ok(Tokens::new(&secret(config, data_dir)?, lifetime(config)))
}

fn lifetime(config: &AuthConfig) -> Duration {
    Duration::from_secs(u64::from(config.token_days) * 86_400)
}

/// Returns true if only this machine can reach the address.
fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl Auth {
    /// Creates the access rules of this configuration, for a server that listens on `host`. Creates
    /// secrets only if they are needed.
    ///
    /// # Errors
    /// A secret can neither be read nor stored.
    pub fn new(config: &AuthConfig, host: &str, data_dir: &Path) -> Result<Self, SecretFileError> {
        let required = match config.required {
            AuthRequired::Auto => !is_loopback(host),
            AuthRequired::Always => true,
            AuthRequired::Never => false,
        };
        let keys = if required {
            let admin = admin_token(config, data_dir)?;
            Some(Keys { tokens: tokens(config, data_dir)?, admin })
        } else {
            None
        };
        let allowed = config.allowed_devices.iter().map(|id| id.trim().to_lowercase());
        Ok(Self { keys, allowed: allowed.filter(|id| !id.is_empty()).collect() })
    }

    /// Returns true if devices need a token, and users the admin token.
    pub fn required(&self) -> bool {
        self.keys.is_some()
    }

    /// Returns true if a device must send its id.
    pub(super) fn needs_id(&self) -> bool {
        self.required() || !self.allowed.is_empty()
    }

    /// Checks that the device is on the list of allowed devices, if there is one.
    pub(super) fn allows(&self, device_id: &DeviceId) -> Result<(), Refusal> {
        if self.allowed.is_empty() || self.allowed.contains(device_id.as_str()) {
            return Ok(());
        }
        Err(refusal(Fault::Forbidden, "this device is not in `auth.allowed_devices`"))
    }

    /// Creates a token for a device; empty if none is required.
    pub(super) fn mint(&self, caller: &Caller, now: Timestamp) -> String {
        let device_id = caller.device_id.as_str();
        let token = self.keys.as_ref().map(|k| k.tokens.mint(device_id, &caller.client_id, now));
        token.flatten().unwrap_or_default()
    }

    /// Checks the token of a device.
    pub(super) fn standing(&self, caller: &Caller, token: &str, now: Timestamp) -> TokenState {
        let Some(keys) = &self.keys else { return TokenState::Known };
        let device_id = caller.device_id.as_str();
        match keys.tokens.check(token, device_id, &caller.client_id, now) {
            Ok(()) => TokenState::Known,
            Err(error) => TokenState::Refused(error),
        }
    }

    /// Checks that the request has the admin token, and does not come from a page of another site
    /// in a user's browser.
    pub(super) fn admin(&self, request: &HttpRequest) -> Result<(), Refusal> {
        from_no_other_site(request)?;
        let Some(keys) = &self.keys else { return Ok(()) };
        let token = bearer(request);
        if token.is_empty() {
            return Err(refusal(Fault::Unauthorized, "the admin token is missing"));
        }
        if !same(&token, keys.admin.expose()) {
            return Err(refusal(Fault::Unauthorized, "the admin token is wrong"));
        }
        Ok(())
    }

    /// Checks that the request has this token of applications, if there is one, and does not come
    /// from a page of another site.
    pub(super) fn application(&self, request: &HttpRequest, token: &Secret) -> Result<(), Refusal> {
        from_no_other_site(request)?;
        if shows(request, token) {
            return Ok(());
        }
        Err(refusal(Fault::Unauthorized, "applications show `chat.token`"))
    }

    /// Checks that the request may use our tools: with the admin token, or a device's own token, in
    /// one of these headers; and not from a page of another site.
    pub(super) fn tool_user(
        &self,
        request: &HttpRequest,
        headers: &[&str],
        now: Timestamp,
    ) -> Result<(), Refusal> {
        from_no_other_site(request)?;
        let Some(keys) = &self.keys else { return Ok(()) };
        let tokens = headers.iter().map(|name| bearer_in(request, name));
        let tokens: Vec<String> = tokens.filter(|token| !token.is_empty()).collect();
        if tokens.iter().any(|token| same(token, keys.admin.expose())) {
            return Ok(());
        }
        if let Ok(caller) = Caller::from_request(request)
            && tokens.iter().any(|token| self.standing(&caller, token, now) == TokenState::Known)
        {
            return self.allows(&caller.device_id);
        }
        let about = "use the admin token, or a device's token with its Device-Id";
        Err(refusal(Fault::Forbidden, about))
    }
}

pub(super) fn from_no_other_site(request: &HttpRequest) -> Result<(), Refusal> {
    if is_of_another_site(request) {
        return Err(refusal(Fault::Forbidden, "the request comes from a page of another site"));
    }
    Ok(())
}

/// Returns true if the request comes from a page of another site. A browser sends the page's origin
/// in `Origin`; other programs send none.
pub(super) fn is_of_another_site(request: &HttpRequest) -> bool {
    let text = |name| request.headers().get(name).map(|v| v.to_str().unwrap_or_default());
    let Some(origin) = text(header::ORIGIN) else { return false };
    let site = origin.split_once("://").map_or(origin, |(_, site)| site);
    Some(site) != text(header::HOST)
        && !middleware_state(request).is_some_and(|state| state.lets_in(origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_loopback_address_needs_no_token_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let required = |required, host: &str| {
            let config = AuthConfig { required, ..AuthConfig::default() };
            Auth::new(&config, host, folder.path()).unwrap().required()
        };
        for host in ["127.0.0.1", "127.8.0.1", "::1", "[::1]", "localhost"] {
            assert!(!required(AuthRequired::Auto, host), "{host}");
            assert!(required(AuthRequired::Always, host), "{host}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "both secrets are kept");
        for host in ["0.0.0.0", "::", "192.168.1.2", "hearken.local", "localhost.evil"] {
            assert!(required(AuthRequired::Auto, host), "{host}");
            assert!(!required(AuthRequired::Never, host), "{host}");
        }
    }

    #[test]
    fn nothing_is_kept_where_nothing_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        Auth::new(&AuthConfig::default(), "127.0.0.1", folder.path()).unwrap();
        let secret = Secret::new("a secret of some length");
        let config =
            AuthConfig { secret: secret.clone(), admin_token: secret, ..AuthConfig::default() };
        Auth::new(&config, "0.0.0.0", folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
