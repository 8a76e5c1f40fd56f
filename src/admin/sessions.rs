//! The administrator's seat: a password for two tokens, a short one to ask with and a long one for
//! the next two. A long one is good once; who shows it again, or a thief, ends the session. The
//! sessions stand in the store, so that any instance of the server knows them. Not for HTTP.

use std::sync::Arc;
use std::time::Duration;

use hearken_base::Secret;
use hearken_store::{AuditEntry, SettingsStore, StoreError};
use hmac::{Hmac, Mac as _};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::Sha256;
use utoipa::ToSchema;

use crate::auth::same;

/// The administrator's name.
pub const USERNAME: &str = "admin";
/// Whom the tokens are for.
const AUDIENCE: &str = "hearken admin";
/// What the server's secret is mixed with to sign them.
const PURPOSE: &[u8] = b"hearken admin tokens, version 1";
/// Sessions stand among the settings under names that begin so.
const SESSION: &str = "admin.session.";

/// Two tokens, as OAuth 2 tells them (RFC 6749, section 5.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TokenPair {
    /// To be shown as `Authorization: Bearer`.
    pub access_token: String,
    /// To be exchanged for the next pair, once.
    pub refresh_token: String,
    /// `bearer`.
    pub token_type: String,
    /// Seconds that the access token is good for.
    pub expires_in: u64,
}

/// Why somebody is not seated.
#[derive(Debug, thiserror::Error)]
pub enum SeatError {
    /// The name or the password.
    #[error("the username or the password is wrong")]
    Wrong,
    /// The token is none of ours, of the other kind, or was tampered with.
    #[error("the token is not good: log in")]
    Token,
    /// It was good once.
    #[error("the token has expired: refresh it, or log in")]
    Expired,
    /// Its session was ended, or it was used before.
    #[error("the session is over: log in")]
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

/// What a token says.
#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    sub: String,
    aud: String,
    kind: Kind,
    /// The session.
    sid: String,
    /// The token.
    jti: String,
    iat: i64,
    exp: i64,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seated {
    /// The name.
    pub who: String,
    session: String,
}

/// Who may sit down, and for how long.
pub struct AdminSessions {
    signing: EncodingKey,
    checking: DecodingKey,
    password: Secret,
    access: Duration,
    refresh: Duration,
    store: Arc<dyn SettingsStore>,
    /// One token is exchanged at a time.
    exchanging: tokio::sync::Mutex<()>,
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

fn entry(who: &str, what: &str, from: &str, at: Timestamp) -> AuditEntry {
    let details = json!({"from": from});
    AuditEntry { number: 0, at, who: who.to_owned(), what: what.to_owned(), details }
}

impl AdminSessions {
    /// Seats for who knows the password; tokens are signed by a key made of the server's secret.
    pub fn new(
        secret: &Secret,
        password: Secret,
        (access, refresh): (Duration, Duration),
        store: Arc<dyn SettingsStore>,
    ) -> Self {
        let mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes());
        let mac = mac.expect("HMAC takes a key of any length").chain_update(PURPOSE);
        let key = mac.finalize().into_bytes();
        Self {
            signing: EncodingKey::from_secret(&key),
            checking: DecodingKey::from_secret(&key),
            password,
            access,
            refresh,
            store,
            exchanging: tokio::sync::Mutex::default(),
        }
    }

    /// Two tokens for who knows the password. `from` is where they are, for the audit.
    ///
    /// # Errors
    /// The name or password is wrong, or the store failed.
    pub async fn log_in(
        &self,
        username: &str,
        password: &str,
        from: &str,
        now: Timestamp,
    ) -> Result<TokenPair, SeatError> {
        // Both are compared, whatever comes of the first.
        let known = [same(username, USERNAME), same(password, self.password.expose())];
        if known != [true, true] {
            return Err(SeatError::Wrong);
        }
        let session = uuid::Uuid::new_v4().to_string();
        let (pair, state) = self.pair(&session, now)?;
        let mut changes = vec![(format!("{SESSION}{session}"), Some(state))];
        changes.extend(self.over(now).await?.into_iter().map(|name| (name, None)));
        self.store.change(&changes, &entry(USERNAME, "logged in", from, now)).await?;
        Ok(pair)
    }

    /// Names of the sessions that are over.
    async fn over(&self, now: Timestamp) -> Result<Vec<String>, StoreError> {
        let all = self.store.settings().await?;
        let over = |(name, state): &(String, Value)| {
            name.starts_with(SESSION) && state["expires"].as_i64() <= Some(now.as_second())
        };
        Ok(all.into_iter().filter(over).map(|(name, _)| name).collect())
    }

    /// The next two tokens for one that is good once.
    ///
    /// # Errors
    /// The token is not good, or its session is over, or the store failed.
    pub async fn refresh(
        &self,
        token: &str,
        from: &str,
        now: Timestamp,
    ) -> Result<TokenPair, SeatError> {
        let claims = self.claims(token, Kind::Refresh, now)?;
        let name = format!("{SESSION}{}", claims.sid);
        let _one_at_a_time = self.exchanging.lock().await;
        let all = self.store.settings().await?;
        let state = all.into_iter().find(|(known, _)| *known == name).ok_or(SeatError::Over)?.1;
        if state["refresh"] != claims.jti {
            let told = entry(&claims.sub, "session ended: a token came twice", from, now);
            self.store.change(&[(name, None)], &told).await?;
            tracing::warn!("an administrator's token came twice: the session is over");
            return Err(SeatError::Over);
        }
        let (pair, state) = self.pair(&claims.sid, now)?;
        let told = entry(&claims.sub, "tokens refreshed", from, now);
        self.store.change(&[(name, Some(state))], &told).await?;
        Ok(pair)
    }

