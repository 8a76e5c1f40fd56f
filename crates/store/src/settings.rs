//! Settings that were changed at run time, and the audit of who did what: the port and its types.
//! Not for what a setting means.

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use super::StoreError;

/// Something that somebody did.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    /// Its number, by which entries are ordered; the store gives it, and takes none.
    pub number: i64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub who: String,
    /// What, in a word or two for code.
    pub what: String,
    /// What is to be known of it, such as old and new values; no secrets.
    pub details: Value,
}

/// Where run-time settings and the audit are kept. Every call ends within seconds, with an error
/// where the store is down.
#[async_trait]
pub trait SettingsStore: Send + Sync {
    /// Every setting that was changed, in the order of their keys.
    async fn settings(&self) -> Result<Vec<(String, Value)>, StoreError>;

    /// Keeps these values, forgets those settings that have none, and notes who did it: all of it
    /// or nothing.
    async fn change(
        &self,
        changes: &[(String, Option<Value>)],
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;

    /// Notes something that changes no setting.
    async fn note(&self, entry: &AuditEntry) -> Result<(), StoreError>;

    /// At most this many entries, the latest first; with `before` those with smaller numbers.
    async fn audit(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditEntry>, StoreError>;
}
