//! Accounts of people besides the administrator: their names, rights and passwords. Not for logging in.

use hearken_base::Secret;
use hearken_ports::store::{AuditEntry, SettingsStore, StoreError};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AdminSessions, USERNAME};
use crate::admin::password::Credential;
use crate::admin::rights::Right;

/// Most accounts.
pub const MAX_ACCOUNTS: usize = 100;
/// Longest name, in characters.
const MAX_NAME_CHARS: usize = 40;
/// Prefix of the names under which accounts are stored among the settings.
const ACCOUNT: &str = "admin.account.";

/// Account of somebody who may log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Their name, in lower case.
    pub name: String,
    /// What they may do.
    pub right: Right,
    /// When it was added.
    pub created: Timestamp,
    /// Hash of their password.
    hash: Secret,
}

/// An account as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    right: Right,
    created: Timestamp,
    hash: String,
}

/// Reason why accounts are not changed.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The name is not one.
    #[error(
        "a name has 1 to {MAX_NAME_CHARS} characters: letters and digits without accents, `.`, `_`, `-`, and not only `.`"
    )]
    Name,
    /// Somebody has the name.
    #[error("somebody has this name already")]
    Taken,
    /// There are enough.
    #[error("there are {MAX_ACCOUNTS} accounts already: delete one")]
    TooMany,
    /// The account was changed at another instance at the same time.
    #[error("somebody else has just changed this account: try again")]
    Changed,
    /// Nobody has the name.
    #[error("nobody has this name")]
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
    // Clients and proxies drop a part `.` or `..` of a path: nobody could change such an account.
    let is_dots = name.chars().all(|c| c == '.');
    (1..=MAX_NAME_CHARS).contains(&name.len()) && name.chars().all(fits) && !is_dots
}

/// Returns what logs in somebody with an account, and their right.
pub(super) async fn holder_of(
    store: &dyn SettingsStore,
    who: &str,
) -> Result<Option<(Credential, Right)>, StoreError> {
    let account = account_of(store, who).await?;
    Ok(account.map(|account| (account.credential(), account.right)))
}

/// Returns the account with this name, in lower case.
async fn account_of(store: &dyn SettingsStore, name: &str) -> Result<Option<Account>, StoreError> {
    if !is_name(name) {
        return Ok(None);
    }
    let stored = store.setting(&key(name)).await?;
    Ok(stored.and_then(|stored| Account::read(&key(name), &stored)))
}

impl Account {
    /// Reads a setting, if it is an account.
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
    /// Returns all accounts, by name.
    ///
    /// # Errors
    /// The store failed.
    pub async fn accounts(&self) -> Result<Vec<Account>, StoreError> {
        let all = self.store.settings().await?;
        Ok(all.iter().filter_map(|(name, stored)| Account::read(name, stored)).collect())
    }

    /// Adds an account. `by` is the name of who does that.
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

    /// Changes the right or the password of an account. Another password ends its sessions.
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

    /// Deletes an account; its sessions end.
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

    /// Gives somebody with an account that has this credential another password. Returns it as a credential; `None` if
    /// another instance has deleted the account meanwhile, or has given it another password.
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
            // False if its right was changed: that stays.
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
