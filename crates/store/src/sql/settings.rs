//! The SQL of run-time settings and of the audit. Not for what a setting means.

use async_trait::async_trait;
use hearken_ports::store::{AuditEntry, MAX_AUDIT_ENTRIES, SettingsStore, StoreError};
use serde_json::Value;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::error::SqlError;
use super::{SqlStore, StoreTransaction, in_time, text, time, unusable};

/// Number of entries after which the audit log is cut again.
const CUT_EVERY: i64 = 100;

#[async_trait]
impl SettingsStore for SqlStore {
    async fn settings(&self) -> Result<Vec<(String, Value)>, StoreError> {
        in_time(async {
            let rows = sqlx::query("SELECT name, value FROM settings ORDER BY name")
                .fetch_all(self.pool().await?)
                .await?;
            let setting = |row: &AnyRow| {
                let value: String = row.try_get("value")?;
                Ok((row.try_get("name")?, serde_json::from_str(&value).map_err(unusable)?))
            };
            rows.iter().map(setting).collect()
        })
        .await
    }

    async fn setting(&self, name: &str) -> Result<Option<Value>, StoreError> {
        in_time(async {
            let sql = "SELECT value FROM settings WHERE name = $1";
            let value: Option<String> =
                sqlx::query_scalar(sql).bind(text(name)).fetch_optional(self.pool().await?).await?;
            value.map(|value| serde_json::from_str(&value).map_err(unusable)).transpose()
        })
        .await
    }

    async fn change(
        &self,
        changes: &[(String, Option<Value>)],
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        in_time(async {
            let mut work = self.begin().await?;
            for (name, value) in changes {
                let change = match value {
                    Some(value) => sqlx::query(
                        "INSERT INTO settings (name, value) VALUES ($1, $2) \
                         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                    )
                    .bind(text(name))
                    .bind(value.to_string()),
                    None => sqlx::query("DELETE FROM settings WHERE name = $1").bind(text(name)),
                };
                change.execute(&mut *work).await?;
            }
            note(&mut work, audit).await?;
            work.commit().await
        })
        .await
    }

    async fn replace(
        &self,
        name: &str,
        was: Option<&Value>,
        value: &Value,
        audit: &AuditEntry,
    ) -> Result<bool, StoreError> {
        in_time(async {
            let mut work = self.begin().await?;
            let change = match was {
                Some(was) => {
                    let sql = "UPDATE settings SET value = $2 WHERE name = $1 AND value = $3";
                    sqlx::query(sql).bind(text(name)).bind(value.to_string()).bind(was.to_string())
                }
                None => {
                    let sql = "INSERT INTO settings (name, value) VALUES ($1, $2) \
                               ON CONFLICT (name) DO NOTHING";
                    sqlx::query(sql).bind(text(name)).bind(value.to_string())
                }
            };
            let change = change.execute(&mut *work).await?;
            if change.rows_affected() == 0 {
                work.rollback().await?;
                return Ok(false);
            }
            note(&mut work, audit).await?;
            work.commit().await?;
            Ok(true)
        })
        .await
    }

    async fn note(&self, entry: &AuditEntry) -> Result<(), StoreError> {
        in_time(async {
            let mut work = self.begin().await?;
            note(&mut work, entry).await?;
            work.commit().await
        })
        .await
    }

    async fn audit(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        in_time(async {
            let rows = sqlx::query(
                "SELECT number, at_ms, who, what, details FROM audit WHERE number < $1 \
                 ORDER BY number DESC LIMIT $2",
            )
            .bind(before.unwrap_or(i64::MAX))
            .bind(i64::from(limit))
            .fetch_all(self.pool().await?)
            .await?;
            let entry = |row: &AnyRow| {
                let details: String = row.try_get("details")?;
                Ok(AuditEntry {
                    number: row.try_get("number")?,
                    at: time(row.try_get("at_ms")?)?,
                    who: row.try_get("who")?,
                    what: row.try_get("what")?,
                    details: serde_json::from_str(&details).map_err(unusable)?,
                })
            };
            rows.iter().map(entry).collect()
        })
        .await
    }
}

async fn note(work: &mut StoreTransaction, entry: &AuditEntry) -> Result<(), SqlError> {
    let number: i64 = sqlx::query_scalar(
        "INSERT INTO audit (at_ms, who, what, details) VALUES ($1, $2, $3, $4) RETURNING number",
    )
    .bind(entry.at.as_millisecond())
    .bind(text(&entry.who))
    .bind(text(&entry.what))
    .bind(entry.details.to_string())
    .fetch_one(&mut **work)
    .await?;
    if number % CUT_EVERY == 0 {
        cut(work, MAX_AUDIT_ENTRIES).await?;
    }
    Ok(())
}

/// Cuts the audit log to this number of entries. The author with the most entries loses the oldest
/// of them: nobody can push out the entries of others.
async fn cut(work: &mut StoreTransaction, most: i64) -> Result<(), SqlError> {
    let count: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM audit").fetch_one(&mut **work).await?;
    sqlx::query(
        "DELETE FROM audit WHERE number IN (SELECT number FROM audit WHERE who = \
         (SELECT who FROM audit GROUP BY who ORDER BY COUNT(*) DESC, who LIMIT 1) \
         ORDER BY number LIMIT $1)",
    )
    .bind(count.saturating_sub(most).max(0))
    .execute(&mut **work)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[tokio::test]
    async fn one_author_cannot_push_out_the_audit_entries_of_others() {
        let store = SqlStore::at("sqlite::memory:").unwrap();
        let at = Timestamp::UNIX_EPOCH;
        for (who, entries) in [("anna", 3), ("greedy", 20), ("ben", 2)] {
            for n in 0..entries {
                let what = n.to_string();
                let entry =
                    AuditEntry { number: 0, at, who: who.into(), what, details: Value::Null };
                store.note(&entry).await.unwrap();
            }
        }
        let left = async |most: i64| {
            let mut work = store.begin().await.unwrap();
            cut(&mut work, most).await.unwrap();
            work.commit().await.unwrap();
            let entries = store.audit(None, 99).await.unwrap().into_iter().rev();
            entries.map(|entry| format!("{} {}", entry.who, entry.what)).collect::<Vec<_>>()
        };
        assert_eq!(left(25).await.len(), 25);
        let expected = ["anna 0", "anna 1", "anna 2", "greedy 18", "greedy 19", "ben 0", "ben 1"];
        assert_eq!(left(7).await, expected);
        assert_eq!(left(6).await, expected[1..]);
    }
}
