//! Access control of requests: devices by their token and the allow list, users by the admin token.
//! Not for the format of tokens, nor for rendering a refusal.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use actix_web::HttpRequest;
use hearken_base::{Secret, wall_clock};
use hearken_proto::fault::Fault;
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;

use crate::auth::{SecretFileError, TokenError, Tokens, load_or_create, same};
use crate::config::{AuthConfig, AuthRequired};
use crate::http::fault::{Refusal, refusal};
use crate::http::peer::Peer;
use crate::http::request_identity::{Caller, bearer, shows};

/// File name of the tokens' secret in the data folder.
pub const SECRET_FILE: &str = "secret";
/// File name of the admin token in the data folder.
pub const ADMIN_TOKEN_FILE: &str = "admin_token";

/// Access rules.
pub struct Auth {
    /// Keys for checking tokens; `None` if no tokens are required.
    keys: Option<Keys>,
    /// True if devices on this machine need no token, because no other machine can reach the server.
    open_to_machine: bool,
    /// Allowed device ids in lower case; empty allows all.
    allowed: HashSet<String>,
}

struct Keys {
    tokens: Tokens,
    admin: Secret,
}

/// Access to a group of routes whose document leaves authentication open.
#[derive(Debug, Clone)]
pub struct AccessRule {
    /// Section of its settings.
    pub section: &'static str,
    /// Token that clients must send; if empty, clients in private networks need none.
    pub token: Secret,
    /// True to accept clients of every network without a token.
    pub open_to_all: bool,
}

