//! Sessions of the administrator and of users with accounts. A login with the password returns a
//! short-lived access token and a long-lived refresh token. Refresh tokens are single-use; reuse
//! ends the session. Both tokens are valid until their session ends, at logout or when the password
//! changes; sessions are in the store, shared by all instances. Not for HTTP.

mod accounts;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hearken_base::Secret;
use hearken_ports::store::{AuditEntry, SettingsStore, StoreError};
use hmac::{Hmac, Mac as _};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::Sha256;
use utoipa::ToSchema;

use self::accounts::holder_of;
use super::password::{Credential, NO_PASSWORD, Passwords};
use super::rights::Right;
use super::token_signing;

pub use self::accounts::{Account, AccountError, MAX_ACCOUNTS};

/// The administrator's name.
pub const USERNAME: &str = "admin";
/// Audience of the tokens.
const AUDIENCE: &str = "hearken admin";
/// Text mixed with the server's secret to derive the signing key.
const PURPOSE: &[u8] = b"hearken admin tokens, version 1";
/// Text mixed with the signing key to derive the key of credential fingerprints.
const FINGERPRINT: &[u8] = b"fingerprint of the password";
/// Field of a session's state with the fingerprint of its credential.
const PRINT: &str = "fingerprint";
/// Prefix of the settings that store sessions.
const SESSION: &str = "admin.session.";
/// Maximum number of sessions per name; a further login ends the oldest.
const MOST_SESSIONS: usize = 50;

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

/// Reason why a login or a token is refused.
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
    /// A password is already set.
    #[error("a password is chosen already: log in with it")]
    HasPassword,
    /// The password is in the configuration.
    #[error("`admin.password` of the configuration is the password: change it there")]
    Configured,
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
    /// Session id.
    sid: String,
    /// Token id.
    jti: String,
    iat: i64,
    exp: i64,
}

/// User who is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    /// Name of the user.
    pub who: String,
    /// Current right of the user.
    pub right: Right,
    session: String,
}

/// Sessions of all users, and the lifetimes of their tokens.
pub struct AdminSessions {
    signing: EncodingKey,
    checking: DecodingKey,
    passwords: Passwords,
    /// Key for fingerprints of credentials. A session ends when the fingerprint of its credential changes.
    print_key: [u8; 32],
    access: Duration,
    refresh: Duration,
    store: Arc<dyn SettingsStore>,
    /// Serialises refreshes, logouts and changes of accounts within this instance.
    refresh_lock: tokio::sync::Mutex<()>,
}

