//! SQL of museum clients' sessions. Not for the content of conversations.

use async_trait::async_trait;
use hearken_ports::StoreOutcome;
use hearken_ports::store::{ListedMuseumSession, MuseumSession, MuseumStore, StoreError};
use hearken_proto::ids::SessionId;
use jiff::Timestamp;
use serde_json::Value;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::error::SqlError;
use super::{Dialect, SqlStore, in_time, text, time, unusable};

/// Names of all columns of a session.
macro_rules! columns {
    () => {
        "session_id, metadata, functions, history, created_ms, last_used_ms, expires_ms, requests"
    };
}

fn session(row: &AnyRow) -> Result<MuseumSession, SqlError> {
    let json = |column| row.try_get::<String, _>(column);
    Ok(MuseumSession {
        id: SessionId::new(row.try_get::<String, _>("session_id")?),
        metadata: serde_json::from_str(&json("metadata")?).map_err(unusable)?,
        functions: serde_json::from_str(&json("functions")?).map_err(unusable)?,
        history: serde_json::from_str(&json("history")?).map_err(unusable)?,
        created_at: time(row.try_get("created_ms")?)?,
        last_used_at: time(row.try_get("last_used_ms")?)?,
        expires_at: time(row.try_get("expires_ms")?)?,
        requests: row.try_get("requests")?,
    })
}

fn listed(row: &AnyRow) -> Result<ListedMuseumSession, SqlError> {
    let count = |column| row.try_get::<i64, _>(column)?.try_into().map_err(unusable);
    let metadata: String = row.try_get("metadata")?;
    Ok(ListedMuseumSession {
        id: SessionId::new(row.try_get::<String, _>("session_id")?),
        metadata: serde_json::from_str(&metadata).map_err(unusable)?,
        functions: count("functions")?,
        messages: count("messages")?,
        created_at: time(row.try_get("created_ms")?)?,
        last_used_at: time(row.try_get("last_used_ms")?)?,
        expires_at: time(row.try_get("expires_ms")?)?,
        requests: row.try_get("requests")?,
    })
}

fn json(values: &[Value]) -> Result<String, SqlError> {
    serde_json::to_string(values).map_err(unusable)
}

#[async_trait]
impl MuseumStore for SqlStore {
    async fn create(&self, session: &MuseumSession, address: &str) -> Result<(), StoreError> {
        in_time(async {
            sqlx::query(concat!(
                "INSERT INTO museum_sessions (",
                columns!(),
                ", address) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
            ))
            .bind(text(session.id.as_str()))
            .bind(session.metadata.to_string())
            .bind(json(&session.functions)?)
            .bind(json(&session.history)?)
            .bind(session.created_at.as_millisecond())
            .bind(session.last_used_at.as_millisecond())
            .bind(session.expires_at.as_millisecond())
            .bind(session.requests)
            .bind(text(address))
            .execute(self.writer().await?.pool)
            .await?;
            Ok(())
        })
        .await
    }

    async fn count_at(&self, address: &str, now: Timestamp) -> Result<u64, StoreError> {
        in_time(async {
            let sql = "SELECT COUNT(*) FROM museum_sessions WHERE address = $1 AND expires_ms > $2";
            let count = sqlx::query_scalar(sql).bind(text(address)).bind(now.as_millisecond());
            let count: i64 = count.fetch_one(self.pool().await?).await?;
            count.try_into().map_err(unusable)
        })
        .await
    }

    async fn find(&self, id: &SessionId) -> Result<Option<MuseumSession>, StoreError> {
        in_time(async {
            let sql = concat!("SELECT ", columns!(), " FROM museum_sessions WHERE session_id = $1");
            let row =
                sqlx::query(sql).bind(text(id.as_str())).fetch_optional(self.pool().await?).await?;
            row.as_ref().map(session).transpose()
        })
        .await
    }

    async fn touch(
        &self,
        id: &SessionId,
        expires: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        in_time(async {
            let touched = sqlx::query(
                "UPDATE museum_sessions SET expires_ms = $2, last_used_ms = $3, \
                 requests = requests + 1 WHERE session_id = $1 AND expires_ms > $3",
            )
            .bind(text(id.as_str()))
            .bind(expires.as_millisecond())
            .bind(now.as_millisecond())
            .execute(self.writer().await?.pool)
            .await?;
            Ok(touched.rows_affected() > 0)
        })
        .await
    }

