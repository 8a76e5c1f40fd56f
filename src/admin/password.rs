//! The administrator's password: which one is valid, and how it is set and checked. A password set
//! at run time is stored as a hash (argon2id, RFC 9106, with the parameters that OWASP recommends).
//! Not for sessions.

use std::sync::Arc;

use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _, SaltString};
use argon2::{Argon2, PasswordHash};
use hearken_base::Secret;
use hearken_ports::store::{AuditEntry, SettingsStore, StoreError, StoreErrorKind};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Semaphore;
use utoipa::ToSchema;

use crate::auth::same;

/// Name of the setting that stores the hash.
pub const HASH: &str = "admin.password_hash";
/// Minimum and maximum length of a password, in characters.
const LENGTH: std::ops::RangeInclusive<usize> = 8..=128;
/// Maximum number of concurrent hashes; each takes 19 MiB of memory.
const AT_ONCE: usize = 2;

/// Hash that matches no password, of the same cost as any other.
pub(super) const NO_PASSWORD: &str = "$argon2id$v=19$m=19456,t=2,p=1$aGVhcmtlbiBub2JvZHkgMQ$\
                                      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Source of the administrator's password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PasswordState {
    /// No password is set: the admin token logs in.
    None,
    /// A password was set at run time.
    Set,
    /// `admin.password` in the configuration.
    Configured,
}

/// Credential that logs the administrator in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// `admin.password` in the configuration.
    Configured(Secret),
    /// A password set at run time, as its hash.
    Chosen(Secret),
    /// The admin token, while no password is set.
    Token(Secret),
}

impl Credential {
    /// Returns the text that identifies this credential: the secret or its hash.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Configured(text) | Self::Chosen(text) | Self::Token(text) => text.expose(),
        }
    }

    /// Returns the source of the password.
    pub fn state(&self) -> PasswordState {
        match self {
            Self::Configured(_) => PasswordState::Configured,
            Self::Chosen(_) => PasswordState::Set,
            Self::Token(_) => PasswordState::None,
        }
    }
}

/// Passwords of the administrator.
pub struct Passwords {
    configured: Secret,
    token: Secret,
    store: Arc<dyn SettingsStore>,
    free: Semaphore,
}

impl Passwords {
    /// Creates it with `admin.password`, empty if none is configured, and the admin token.
    pub fn new(configured: Secret, token: Secret, store: Arc<dyn SettingsStore>) -> Self {
        Self { configured, token, store, free: Semaphore::new(AT_ONCE) }
    }

    /// Returns the current credential of the administrator.
    ///
    /// # Errors
    /// The store failed.
    pub async fn credential(&self) -> Result<Credential, StoreError> {
        if !self.configured.is_empty() {
            return Ok(Credential::Configured(self.configured.clone()));
        }
        Ok(match self.store.setting(HASH).await? {
            Some(Value::String(hash)) => Credential::Chosen(Secret::new(hash)),
            _ => Credential::Token(self.token.clone()),
        })
    }

    /// Returns true if this is the password. A wrong one takes as much time with each kind of
    /// credential: the time must not show whether a password is set.
    pub(super) async fn fits(&self, credential: &Credential, password: &str) -> bool {
        let hash = match credential {
            Credential::Chosen(hash) => hash.clone(),
            Credential::Configured(text) | Credential::Token(text) => {
                if same(password, text.expose()) {
                    return true;
                }
                Secret::new(NO_PASSWORD)
            }
        };
        if password.chars().count() > *LENGTH.end() {
            return false;
        }
        let password = password.to_owned();
        self.work(move || verify(hash.expose(), &password)).await.unwrap_or(false)
    }

    /// Stores a password in place of the one set before. Returns it as a credential.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn choose(
        &self,
        password: &str,
        entry: &AuditEntry,
    ) -> Result<Credential, StoreError> {
        let hash = self.hashed(password).await?;
        let kept = Some(Value::String(hash.expose().to_owned()));
        self.store.change(&[(HASH.to_owned(), kept)], entry).await?;
        Ok(Credential::Chosen(hash))
    }

    /// Returns the hash of a password.
    ///
    /// # Errors
    /// The password could not be hashed.
    pub(super) async fn hashed(&self, password: &str) -> Result<Secret, StoreError> {
        let password = password.to_owned();
        let hashed = self.work(move || hash(&password)).await.and_then(Result::ok);
        let failed = || StoreError::because(StoreErrorKind::Unusable, "a password was not hashed");
        hashed.map(Secret::new).ok_or_else(failed)
    }

    /// Runs slow work on a blocking thread, at most [`AT_ONCE`] at a time.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let _free = self.free.acquire().await.ok()?;
        tokio::task::spawn_blocking(work).await.ok()
    }
}

/// Rule for passwords, shown to users.
pub const RULE: &str = "a password has 8 to 128 characters, without spaces at its ends";

/// Returns true if a password is accepted. Forms trim spaces at the ends, so a password with such
/// spaces could never log in.
pub fn is_acceptable(password: &str) -> bool {
    LENGTH.contains(&password.chars().count()) && password.trim() == password
}

/// Hashes a password with its own random salt.
///
/// # Errors
/// The system provides no random numbers, or no memory.
pub fn hash(password: &str) -> Result<String, String> {
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(|error| error.to_string())?;
    let salt = SaltString::encode_b64(&salt).map_err(|error| error.to_string())?;
    let hashed = Argon2::default().hash_password(password.as_bytes(), &salt);
    hashed.map(|hash| hash.to_string()).map_err(|error| error.to_string())
}

fn verify(hash: &str, password: &str) -> bool {
    PasswordHash::new(hash)
        .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use hearken_store::SqlStore;

    use super::*;

    #[tokio::test]
    async fn a_wrong_password_is_hashed_with_every_credential() {
        let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
        let passwords = Passwords::new(Secret::default(), Secret::default(), store);
        assert!(PasswordHash::new(NO_PASSWORD).is_ok() && !verify(NO_PASSWORD, ""));
        let _no_thread_is_free = passwords.free.acquire_many(2).await.unwrap();
        let ready = |credential: &Credential, password: &str| {
            passwords.fits(credential, password).now_or_never()
        };
        let secret = || Secret::new("the right one");
        for (credential, of_right) in [
            (Credential::Token(secret()), Some(true)),
            (Credential::Configured(secret()), Some(true)),
            (Credential::Chosen(Secret::new(NO_PASSWORD)), None),
        ] {
            assert_eq!(ready(&credential, "the right one"), of_right, "{credential:?}");
            assert_eq!(ready(&credential, "a wrong one"), None, "{credential:?}: it waits");
            assert_eq!(ready(&credential, &"x".repeat(129)), Some(false), "{credential:?}");
        }
    }

    #[test]
    fn a_password_is_stored_as_argon2id_with_a_salt_of_its_own() {
        let [one, two] = [(); 2].map(|()| hash("correct horse").unwrap());
        assert!(one.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{one}");
        assert_ne!(one, two);
        assert!(verify(&one, "correct horse") && verify(&two, "correct horse"));
        for (hash, password) in
            [(&*one, "correct horsE"), (&one, ""), ("", "correct horse"), ("$argon2id$", "x")]
        {
            assert!(!verify(hash, password), "{hash} {password}");
        }
        assert!(is_acceptable("密码密码密码密码") && !is_acceptable("1234567"));
        assert!(!is_acceptable(&"x".repeat(129)) && !is_acceptable(" with a space"));
    }
}
