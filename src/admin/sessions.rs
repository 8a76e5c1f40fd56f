//! Sessions of the administrator: logging in with the password returns a short-lived access token
//! and a long-lived refresh token. Refresh tokens are single-use; reuse revokes the session. Both are
//! valid as long as their session is, which the store keeps for every instance of the server: it ends
//! with its log-out, and with the password that opened it. Not for HTTP.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hearken_base::Secret;
use hearken_store::{AuditEntry, SettingsStore, StoreError};
use hmac::{Hmac, Mac as _};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::Sha256;
use utoipa::ToSchema;

use super::token_signing;
use crate::auth::same;

/// The administrator's name.
pub const USERNAME: &str = "admin";
/// Audience of the tokens.
const AUDIENCE: &str = "hearken admin";
/// Text that is mixed with the server's secret to derive the signing key.
const PURPOSE: &[u8] = b"hearken admin tokens, version 1";
/// Text that is mixed with the signing key to derive that of the password's fingerprint.
const FINGERPRINT: &[u8] = b"fingerprint of the password";
/// Prefix of the names under which sessions are stored among the settings.
const SESSION: &str = "admin.session.";

/// Pair of tokens in the format of OAuth 2 (RFC 6749, section 5.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TokenPair {
    /// Access token, sent as `Authorization: Bearer`.
    pub access_token: String,
    /// Refresh token, exchanged once for the next pair.
    pub refresh_token: String,
    /// `bearer`.
    pub token_type: String,
    /// Lifetime of the access token, in seconds.
    pub expires_in: u64,
}

/// Reason why a log-in or a token is refused.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The name or the password is wrong.
    #[error("the username or the password is wrong")]
    Wrong,
    /// The token was not made by this server, is of the other kind, or was modified.
    #[error("the token is not valid: log in")]
    Token,
    /// The token has expired.
    #[error("the token has expired: refresh it, or log in")]
    Expired,
    /// The session was ended, or the token was used before.
    #[error("the session has ended: log in")]
    Over,
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Access,
    Refresh,
}

/// Claims of a token.
#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    sub: String,
    aud: String,
    kind: Kind,
    /// Id of the session.
    sid: String,
    /// Id of the token.
    jti: String,
    iat: i64,
    exp: i64,
}

/// Authenticated administrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Administrator {
    /// Name of the administrator.
    pub who: String,
    session: String,
}

/// Sessions of the administrator, and the lifetimes of their tokens.
pub struct AdminSessions {
    signing: EncodingKey,
    checking: DecodingKey,
    password: Secret,
    /// Keyed hash of the password. A session is valid while it is that of its log-in.
    fingerprint: String,
    access: Duration,
    refresh: Duration,
    store: Arc<dyn SettingsStore>,
    /// Lock: one refresh token is exchanged at a time.
    refresh_lock: tokio::sync::Mutex<()>,
}