    async fn extend(
        &self,
        id: &SessionId,
        expires: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        in_time(async {
            let sql = "UPDATE museum_sessions SET expires_ms = $2, last_used_ms = $3 \
                       WHERE session_id = $1";
            let extended = sqlx::query(sql)
                .bind(text(id.as_str()))
                .bind(expires.as_millisecond())
                .bind(now.as_millisecond())
                .execute(self.writer().await?.pool)
                .await?;
            Ok(extended.rows_affected() > 0)
        })
        .await
    }

    async fn keep_history(
        &self,
        id: &SessionId,
        former: &[Value],
        history: &[Value],
        now: Timestamp,
    ) -> Result<StoreOutcome, StoreError> {
        in_time(async {
            let sql = "SELECT history FROM museum_sessions WHERE session_id = $1";
            let stored = sqlx::query_scalar(sql).bind(text(id.as_str()));
            let stored: Option<String> = stored.fetch_optional(self.pool().await?).await?;
            let Some(stored) = stored else { return Ok(StoreOutcome::Closed) };
            // Compared as values: an earlier version may have written the same ones differently.
            let is_former =
                serde_json::from_str::<Vec<Value>>(&stored).map_err(unusable)? == former;
            if !is_former {
                return Ok(StoreOutcome::Overtaken);
            }
            let kept = sqlx::query(
                "UPDATE museum_sessions SET history = $2, last_used_ms = $3 \
                 WHERE session_id = $1 AND history = $4",
            )
            .bind(text(id.as_str()))
            .bind(json(history)?)
            .bind(now.as_millisecond())
            .bind(stored)
            .execute(self.writer().await?.pool)
            .await?;
            // If it was deleted since, the next call finds that.
            let is_kept = kept.rows_affected() > 0;
            Ok(if is_kept { StoreOutcome::Kept } else { StoreOutcome::Overtaken })
        })
        .await
    }

    async fn remove(&self, id: &SessionId) -> Result<bool, StoreError> {
        in_time(async {
            let gone = sqlx::query("DELETE FROM museum_sessions WHERE session_id = $1")
                .bind(text(id.as_str()))
                .execute(self.writer().await?.pool)
                .await?;
            Ok(gone.rows_affected() > 0)
        })
        .await
    }

    async fn remove_expired(&self, now: Timestamp, limit: u32) -> Result<u64, StoreError> {
        in_time(async {
            let gone = sqlx::query(
                "DELETE FROM museum_sessions WHERE session_id IN (SELECT session_id \
                 FROM museum_sessions WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT $2)",
            )
            .bind(now.as_millisecond())
            .bind(i64::from(limit))
            .execute(self.writer().await?.pool)
            .await?;
            Ok(gone.rows_affected())
        })
        .await
    }

    async fn list(
        &self,
        now: Timestamp,
        offset: u32,
        limit: u32,
    ) -> Result<(Vec<ListedMuseumSession>, u64), StoreError> {
        in_time(async {
            let pool = self.pool().await?;
            // Counted by the database: the functions and messages of a page of clients can take
            // hundreds of megabytes.
            let length = |column: &str| match self.dialect {
                Dialect::Sqlite => format!("json_array_length({column})"),
                Dialect::Postgres => {
                    format!("CAST(json_array_length(CAST({column} AS JSON)) AS BIGINT)")
                }
            };
            let sql = format!(
                "SELECT session_id, metadata, {} AS functions, {} AS messages, created_ms, \
                 last_used_ms, expires_ms, requests FROM museum_sessions WHERE session_id IN \
                 (SELECT session_id FROM museum_sessions WHERE expires_ms > $1 \
                 ORDER BY last_used_ms DESC, session_id LIMIT $2 OFFSET $3) \
                 ORDER BY last_used_ms DESC, session_id",
                length("functions"),
                length("history"),
            );
            let rows = sqlx::query(AssertSqlSafe(sql))
                .bind(now.as_millisecond())
                .bind(i64::from(limit))
                .bind(i64::from(offset))
                .fetch_all(pool)
                .await?;
            let sql = "SELECT COUNT(*) FROM museum_sessions WHERE expires_ms > $1";
            let total = sqlx::query_scalar(sql).bind(now.as_millisecond());
            let total: i64 = total.fetch_one(pool).await?;
            let sessions = rows.iter().map(listed).collect::<Result<_, _>>()?;
            Ok((sessions, total.try_into().map_err(unusable)?))
        })
        .await
    }
}
