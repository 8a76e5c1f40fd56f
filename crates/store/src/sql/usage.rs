//! SQL of the usage of each day. Not for limits.

use async_trait::async_trait;
use hearken_base::wall_clock;
use hearken_ports::store::{StoreError, UsageGroup, UsageStore};
use hearken_ports::usage::{UsageKey, Used};
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;
use jiff::civil::Date;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::deletions::{self, DeletionKind};
use super::error::SqlError;
use super::{SqlStore, StoreTransaction, in_time, text, unusable};

/// Names of the sums.
const SUMS: [&str; 8] = [
    "turns",
    "refused",
    "prompt_tokens",
    "completion_tokens",
    "heard_ms",
    "said_ms",
    "said_chars",
    "cost_nano",
];
/// Order with the most expensive first.
const DEAREST: &str = "cost_nano DESC, prompt_tokens + completion_tokens DESC";

/// Returns the clause of an insertion that adds to existing sums.
fn adding() -> String {
    let sums = SUMS.map(|sum| format!("{sum} = daily_usage.{sum} + excluded.{sum}"));
    format!("ON CONFLICT (day, kind, client, role_id) DO UPDATE SET {}", sums.join(", "))
}

fn values(used: &Used) -> [u64; 8] {
    [
        used.turns,
        used.refused,
        used.prompt_tokens,
        used.completion_tokens,
        used.heard_ms,
        used.said_ms,
        used.said_chars,
        used.cost_nano,
    ]
}

fn used(row: &AnyRow) -> Result<Used, SqlError> {
    let sum = |name: &str| -> Result<u64, SqlError> {
        row.try_get::<i64, _>(name)?.try_into().map_err(unusable)
    };
    Ok(Used {
        turns: sum("turns")?,
        refused: sum("refused")?,
        prompt_tokens: sum("prompt_tokens")?,
        completion_tokens: sum("completion_tokens")?,
        heard_ms: sum("heard_ms")?,
        said_ms: sum("said_ms")?,
        said_chars: sum("said_chars")?,
        cost_nano: sum("cost_nano")?,
    })
}

fn key(row: &AnyRow) -> Result<UsageKey, SqlError> {
    Ok(UsageKey {
        day: row.try_get::<String, _>("day")?.parse().map_err(unusable)?,
        kind: row.try_get("kind")?,
        client: row.try_get("client")?,
        role_id: row.try_get("role_id")?,
    })
}

#[async_trait]
impl UsageStore for SqlStore {
    async fn add_usage(
        &self,
        batch: &str,
        rows: &[(UsageKey, Used)],
        since: Timestamp,
    ) -> Result<(), StoreError> {
        in_time(async {
            let mut work = self.begin().await?;
            let is_new =
                deletions::note_once(&mut work, DeletionKind::UsageBatch, batch, wall_clock::now());
            if !is_new.await? {
                return work.rollback().await;
            }
            for (key, used) in rows {
                add(&mut work, key, used).await?;
            }
            // After adding: see the lock of `forget_usage_of`.
            let now = wall_clock::now();
            for device in deletions::since(&mut work, DeletionKind::Device, since, now).await? {
                if rows.iter().any(|(key, _)| key.client == device) {
                    forget(&mut work, &device).await?;
                }
            }
            deletions::forget_old(&mut work, now).await?;
            work.commit().await
        })
        .await
    }

    async fn usage_of_day(
        &self,
        day: Date,
        most: u32,
    ) -> Result<Vec<(UsageKey, Used)>, StoreError> {
        in_time(async {
            let sql = format!(
                "SELECT day, kind, client, role_id, {} FROM daily_usage WHERE day = $1 \
                 ORDER BY {DEAREST} LIMIT $2",
                SUMS.join(", ")
            );
            let rows = sqlx::query(AssertSqlSafe(sql))
                .bind(day.to_string())
                .bind(i64::from(most))
                .fetch_all(self.pool().await?)
                .await?;
            rows.iter().map(|row| Ok((key(row)?, used(row)?))).collect()
        })
        .await
    }

    async fn usage_by(
        &self,
        group: UsageGroup,
        from: Date,
        most: u32,
    ) -> Result<Vec<(String, Used)>, StoreError> {
        let (column, condition, order) = match group {
            UsageGroup::Day => ("day", "", "name"),
            UsageGroup::Device => ("client", "AND kind = 'voice'", DEAREST),
            UsageGroup::Role => ("role_id", "", DEAREST),
            UsageGroup::Kind => ("kind", "", DEAREST),
        };
        let sums = SUMS.map(|sum| format!("CAST(SUM({sum}) AS BIGINT) AS {sum}")).join(", ");
        let sql = format!(
            "SELECT * FROM (SELECT {column} AS name, {sums} FROM daily_usage \
             WHERE day >= $1 {condition} GROUP BY {column}) AS groups ORDER BY {order} LIMIT $2"
        );
        in_time(async {
            let rows = sqlx::query(AssertSqlSafe(sql))
                .bind(from.to_string())
                .bind(i64::from(most))
                .fetch_all(self.pool().await?)
                .await?;
            rows.iter().map(|row| Ok((row.try_get("name")?, used(row)?))).collect()
        })
        .await
    }

    async fn forget_usage_of(&self, device: &DeviceId) -> Result<(), StoreError> {
        in_time(async {
            // Exclusive: a concurrent addition is either moved with the rest or finds the deletion
            // recorded.
            let mut work = self.begin_alone(["daily_usage"].into_iter()).await?;
            deletions::note(&mut work, DeletionKind::Device, device.as_str(), wall_clock::now())
                .await?;
            forget(&mut work, device.as_str()).await?;
            work.commit().await
        })
        .await
    }

    async fn delete_usage_before(&self, day: Date) -> Result<u64, StoreError> {
        in_time(async {
            let writer = self.writer().await?;
            let deleted = sqlx::query("DELETE FROM daily_usage WHERE day < $1")
                .bind(day.to_string())
                .execute(writer.pool)
                .await?;
            Ok(deleted.rows_affected())
        })
        .await
    }
}

/// Moves the sums of a device to those without a name.
async fn forget(work: &mut StoreTransaction, device: &str) -> Result<(), SqlError> {
    let sums = SUMS.join(", ");
    let merge = format!(
        "INSERT INTO daily_usage (day, kind, client, role_id, {sums}) \
         SELECT day, kind, '', role_id, {sums} FROM daily_usage WHERE client = $1 {}",
        adding()
    );
    for sql in [merge, "DELETE FROM daily_usage WHERE client = $1".to_owned()] {
        sqlx::query(AssertSqlSafe(sql)).bind(device).execute(&mut **work).await?;
    }
    Ok(())
}

async fn add(work: &mut StoreTransaction, key: &UsageKey, used: &Used) -> Result<(), SqlError> {
    let sql = format!(
        "INSERT INTO daily_usage (day, kind, client, role_id, {}) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) {}",
        SUMS.join(", "),
        adding()
    );
    let mut query = sqlx::query(AssertSqlSafe(sql))
        .bind(key.day.to_string())
        .bind(text(&key.kind))
        .bind(text(&key.client))
        .bind(text(&key.role_id));
    for value in values(used) {
        query = query.bind(i64::try_from(value).unwrap_or(i64::MAX));
    }
    query.execute(&mut **work).await?;
    Ok(())
}