/// Returns the HMAC-SHA256 of this text.
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
    /// Creates it with the administrator's passwords. Tokens are signed with a key derived from the
    /// server's secret.
    pub fn new(
        secret: &Secret,
        passwords: Passwords,
        access: Duration,
        refresh: Duration,
        store: Arc<dyn SettingsStore>,
    ) -> Self {
        token_signing::choose_provider();
        let key = derived(secret.expose().as_bytes(), PURPOSE);
        Self {
            print_key: derived(&key, FINGERPRINT),
            signing: EncodingKey::from_secret(&key),
            checking: DecodingKey::from_secret(&key),
            passwords,
            access,
            refresh,
            store,
            refresh_lock: tokio::sync::Mutex::default(),
        }
    }

    /// Logs in with name and password, and returns a token pair. `from` is the client's address, for the audit log.
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
        let who = username.to_lowercase();
        let holder = self.holder(&who).await?;
        // An unknown name takes as much time as a wrong password.
        let nobody = || (Credential::Chosen(Secret::new(NO_PASSWORD)), Right::Guest);
        let (credential, _) = holder.clone().unwrap_or_else(nobody);
        if !self.passwords.fits(&credential, password).await || holder.is_none() {
            return Err(LoginError::Wrong);
        }
        self.open(&who, &credential, from, now).await
    }

    /// Returns the credential and the right of the user with this name; `None` if there is none.
    async fn holder(&self, who: &str) -> Result<Option<(Credential, Right)>, StoreError> {
        if who == USERNAME {
            return Ok(Some((self.passwords.credential().await?, Right::Administrator)));
        }
        holder_of(&*self.store, who).await
    }

    /// Returns the passwords.
    pub fn passwords(&self) -> &Passwords {
        &self.passwords
    }

    /// Opens a session for a user whose credential was verified.
    async fn open(
        &self,
        who: &str,
        credential: &Credential,
        from: &str,
        now: Timestamp,
    ) -> Result<TokenPair, LoginError> {
        let session = uuid::Uuid::new_v4().to_string();
        let print = self.fingerprint(credential);
        let (pair, state) = self.pair(&session, who, &print, now)?;
        let mut changes = vec![(format!("{SESSION}{session}"), Some(state))];
        changes.extend(self.superseded(&print).await?.into_iter().map(|name| (name, None)));
        self.store.change(&changes, &entry(who, "logged in", from, now)).await?;
        Ok(pair)
    }

    /// Sets the first password, and logs in with it. The caller has checked that the client may.
    ///
    /// # Errors
    /// A password is already set, or the store failed.
    pub async fn choose_first(
        &self,
        password: &str,
        from: &str,
        now: Timestamp,
    ) -> Result<TokenPair, LoginError> {
        let _one_at_a_time = self.refresh_lock.lock().await;
        if !matches!(self.passwords.credential().await?, Credential::Token(_)) {
            return Err(LoginError::HasPassword);
        }
        self.set_password(password, from, now).await
    }

    /// Changes the password of a logged-in user. Ends all their sessions; returns the tokens of a new one.
    ///
    /// # Errors
    /// The current password is wrong, the configuration sets the password, or the store failed.
    pub async fn change_password(
        &self,
        who: &str,
        current: &str,
        password: &str,
        from: &str,
        now: Timestamp,
    ) -> Result<TokenPair, LoginError> {
        let _one_at_a_time = self.refresh_lock.lock().await;
        let (credential, _) = self.holder(who).await?.ok_or(LoginError::Over)?;
        if matches!(credential, Credential::Configured(_)) {
            return Err(LoginError::Configured);
        }
        if !self.passwords.fits(&credential, current).await {
            return Err(LoginError::Wrong);
        }
        if who == USERNAME {
            return self.set_password(password, from, now).await;
        }
        let told = entry(who, "password changed", from, now);
        let changed = self.set_account_password(who, &credential, password, &told).await?;
        let credential = changed.ok_or(LoginError::Over)?;
        self.open(who, &credential, from, now).await
    }

    async fn set_password(
        &self,
        password: &str,
        from: &str,
        now: Timestamp,
    ) -> Result<TokenPair, LoginError> {
        let told = entry(USERNAME, "password changed", from, now);
        let credential = self.passwords.choose(password, &told).await?;
        self.open(USERNAME, &credential, from, now).await
    }

    /// Returns the keyed hash of a credential.
    fn fingerprint(&self, credential: &Credential) -> String {
        URL_SAFE_NO_PAD.encode(derived(&self.print_key, credential.text().as_bytes()))
    }

    /// Returns the names of sessions to delete: those opened with a password that is no longer valid,
    /// and the oldest of this credential if a new session would exceed [`MOST_SESSIONS`]. An expired
    /// session is refused, and stays until then.
    async fn superseded(&self, print: &str) -> Result<Vec<String>, StoreError> {
        let all = self.store.settings().await?;
        let own = self.passwords.credential().await?;
        let accounts = all.iter().filter_map(|(name, stored)| Account::read(name, stored));
        let others = accounts.map(|account| account.credential());
        let prints: Vec<Value> =
            others.chain([own]).map(|credential| self.fingerprint(&credential).into()).collect();
        // No date decides: the clock may be wrong since startup, and be set later. Decision 0059.
        let is_over = |(_, state): &(String, Value)| !prints.contains(&state[PRINT]);
        let (over, mut live): (Vec<_>, Vec<_>) =
            all.into_iter().filter(|(name, _)| name.starts_with(SESSION)).partition(is_over);
        live.retain(|(_, state)| state[PRINT] == print);
        live.sort_by_key(|(_, state)| std::cmp::Reverse(state["expires"].as_i64()));
        let surplus = live.into_iter().skip(MOST_SESSIONS - 1);
        Ok(over.into_iter().chain(surplus).map(|(name, _)| name).collect())
    }

    /// Returns the state of a session that has not ended, the fingerprint of the current credential, and the right.
    async fn session(&self, claims: &Claims) -> Result<(Value, String, Right), LoginError> {
        let (credential, right) = self.holder(&claims.sub).await?.ok_or(LoginError::Over)?;
        let print = self.fingerprint(&credential);
        // Each request reads the session: a check of the signature alone would accept tokens after
        // a logout or a change of the password. Decision 0055.
        let state = self.store.setting(&format!("{SESSION}{}", claims.sid)).await?;
        let state = state.filter(|state| state[PRINT] == print).ok_or(LoginError::Over)?;
        Ok((state, print, right))
    }

    /// Exchanges a refresh token for a new token pair. Reuse of a token ends its session.
    ///
    /// # Errors
    /// The token is invalid, its session has ended, or the store failed.
    pub async fn refresh(
        &self,
        token: &str,
        from: &str,
        now: Timestamp,
    ) -> Result<TokenPair, LoginError> {
        let claims = self.claims(token, Kind::Refresh, now)?;
        let name = format!("{SESSION}{}", claims.sid);
        let _one_at_a_time = self.refresh_lock.lock().await;
        let (state, print, _) = self.session(&claims).await?;
        if state["refresh"] != claims.jti {
            let told = entry(&claims.sub, "session ended: a token came twice", from, now);
            self.store.change(&[(name, None)], &told).await?;
            tracing::warn!("an administrator's refresh token was used twice: ended the session");
            return Err(LoginError::Over);
        }
        let (pair, next) = self.pair(&claims.sid, &claims.sub, &print, now)?;
        let told = entry(&claims.sub, "tokens refreshed", from, now);
        // Another instance may have ended the session, or exchanged the token, in the meantime.
        match self.store.replace(&name, Some(&state), &next, &told).await? {
            true => Ok(pair),
            false => Err(LoginError::Over),
        }
    }

    /// Ends a session; its tokens become invalid.
    ///
    /// # Errors
    /// The store failed.
    pub async fn log_out(
        &self,
        who: &LoggedIn,
        from: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let name = format!("{SESSION}{}", who.session);
        // A concurrent exchange of a token would restore the session.
        let _one_at_a_time = self.refresh_lock.lock().await;
        self.store.change(&[(name, None)], &entry(&who.who, "logged out", from, now)).await
    }

    /// Verifies an access token and returns its user.
    ///
    /// # Errors
    /// The token is invalid or expired, its session has ended, or the store failed.
    pub async fn verify(&self, token: &str, now: Timestamp) -> Result<LoggedIn, LoginError> {
        let claims = self.claims(token, Kind::Access, now)?;
        let (_, _, right) = self.session(&claims).await?;
        Ok(LoggedIn { who: claims.sub, right, session: claims.sid })
    }

    fn claims(&self, token: &str, kind: Kind, now: Timestamp) -> Result<Claims, LoginError> {
        let mut rules = Validation::new(Algorithm::HS256);
        rules.set_audience(&[AUDIENCE]);
        // The expiry is checked below, against the given time.
        rules.validate_exp = false;
        let decoded = decode::<Claims>(token, &self.checking, &rules);
        let claims = decoded.map_err(|_| LoginError::Token)?.claims;
        match claims.kind == kind {
            false => Err(LoginError::Token),
            true if claims.exp <= now.as_second() => Err(LoginError::Expired),
            true => Ok(claims),
        }
    }

    /// Creates the token pair of a session, and the state to store.
    fn pair(
        &self,
        session: &str,
        who: &str,
        print: &str,
        now: Timestamp,
    ) -> Result<(TokenPair, Value), LoginError> {
        let token = |kind: Kind, lasts: Duration| {
            let jti = uuid::Uuid::new_v4().to_string();
            let iat = now.as_second();
            let claims = Claims {
                sub: who.into(),
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
        let token_type = "bearer".to_owned();
        let expires_in = self.access.as_secs();
        let pair = TokenPair { access_token, refresh_token, token_type, expires_in };
        let state = json!({"refresh": jti, "expires": expires, PRINT: print});
        Ok((pair, state))
    }
}

#[cfg(test)]
mod tests;
