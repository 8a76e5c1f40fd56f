//! Port of the store of settings that were changed at run time, and of the audit log. Not for the
//! meaning of a setting.

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use super::StoreError;

/// Most entries of the audit log that are kept, and about a hundred more until it is cut again.
pub const MAX_AUDIT_ENTRIES: i64 = 100_000;

/// Entry of the audit log.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    /// Number of the entry, in order of time. Assigned by the store, and ignored when an entry is
    /// stored.
    pub number: i64,
    /// Time of the action.
    pub at: Timestamp,
    /// Author of the action.
    pub who: String,
    /// Name of the action.
    pub what: String,
    /// Details, such as old and new values; contains no secrets.
    pub details: Value,
}

/// Store of run-time settings and of the audit log. Every call ends within seconds, with an error
/// if the store is down.
#[async_trait]
pub trait SettingsStore: Send + Sync {
    /// Returns every changed setting, ordered by key.
    async fn settings(&self) -> Result<Vec<(String, Value)>, StoreError>;

    /// Returns one setting.
    async fn setting(&self, name: &str) -> Result<Option<Value>, StoreError>;

    /// Stores these values, removes those without a value, and adds the audit entry, atomically.
    async fn change(
        &self,
        changes: &[(String, Option<Value>)],
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;

    /// Replaces this value of a setting, or none, and adds the audit entry, atomically. Returns false, and changes nothing, if
    /// the setting is not as it was: another instance has added, changed or removed it.
    async fn replace(
        &self,
        name: &str,
        was: Option<&Value>,
        value: &Value,
        audit: &AuditEntry,
    ) -> Result<bool, StoreError>;

    /// Adds an audit entry that changes no setting. Of more than [`MAX_AUDIT_ENTRIES`], the oldest of
    /// the author with the most entries are deleted.
    async fn note(&self, entry: &AuditEntry) -> Result<(), StoreError>;

    /// Returns at most `limit` entries, the latest first; with `before`, only those with smaller
    /// numbers.
    async fn audit(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditEntry>, StoreError>;
}