/// Reason why a request may use such routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// No tokens are required.
    Anybody,
    /// The request has the token of the routes, or the admin token.
    Credential,
    /// The routes are open to the client's network.
    Client,
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
        let keys = match config.required {
            AuthRequired::Never => None,
            AuthRequired::Auto | AuthRequired::Always => {
                let admin = admin_token(config, data_dir)?;
                Some(Keys { tokens: tokens(config, data_dir)?, admin })
            }
        };
        let open_to_machine = config.required == AuthRequired::Auto && is_loopback(host);
        let allowed = config.allowed_devices.iter().map(|id| id.trim().to_lowercase());
        Ok(Self { keys, open_to_machine, allowed: allowed.filter(|id| !id.is_empty()).collect() })
    }

    /// Returns the keys of devices' tokens, unless this request needs no token.
    fn device_keys(&self, request: &HttpRequest) -> Option<&Keys> {
        let open = self.open_to_machine && Peer::of(request) == Peer::Machine;
        self.keys.as_ref().filter(|_| !open)
    }

    /// Returns true if this request comes from outside this machine and its private networks, and
    /// tokens are required.
    pub(crate) fn is_from_outside(&self, request: &HttpRequest) -> bool {
        self.keys.is_some() && Peer::of(request) == Peer::Elsewhere
    }

    /// Returns true if a device must send its id.
    pub(crate) fn needs_id(&self, request: &HttpRequest) -> bool {
        self.needs_token(request) || !self.allowed.is_empty()
    }

    /// Returns true if a device must send its token.
    pub(crate) fn needs_token(&self, request: &HttpRequest) -> bool {
        self.device_keys(request).is_some()
    }

    /// Checks that the device is on the list of allowed devices, if there is one.
    pub(crate) fn allows(&self, device_id: &DeviceId) -> Result<(), Refusal> {
        if self.allowed.is_empty() || self.allowed.contains(device_id.as_str()) {
            return Ok(());
        }
        Err(refusal(Fault::Forbidden, "this device is not in `auth.allowed_devices`"))
    }

    /// Creates a token for a device; empty if this request needs none.
    pub(crate) fn mint(&self, request: &HttpRequest, caller: &Caller, at: Timestamp) -> String {
        let device_id = caller.device_id.as_str();
        let client_id = caller.client_id.expose();
        let token = self.device_keys(request).map(|k| k.tokens.mint(device_id, client_id, at));
        token.flatten().unwrap_or_default()
    }

    /// Creates a token for a device, independent of its network, and returns it with its expiry time.
    ///
    /// # Errors
    /// Tokens are not required, or the device id cannot be signed.
    pub(crate) fn mint_for(
        &self,
        caller: &Caller,
        at: Timestamp,
    ) -> Result<(String, Timestamp), Refusal> {
        let about = "no device needs a token: `auth.required` is \"never\"";
        let keys = self.keys.as_ref().ok_or_else(|| refusal(Fault::Conflict, about))?;
        let made = keys.tokens.mint(caller.device_id.as_str(), caller.client_id.expose(), at);
        let about = "a Device-Id must not contain `|`";
        let token = made.ok_or_else(|| refusal(Fault::BadRequest, about))?;
        Ok((token, at.saturating_add(keys.tokens.lifetime()).unwrap_or(Timestamp::MAX)))
    }

    /// Checks that a device's token was made by this server and has not expired. Returns its
    /// creation time; `None` if this request needs no token. Does not check for revocation.
    pub(crate) fn token_made_at(
        &self,
        request: &HttpRequest,
        caller: &Caller,
        token: &str,
    ) -> Result<Option<Timestamp>, TokenError> {
        let Some(keys) = self.device_keys(request) else { return Ok(None) };
        let device_id = caller.device_id.as_str();
        let client_id = caller.client_id.expose();
        keys.tokens.check(token, device_id, client_id, wall_clock::dates()).map(Some)
    }

    /// Checks that the request has the admin token, which is required on this machine, too.
    pub(crate) fn admin(&self, request: &HttpRequest) -> Result<(), Refusal> {
        if self.is_admin(request) {
            return Ok(());
        }
        let about = match bearer(request).as_str() {
            "" => "the admin token is missing",
            _ => "the admin token is wrong",
        };
        Err(refusal(Fault::Unauthorized, about))
    }

    /// Returns true if the request has the admin token, or none is required.
    fn is_admin(&self, request: &HttpRequest) -> bool {
        self.keys.as_ref().is_none_or(|keys| same(&bearer(request), keys.admin.expose()))
    }

    /// Checks that the request comes from this machine or its private networks, or has the admin token.
    pub(crate) fn near(&self, request: &HttpRequest) -> Result<(), Refusal> {
        if Peer::of(request) == Peer::Elsewhere { self.admin(request) } else { Ok(()) }
    }

    /// Checks that the request may use a group of routes: with the group's token or the admin
    /// token; if the group has no token, also without one from this machine and its private
    /// networks.
    ///
    /// # Errors
    /// Returns what the client must send.
    pub(crate) fn admit(
        &self,
        request: &HttpRequest,
        rule: &AccessRule,
    ) -> Result<Admission, String> {
        let AccessRule { section, token, open_to_all } = rule;
        let is_admin = self.keys.is_some() && self.is_admin(request);
        if !token.is_empty() {
            let admitted = shows(request, token) || is_admin;
            return if admitted {
                Ok(Admission::Credential)
            } else {
                Err(format!("send `{section}.token`"))
            };
        }
        if is_admin {
            return Ok(Admission::Credential);
        }
        if self.keys.is_none() {
            return Ok(Admission::Anybody);
        }
        if *open_to_all || Peer::of(request) != Peer::Elsewhere {
            return Ok(Admission::Client);
        }
        Err(format!(
            "requests from other networks send `{section}.token`, which is not set, or the admin \
             token (see `{section}.open_to_all`)"
        ))
    }

    /// Returns true if one of these tokens is the admin token.
    pub(crate) fn has_admin_token(&self, tokens: &[String]) -> bool {
        let is_admins = |keys: &Keys| tokens.iter().any(|token| same(token, keys.admin.expose()));
        self.keys.as_ref().is_some_and(is_admins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::peer::tests::request;

    const ADMIN: &str = "the admin token of tests";

    fn auth(required: AuthRequired, host: &str, folder: &Path) -> Auth {
        let admin_token = Secret::new(ADMIN);
        let config = AuthConfig { required, admin_token, ..AuthConfig::default() };
        Auth::new(&config, host, folder).unwrap()
    }

    #[test]
    fn only_devices_on_this_machine_need_no_token() {
        let folder = tempfile::tempdir().unwrap();
        let needs = |required, host: &str, request: &HttpRequest| {
            auth(required, host, folder.path()).needs_id(request)
        };
        let local = request("127.0.0.1", &[]);
        let forwarded = request("127.0.0.1", &[("x-forwarded-for", "127.0.0.1")]);
        for host in ["127.0.0.1", "127.8.0.1", "::1", "[::1]", "localhost"] {
            assert!(!needs(AuthRequired::Auto, host, &local), "{host}");
            assert!(needs(AuthRequired::Auto, host, &forwarded), "{host}");
            assert!(needs(AuthRequired::Always, host, &local), "{host}");
        }
        for host in ["0.0.0.0", "::", "192.168.1.2", "hearken.local", "localhost.evil"] {
            assert!(needs(AuthRequired::Auto, host, &local), "{host}");
            assert!(!needs(AuthRequired::Never, host, &local), "{host}");
        }
    }

    #[test]
    fn the_admin_token_is_required_on_this_machine_too() {
        let folder = tempfile::tempdir().unwrap();
        let auth_of = |required| auth(required, "127.0.0.1", folder.path());
        let bearer = format!("Bearer {ADMIN}");
        let with = request("127.0.0.1", &[("authorization", &bearer)]);
        let wrong = request("127.0.0.1", &[("authorization", "Bearer x")]);
        let without = request("127.0.0.1", &[]);
        for required in [AuthRequired::Auto, AuthRequired::Always] {
            assert!(auth_of(required).admin(&with).is_ok());
            assert!(auth_of(required).admin(&wrong).is_err());
            assert!(auth_of(required).admin(&without).is_err());
        }
        let is_one_of = |tokens: &[&str]| {
            let tokens: Vec<String> = tokens.iter().copied().map(str::to_owned).collect();
            auth_of(AuthRequired::Auto).has_admin_token(&tokens)
        };
        assert!(is_one_of(&["x", ADMIN]) && !is_one_of(&["x", ""]) && !is_one_of(&[]));
        assert!(auth_of(AuthRequired::Never).admin(&without).is_ok());
        let near = |request: &HttpRequest| auth_of(AuthRequired::Auto).near(request).is_ok();
        assert!(near(&without) && near(&request("192.168.1.9", &[])) && near(&with));
        assert!(!near(&request("203.0.113.9", &[])));
    }

    #[test]
    fn routes_without_a_token_are_open_to_private_networks() {
        let folder = tempfile::tempdir().unwrap();
        let auth = auth(AuthRequired::Auto, "0.0.0.0", folder.path());
        let admits = |token: &str, open_to_all: bool, request: &HttpRequest| {
            let rule = AccessRule { section: "gateway", token: Secret::new(token), open_to_all };
            auth.admit(request, &rule).is_ok()
        };
        let near =
            [request("127.0.0.1", &[]), request("192.168.1.9", &[]), request("10.0.0.1", &[])];
        let forwarded = request("127.0.0.1", &[("x-forwarded-for", "192.168.1.9")]);
        let far = request("203.0.113.9", &[]);
        assert!(near.iter().all(|request| admits("", false, request)));
        assert!(!admits("", false, &forwarded) && !admits("", false, &far));
        assert!(admits("", true, &forwarded) && admits("", true, &far));
        let bearer = format!("Bearer {ADMIN}");
        let admin = request("203.0.113.9", &[("authorization", &bearer)]);
        assert!(admits("", false, &admin) && admits("t", false, &admin));
        assert!(near.iter().all(|request| !admits("t", true, request)));
        assert!(admits("t", false, &request("203.0.113.9", &[("authorization", "Bearer t")])));
    }

    #[test]
    fn secrets_are_stored_unless_they_are_configured() {
        let folder = tempfile::tempdir().unwrap();
        let secret = Secret::new("a secret of some length");
        let config =
            AuthConfig { secret: secret.clone(), admin_token: secret, ..AuthConfig::default() };
        Auth::new(&config, "0.0.0.0", folder.path()).unwrap();
        let never = AuthConfig { required: AuthRequired::Never, ..AuthConfig::default() };
        Auth::new(&never, "0.0.0.0", folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        Auth::new(&AuthConfig::default(), "127.0.0.1", folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
