//! Sessions of the administrator and of others who have an account: logging in with the password returns a short-lived access token
//! and a long-lived refresh token. Refresh tokens are single-use; reuse revokes the session. Both are
//! valid as long as their session is, which the store keeps for every instance of the server: it ends
//! with its log-out, and with the password that opened it. Not for HTTP.

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
use super::password::{Credential, Passwords};
use super::rights::Right;
use super::token_signing;

pub use self::accounts::{Account, AccountError, MAX_ACCOUNTS};

/// The administrator's name.
pub const USERNAME: &str = "admin";
/// Hash that no password has: what the password of an unknown name is compared with.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$aGVhcmtlbiBub2JvZHkgMQ$\
                      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
/// Audience of the tokens.
const AUDIENCE: &str = "hearken admin";
/// Text that is mixed with the server's secret to derive the signing key.
const PURPOSE: &[u8] = b"hearken admin tokens, version 1";
/// Text that is mixed with the signing key to derive that of the password's fingerprint.
const FINGERPRINT: &[u8] = b"fingerprint of the password";
/// Field of a session's state with the fingerprint of its credential.
const PRINT: &str = "fingerprint";
/// Prefix of the names under which sessions are stored among the settings.
const SESSION: &str = "admin.session.";
/// Maximum number of sessions of one name: with one more, the oldest ends.
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
    /// A password was chosen before.
    #[error("a password is chosen already: log in with it")]
    HasPassword,
    /// The configuration decides.
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
    /// Id of the session.
    sid: String,
    /// Id of the token.
    jti: String,
    iat: i64,
    exp: i64,
}

/// Somebody who is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    /// Their name.
    pub who: String,
    /// What they may do now.
    pub right: Right,
    session: String,
}

/// Sessions of the administrator, and the lifetimes of their tokens.
pub struct AdminSessions {
    signing: EncodingKey,
    checking: DecodingKey,
    passwords: Passwords,
    /// Key of the fingerprint of the credential. A session is valid while it is that of its log-in.
    print_key: [u8; 32],
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
        let who = username.to_lowercase();
        let holder = self.holder(&who).await?;
        // An unknown name takes as long as a wrong password.
        let nobody = || (Credential::Chosen(Secret::new(NOBODY)), Right::Guest);
        let (credential, _) = holder.clone().unwrap_or_else(nobody);
        if !self.passwords.fits(&credential, password).await || holder.is_none() {
            return Err(LoginError::Wrong);
        }
        self.open(&who, &credential, from, now).await
    }

    /// Returns what logs somebody in now, and their right; `None` if nobody has this name.
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

    /// Opens a session for somebody who has shown the credential.
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
        changes.extend(self.expired(&print, now).await?.into_iter().map(|name| (name, None)));
        self.store.change(&changes, &entry(who, "logged in", from, now)).await?;
        Ok(pair)
    }

    /// Chooses the first password, and logs in with it. The caller has checked that they may.
    ///
    /// # Errors
    /// There is a password, or the store failed.
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

    /// Changes the password of somebody who is logged in. All their sessions end; returns the tokens of a new one.
    ///
    /// # Errors
    /// The current one is wrong, the configuration decides, or the store failed.
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

    /// Returns the names of sessions that have expired, or were opened with a password that does not hold any more; and
    /// of the oldest of this credential, where another one would be too many.
    async fn expired(&self, print: &str, now: Timestamp) -> Result<Vec<String>, StoreError> {
        let all = self.store.settings().await?;
        let own = self.passwords.credential().await?;
        let accounts = all.iter().filter_map(|(name, stored)| Account::read(name, stored));
        let others = accounts.map(|account| account.credential());
        let prints: Vec<Value> =
            others.chain([own]).map(|credential| self.fingerprint(&credential).into()).collect();
        let expired = |(_, state): &(String, Value)| {
            let over = state["expires"].as_i64() <= Some(now.as_second());
            over || !prints.contains(&state[PRINT])
        };
        let (over, mut live): (Vec<_>, Vec<_>) =
            all.into_iter().filter(|(name, _)| name.starts_with(SESSION)).partition(expired);
        live.retain(|(_, state)| state[PRINT] == print);
        live.sort_by_key(|(_, state)| std::cmp::Reverse(state["expires"].as_i64()));
        let surplus = live.into_iter().skip(MOST_SESSIONS - 1);
        Ok(over.into_iter().chain(surplus).map(|(name, _)| name).collect())
    }

    /// Returns the state of a session that has not ended, the fingerprint of the credential of now, and the right.
    async fn session(&self, claims: &Claims) -> Result<(Value, String, Right), LoginError> {
        let (credential, right) = self.holder(&claims.sub).await?.ok_or(LoginError::Over)?;
        let print = self.fingerprint(&credential);
        // Each request reads the session: by its signature alone, a token outlives a log-out and a changed password.
        // Decision 0055.
        let state = self.store.setting(&format!("{SESSION}{}", claims.sid)).await?;
        let state = state.filter(|state| state[PRINT] == print).ok_or(LoginError::Over)?;
        Ok((state, print, right))
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
        let (state, print, _) = self.session(&claims).await?;
        if state["refresh"] != claims.jti {
            let told = entry(&claims.sub, "session ended: a token came twice", from, now);
            self.store.change(&[(name, None)], &told).await?;
            tracing::warn!("an administrator's refresh token was used twice: ended the session");
            return Err(LoginError::Over);
        }
        let (pair, next) = self.pair(&claims.sid, &claims.sub, &print, now)?;
        let told = entry(&claims.sub, "tokens refreshed", from, now);
        // Another instance may have ended the session meanwhile, or exchanged the token.
        match self.store.replace(&name, Some(&state), &next, &told).await? {
            true => Ok(pair),
            false => Err(LoginError::Over),
        }
    }

    /// Ends a session: its tokens become invalid.
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
        // A token that is exchanged at the same time would bring the session back.
        let _one_at_a_time = self.refresh_lock.lock().await;
        self.store.change(&[(name, None)], &entry(&who.who, "logged out", from, now)).await
    }

    /// Verifies an access token and returns who shows it.
    ///
    /// # Errors
    /// The token is invalid or has expired, its session is over, or the store failed.
    pub async fn verify(&self, token: &str, now: Timestamp) -> Result<LoggedIn, LoginError> {
        let claims = self.claims(token, Kind::Access, now)?;
        let (_, _, right) = self.session(&claims).await?;
        Ok(LoggedIn { who: claims.sub, right, session: claims.sid })
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