    /// Ends a session: its refresh token is good no more.
    ///
    /// # Errors
    /// The store failed.
    pub async fn log_out(
        &self,
        seated: &Seated,
        from: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let name = format!("{SESSION}{}", seated.session);
        self.store.change(&[(name, None)], &entry(&seated.who, "logged out", from, now)).await
    }

    /// Who shows this access token.
    ///
    /// # Errors
    /// It is not good, or not any more.
    pub fn who(&self, token: &str, now: Timestamp) -> Result<Seated, SeatError> {
        let claims = self.claims(token, Kind::Access, now)?;
        Ok(Seated { who: claims.sub, session: claims.sid })
    }

    fn claims(&self, token: &str, kind: Kind, now: Timestamp) -> Result<Claims, SeatError> {
        let mut rules = Validation::new(Algorithm::HS256);
        rules.set_audience(&[AUDIENCE]);
        // By our own clock, below.
        rules.validate_exp = false;
        let decoded = decode::<Claims>(token, &self.checking, &rules);
        let claims = decoded.map_err(|_| SeatError::Token)?.claims;
        match claims.kind == kind {
            false => Err(SeatError::Token),
            true if claims.exp <= now.as_second() => Err(SeatError::Expired),
            true => Ok(claims),
        }
    }

    /// Two tokens of a session, and what is kept of it.
    fn pair(&self, session: &str, now: Timestamp) -> Result<(TokenPair, Value), SeatError> {
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
            signed.map(|token| (token, jti, claims.exp)).map_err(|_| SeatError::Token)
        };
        let (access_token, ..) = token(Kind::Access, self.access)?;
        let (refresh_token, jti, expires) = token(Kind::Refresh, self.refresh)?;
        let (token_type, expires_in) = ("bearer".to_owned(), self.access.as_secs());
        let pair = TokenPair { access_token, refresh_token, token_type, expires_in };
        Ok((pair, json!({"refresh": jti, "expires": expires})))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearken_store::SqlStore;

    const PASSWORD: &str = "the password of the tests";

    fn admin_sessions(store: &Arc<SqlStore>, secret: &str) -> AdminSessions {
        let lasts = (Duration::from_secs(900), Duration::from_secs(86_400));
        let (secret, password) = (Secret::new(secret), Secret::new(PASSWORD));
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
            assert!(matches!(told, Err(SeatError::Wrong)), "{name}");
        }
        let pair = admin_sessions.log_in(USERNAME, PASSWORD, "x", at(0)).await.unwrap();
        assert_eq!((pair.token_type.as_str(), pair.expires_in), ("bearer", 900));
        assert_eq!(admin_sessions.who(&pair.access_token, at(899)).unwrap().who, "admin");
        assert!(matches!(admin_sessions.who(&pair.access_token, at(900)), Err(SeatError::Expired)));
        assert!(matches!(admin_sessions.who(&pair.refresh_token, at(0)), Err(SeatError::Token)));
        let other = seats_of_another(&store);
        assert!(matches!(other.who(&pair.access_token, at(0)), Err(SeatError::Token)));
        // Nothing is taken from a token that signs by nothing.
        let bare = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.";
        for token in ["", "x", "a.b.c", bare, &format!("{}x", pair.access_token)] {
            assert!(matches!(admin_sessions.who(token, at(0)), Err(SeatError::Token)), "{token}");
        }
    }

    fn seats_of_another(store: &Arc<SqlStore>) -> AdminSessions {
        admin_sessions(store, "another secret")
    }

    #[tokio::test]
    async fn a_refresh_token_is_good_once_and_a_second_use_ends_the_session() {
        let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
        let (first, second) = (admin_sessions(&store, "s"), admin_sessions(&store, "s"));
        let pair = first.log_in(USERNAME, PASSWORD, "x", at(0)).await.unwrap();
        // Another instance of the server.
        let next = second.refresh(&pair.refresh_token, "x", at(5)).await.unwrap();
        assert!(first.who(&next.access_token, at(6)).is_ok());
        let again = first.refresh(&pair.refresh_token, "x", at(7)).await;
        assert!(matches!(again, Err(SeatError::Over)));
        let stolen = first.refresh(&next.refresh_token, "x", at(8)).await;
        assert!(matches!(stolen, Err(SeatError::Over)), "the session is over for both");
        let pair = first.log_in(USERNAME, PASSWORD, "x", at(9)).await.unwrap();
        let seated = first.who(&pair.access_token, at(9)).unwrap();
        first.log_out(&seated, "x", at(10)).await.unwrap();
        let out = first.refresh(&pair.refresh_token, "x", at(11)).await;
        assert!(matches!(out, Err(SeatError::Over)));
        let late = first.log_in(USERNAME, PASSWORD, "x", at(0)).await.unwrap();
        let late = first.refresh(&late.refresh_token, "x", at(86_400)).await;
        assert!(matches!(late, Err(SeatError::Expired)));
        first.log_in(USERNAME, PASSWORD, "x", at(90_000)).await.unwrap();
        assert_eq!(store.settings().await.unwrap().len(), 1, "those that are over are forgotten");
    }
}
