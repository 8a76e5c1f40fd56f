//! Accounts of users besides the administrator: their names, rights and passwords. Not for logging in.

use hearken_base::Secret;
use hearken_ports::store::{AuditEntry, SettingsStore, StoreError};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AdminSessions, USERNAME};
use crate::admin::password::Credential;
use crate::admin::rights::Right;

/// Maximum number of accounts.
pub const MAX_ACCOUNTS: usize = 100;
/// Maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 40;
/// Prefix of the settings that store accounts.
const ACCOUNT: &str = "admin.account.";

/// Account of a user who may log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Name, in lower case.
    pub name: String,
    /// Right of the user.
    pub right: Right,
    /// Creation time.
    pub created: Timestamp,
    /// Hash of the password.
    hash: Secret,
}

/// Stored form of an account.
#[derive(Serialize, Deserialize)]
struct Stored {
    right: Right,
    created: Timestamp,
    hash: String,
}

/// Reason why an account cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The name is invalid.
    #[error(
        "a name has 1 to {MAX_NAME_CHARS} characters: letters and digits without accents, `.`, `_`, `-`, and not only `.`"
    )]
    Name,
    /// Another account has this name.
    #[error("another account has this name: choose another")]
    Taken,
    /// The maximum number of accounts is reached.
    #[error("there are {MAX_ACCOUNTS} accounts already: delete one")]
    TooMany,
    /// Another request or instance changed the account concurrently.
    #[error("the account was changed by another request: try again")]
    Changed,
    /// No account has this name.
    #[error("no account has this name")]
    Unknown,
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

fn key(name: &str) -> String {
    format!("{ACCOUNT}{name}")
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    // Clients and proxies drop a segment `.` or `..` of a path: such an account could not be changed.
    let is_dots = name.chars().all(|c| c == '.');
    (1..=MAX_NAME_CHARS).contains(&name.len()) && name.chars().all(fits) && !is_dots
}

/// Returns the credential and the right of the account with this name.
pub(super) async fn holder_of(
    store: &dyn SettingsStore,
    who: &str,
) -> Result<Option<(Credential, Right)>, StoreError> {
    let account = account_of(store, who).await?;
    Ok(account.map(|account| (account.credential(), account.right)))
}

/// Returns the account with this name, which is in lower case.
async fn account_of(store: &dyn SettingsStore, name: &str) -> Result<Option<Account>, StoreError> {
    if !is_name(name) {
        return Ok(None);
    }
    let stored = store.setting(&key(name)).await?;
    Ok(stored.and_then(|stored| Account::read(&key(name), &stored)))
}

impl Account {
    /// Parses a setting; `None` if it is not an account.
    pub(super) fn read(name: &str, stored: &Value) -> Option<Self> {
        let name = name.strip_prefix(ACCOUNT)?.to_owned();
        let Stored { right, created, hash } = serde_json::from_value(stored.clone()).ok()?;
        Some(Self { name, right, created, hash: Secret::new(hash) })
    }

    pub(super) fn credential(&self) -> Credential {
        Credential::Chosen(self.hash.clone())
    }

    fn stored(&self) -> Value {
        let right = self.right;
        let created = self.created;
        json!(Stored { right, created, hash: self.hash.expose().to_owned() })
    }
}

impl AdminSessions {
    /// Returns all accounts, sorted by name.
    ///
    /// # Errors
    /// The store failed.
    pub async fn accounts(&self) -> Result<Vec<Account>, StoreError> {
        let all = self.store.settings().await?;
        Ok(all.iter().filter_map(|(name, stored)| Account::read(name, stored)).collect())
    }

    /// Adds an account. `by` is the name of the user who adds it.
    ///
    /// # Errors
    /// See [`AccountError`].
    pub async fn add_account(
        &self,
        name: &str,
        right: Right,
        password: &str,
        by: &str,
        now: Timestamp,
    ) -> Result<Account, AccountError> {
        let name = name.to_lowercase();
        if !is_name(&name) {
            return Err(AccountError::Name);
        }
        let hash = self.passwords.hashed(password).await?;
        let _one_at_a_time = self.refresh_lock.lock().await;
        let accounts = self.accounts().await?;
        if name == USERNAME || accounts.iter().any(|account| account.name == name) {
            return Err(AccountError::Taken);
        }
        if accounts.len() >= MAX_ACCOUNTS {
            return Err(AccountError::TooMany);
        }
        let account = Account { name, right, created: now, hash };
        let told = told(&account.name, right, "account added", by, now);
        match self.store.replace(&key(&account.name), None, &account.stored(), &told).await? {
            true => Ok(account),
            false => Err(AccountError::Taken),
        }
    }

    /// Changes the right or the password of an account. A new password ends its sessions.
    ///
    /// # Errors
    /// See [`AccountError`].
    pub async fn change_account(
        &self,
        name: &str,
        right: Option<Right>,
        password: Option<&str>,
        by: &str,
        now: Timestamp,
    ) -> Result<Account, AccountError> {
        let hash = match password {
            Some(password) => Some(self.passwords.hashed(password).await?),
            None => None,
        };
        let _one_at_a_time = self.refresh_lock.lock().await;
        let was = self.account(name).await?;
        let before = was.stored();
        let account = Account {
            right: right.unwrap_or(was.right),
            hash: hash.unwrap_or_else(|| was.hash.clone()),
            ..was
        };
        let told = told(&account.name, account.right, "account changed", by, now);
        let key = key(&account.name);
        match self.store.replace(&key, Some(&before), &account.stored(), &told).await? {
            true => Ok(account),
            false => Err(AccountError::Changed),
        }
    }

    /// Deletes an account and ends its sessions.
    ///
    /// # Errors
    /// See [`AccountError`].
    pub async fn delete_account(
        &self,
        name: &str,
        by: &str,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        let _one_at_a_time = self.refresh_lock.lock().await;
        let Account { name, right, .. } = self.account(name).await?;
        let told = told(&name, right, "account deleted", by, now);
        Ok(self.store.change(&[(key(&name), None)], &told).await?)
    }

    /// Replaces the password of the account that has this credential. Returns the new credential;
    /// `None` if another instance has deleted the account or changed its password in the meantime.
    pub(super) async fn set_account_password(
        &self,
        name: &str,
        current: &Credential,
        password: &str,
        told: &AuditEntry,
    ) -> Result<Option<Credential>, StoreError> {
        let hash = self.passwords.hashed(password).await?;
        while let Some(was) = account_of(&*self.store, name).await?
            && was.credential() == *current
        {
            let before = was.stored();
            let account = Account { hash: hash.clone(), ..was };
            // False if only the right has changed: it must not be overwritten.
            if self.store.replace(&key(name), Some(&before), &account.stored(), told).await? {
                return Ok(Some(Credential::Chosen(hash)));
            }
        }
        Ok(None)
    }

    async fn account(&self, name: &str) -> Result<Account, AccountError> {
        let found = account_of(&*self.store, &name.to_lowercase()).await?;
        found.ok_or(AccountError::Unknown)
    }
}

fn told(name: &str, right: Right, what: &str, by: &str, at: Timestamp) -> AuditEntry {
    let details = json!({"name": name, "right": right});
    AuditEntry { number: 0, at, who: by.to_owned(), what: what.to_owned(), details }
}