/// Returns an HMAC-SHA256 of this text.
fn derived(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.chain_update(text).finalize().into_bytes().into()
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

fn entry(who: &str, what: &str, from: &str, at: Timestamp) -> AuditEntry {
    let details = json!({"from": from});
    AuditEntry { number: 0, at, who: who.to_owned(), what: what.to_owned(), details }
}

impl AdminSessions {
    /// Creates it with the administrator's password. Tokens are signed with a key derived from the
    /// server's secret.
    pub fn new(
        secret: &Secret,
        password: Secret,
        (access, refresh): (Duration, Duration),
        store: Arc<dyn SettingsStore>,
    ) -> Self {
        token_signing::choose_provider();
        let key = derived(secret.expose().as_bytes(), PURPOSE);
        let print = derived(&derived(&key, FINGERPRINT), password.expose().as_bytes());
        Self {
            fingerprint: URL_SAFE_NO_PAD.encode(print),
            signing: EncodingKey::from_secret(&key),
            checking: DecodingKey::from_secret(&key),
            password,
            access,
            refresh,
            store,
            refresh_lock: tokio::sync::Mutex::default(),
        }
    }

    /// Logs in with name and password, and returns two tokens. `from` is the client's address, for
    /// the audit log.
    ///
    /// # Errors
    /// The name or password is wrong, or the store failed.
    pub async fn log_in(
        &self,
        username: &str,
        password: &str,
        from: &str,
        now: Timestamp,
    ) -> Result<TokenPair, LoginError> {
        // Both are compared, whatever the result of the first.
        let known = [same(username, USERNAME), same(password, self.password.expose())];
        if known != [true, true] {
            return Err(LoginError::Wrong);
        }
        let session = uuid::Uuid::new_v4().to_string();
        let (pair, state) = self.pair(&session, now)?;
        let mut changes = vec![(format!("{SESSION}{session}"), Some(state))];
        changes.extend(self.expired(now).await?.into_iter().map(|name| (name, None)));
        self.store.change(&changes, &entry(USERNAME, "logged in", from, now)).await?;
        Ok(pair)
    }

    /// Returns the names of sessions that have expired, or were opened with another password.
    async fn expired(&self, now: Timestamp) -> Result<Vec<String>, StoreError> {
        let all = self.store.settings().await?;
        let expired = |(name, state): &(String, Value)| {
            let over = state["expires"].as_i64() <= Some(now.as_second());
            name.starts_with(SESSION) && (over || !self.is_open(state))
        };
        Ok(all.into_iter().filter(expired).map(|(name, _)| name).collect())
    }

    /// Returns true if a session was opened with the password of now.
    fn is_open(&self, state: &Value) -> bool {
        state["fingerprint"] == self.fingerprint
    }

    /// Returns the state of a session that has not ended.
    async fn session(&self, name: &str) -> Result<Value, LoginError> {
        let state = self.store.setting(name).await?;
        state.filter(|state| self.is_open(state)).ok_or(LoginError::Over)
    }

    /// Exchanges a refresh token for the next two tokens. A token that was used before ends its
    /// session.
    ///
    /// # Errors
    /// The token is invalid, its session is over, or the store failed.
    pub async fn refresh(
        &self,
        token: &str,
        from: &str,
        now: Timestamp,
    ) -> Result<TokenPair, LoginError> {
        let claims = self.claims(token, Kind::Refresh, now)?;
        let name = format!("{SESSION}{}", claims.sid);
        let _one_at_a_time = self.refresh_lock.lock().await;
        let state = self.session(&name).await?;
        if state["refresh"] != claims.jti {
            let told = entry(&claims.sub, "session ended: a token came twice", from, now);
            self.store.change(&[(name, None)], &told).await?;
            tracing::warn!("an administrator's refresh token was used twice: ended the session");
            return Err(LoginError::Over);
        }
        let (pair, state) = self.pair(&claims.sid, now)?;
        let told = entry(&claims.sub, "tokens refreshed", from, now);
        self.store.change(&[(name, Some(state))], &told).await?;
        Ok(pair)
    }

    /// Ends a session: its tokens become invalid.
    ///
    /// # Errors
    /// The store failed.
    pub async fn log_out(
        &self,
        administrator: &Administrator,
        from: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let name = format!("{SESSION}{}", administrator.session);
        self.store
            .change(&[(name, None)], &entry(&administrator.who, "logged out", from, now))
            .await
    }

    /// Verifies an access token and returns its administrator.
    ///
    /// # Errors
    /// The token is invalid or has expired, its session is over, or the store failed.
    pub async fn verify(&self, token: &str, now: Timestamp) -> Result<Administrator, LoginError> {
        let claims = self.claims(token, Kind::Access, now)?;
        self.session(&format!("{SESSION}{}", claims.sid)).await?;
        Ok(Administrator { who: claims.sub, session: claims.sid })
    }

    fn claims(&self, token: &str, kind: Kind, now: Timestamp) -> Result<Claims, LoginError> {
        let mut rules = Validation::new(Algorithm::HS256);
        rules.set_audience(&[AUDIENCE]);
        // The expiry is checked below, with the given time.
        rules.validate_exp = false;
        let decoded = decode::<Claims>(token, &self.checking, &rules);
        let claims = decoded.map_err(|_| LoginError::Token)?.claims;
        match claims.kind == kind {
            false => Err(LoginError::Token),
            true if claims.exp <= now.as_second() => Err(LoginError::Expired),
            true => Ok(claims),
        }
    }

    /// Creates two tokens of a session, and the state of it to store.
    fn pair(&self, session: &str, now: Timestamp) -> Result<(TokenPair, Value), LoginError> {
        let token = |kind: Kind, lasts: Duration| {
            let jti = uuid::Uuid::new_v4().to_string();
            let iat = now.as_second();
            let claims = Claims {
                sub: USERNAME.into(),
                aud: AUDIENCE.into(),
                kind,
                sid: session.to_owned(),
                jti: jti.clone(),
                iat,
                exp: iat.saturating_add(seconds(lasts)),
            };
            let signed = encode(&Header::new(Algorithm::HS256), &claims, &self.signing);
            signed.map(|token| (token, jti, claims.exp)).map_err(|_| LoginError::Token)
        };
        let (access_token, ..) = token(Kind::Access, self.access)?;
        let (refresh_token, jti, expires) = token(Kind::Refresh, self.refresh)?;
        let (token_type, expires_in) = ("bearer".to_owned(), self.access.as_secs());
        let pair = TokenPair { access_token, refresh_token, token_type, expires_in };
        let state = json!({"refresh": jti, "expires": expires, "fingerprint": self.fingerprint});
        Ok((pair, state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearken_store::SqlStore;

    const PASSWORD: &str = "the password of the tests";

    fn admin_sessions(store: &Arc<SqlStore>, secret: &str) -> AdminSessions {
        with_password(store, secret, PASSWORD)
    }

    fn with_password(store: &Arc<SqlStore>, secret: &str, password: &str) -> AdminSessions {
        let lasts = (Duration::from_secs(900), Duration::from_secs(86_400));
        let (secret, password) = (Secret::new(secret), Secret::new(password));
        AdminSessions::new(&secret, password, lasts, Arc::clone(store) as _)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + second).unwrap()
    }

    #[tokio::test]
    async fn tokens_are_good_for_their_time_and_purpose_only() {
        let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
        let admin_sessions = admin_sessions(&store, "one secret");
        for (name, password) in [("admin", "wrong"), ("root", PASSWORD), ("", "")] {
            let told = admin_sessions.log_in(name, password, "x", at(0)).await;
            assert!(matches!(told, Err(LoginError::Wrong)), "{name}");
        }
        let pair = admin_sessions.log_in(USERNAME, PASSWORD, "x", at(0)).await.unwrap();
        assert_eq!((pair.token_type.as_str(), pair.expires_in), ("bearer", 900));
        assert_eq!(admin_sessions.verify(&pair.access_token, at(899)).await.unwrap().who, "admin");
        assert!(matches!(
            admin_sessions.verify(&pair.access_token, at(900)).await,
            Err(LoginError::Expired)
        ));
        assert!(matches!(
            admin_sessions.verify(&pair.refresh_token, at(0)).await,
            Err(LoginError::Token)
        ));
        let other = sessions_of_another(&store);
        assert!(matches!(other.verify(&pair.access_token, at(0)).await, Err(LoginError::Token)));
        // An unsigned token (algorithm `none`) must be refused.
        let bare = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.";
        for token in ["", "x", "a.b.c", bare, &format!("{}x", pair.access_token)] {
            assert!(
                matches!(admin_sessions.verify(token, at(0)).await, Err(LoginError::Token)),
                "{token}"
            );
        }
    }

    fn sessions_of_another(store: &Arc<SqlStore>) -> AdminSessions {
        admin_sessions(store, "another secret")
    }

    #[tokio::test]
    async fn a_refresh_token_is_good_once_and_a_second_use_ends_the_session() {
        let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
        let (first, second) = (admin_sessions(&store, "s"), admin_sessions(&store, "s"));
        let pair = first.log_in(USERNAME, PASSWORD, "x", at(0)).await.unwrap();
        // A second instance of the server.
        let next = second.refresh(&pair.refresh_token, "x", at(5)).await.unwrap();
        assert!(first.verify(&next.access_token, at(6)).await.is_ok());
        let again = first.refresh(&pair.refresh_token, "x", at(7)).await;
        assert!(matches!(again, Err(LoginError::Over)));
        let stolen = first.refresh(&next.refresh_token, "x", at(8)).await;
        assert!(matches!(stolen, Err(LoginError::Over)), "the session is over for both");
        let pair = first.log_in(USERNAME, PASSWORD, "x", at(9)).await.unwrap();
        let administrator = first.verify(&pair.access_token, at(9)).await.unwrap();
        first.log_out(&administrator, "x", at(10)).await.unwrap();
        let out = first.refresh(&pair.refresh_token, "x", at(11)).await;
        assert!(matches!(out, Err(LoginError::Over)));
        let late = first.log_in(USERNAME, PASSWORD, "x", at(0)).await.unwrap();
        let late = first.refresh(&late.refresh_token, "x", at(86_400)).await;
        assert!(matches!(late, Err(LoginError::Expired)));
        first.log_in(USERNAME, PASSWORD, "x", at(90_000)).await.unwrap();
        assert_eq!(store.settings().await.unwrap().len(), 1, "those that are over are forgotten");
    }

    #[tokio::test]
    async fn tokens_end_with_their_session_and_with_the_password() {
        let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
        let (one, other) = (admin_sessions(&store, "s"), admin_sessions(&store, "s"));
        let pair = one.log_in(USERNAME, PASSWORD, "x", at(0)).await.unwrap();
        let administrator = other.verify(&pair.access_token, at(1)).await.unwrap();
        other.log_out(&administrator, "x", at(2)).await.unwrap();
        let over = one.verify(&pair.access_token, at(3)).await;
        assert!(matches!(over, Err(LoginError::Over)), "at once, at every instance: {over:?}");
        let pair = one.log_in(USERNAME, PASSWORD, "x", at(4)).await.unwrap();
        let changed = with_password(&store, "s", "another password of the tests");
        let over = changed.verify(&pair.access_token, at(5)).await;
        assert!(matches!(over, Err(LoginError::Over)), "{over:?}");
        let over = changed.refresh(&pair.refresh_token, "x", at(6)).await;
        assert!(matches!(over, Err(LoginError::Over)), "{over:?}");
        changed.log_in(USERNAME, "another password of the tests", "x", at(7)).await.unwrap();
        assert_eq!(store.settings().await.unwrap().len(), 1, "what cannot be used is not kept");
        assert!(one.verify(&pair.access_token, at(8)).await.is_err(), "nor with the former one");
        store.shut().await;
        let failed = changed.verify(&pair.access_token, at(9)).await;
        assert!(matches!(failed, Err(LoginError::Store(_))), "{failed:?}");
    }
}
