//! SQL of text clients' sessions. Not for the format of their content.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use hearken_ports::sessions::MAX_TEXT_SESSIONS;
use hearken_ports::{BoxError, KeptSession, SessionStore, StoreOutcome};
use hearken_proto::ids::SessionId;
use sqlx::Row as _;

use super::{SqlStore, in_time, text};

/// Maximum number of sessions that one statement deletes, to limit the wait of other calls.
const AT_ONCE: i64 = 1_000;

#[async_trait]
impl SessionStore for SqlStore {
    async fn load(&self, id: &SessionId) -> Result<Option<KeptSession>, BoxError> {
        let found = in_time(async {
            let sql = "SELECT state, last_used_ms FROM sessions WHERE session_id = $1";
            let row =
                sqlx::query(sql).bind(text(id.as_str())).fetch_optional(self.pool().await?).await?;
            let read = |row: sqlx::any::AnyRow| {
                Ok((row.try_get("state")?, row.try_get::<i64, _>("last_used_ms")?))
            };
            row.map(read).transpose()
        });
        Ok(found.await?.map(|(state, last_used_ms)| KeptSession {
            id: id.clone(),
            state,
            last_used: UNIX_EPOCH + Duration::from_millis(last_used_ms.try_into().unwrap_or(0)),
        }))
    }

    async fn keep(
        &self,
        session: &KeptSession,
        known: Option<SystemTime>,
    ) -> Result<StoreOutcome, BoxError> {
        let sql = match known {
            None => {
                "INSERT INTO sessions (session_id, state, last_used_ms) VALUES ($1, $2, $3) \
                 ON CONFLICT (session_id) DO NOTHING"
            }
            Some(_) => {
                "UPDATE sessions SET state = $2, last_used_ms = $3 \
                 WHERE session_id = $1 AND last_used_ms = $4"
            }
        };
        let kept = in_time(async {
            // Holds the permit until the end: without it, SQLite refuses a writer that meets
            // another one.
            let writer = self.writer().await?;
            let keep = sqlx::query(sql)
                .bind(text(session.id.as_str()))
                .bind(text(&session.state))
                .bind(milliseconds(session.last_used));
            let keep = if let Some(known) = known { keep.bind(milliseconds(known)) } else { keep };
            if keep.execute(writer.pool).await?.rows_affected() > 0 {
                return Ok(StoreOutcome::Kept);
            }
            let other = sqlx::query("SELECT 1 FROM sessions WHERE session_id = $1")
                .bind(text(session.id.as_str()))
                .fetch_optional(writer.pool)
                .await?;
            Ok(if other.is_some() { StoreOutcome::Overtaken } else { StoreOutcome::Closed })
        });
        Ok(kept.await?)
    }

    async fn touch(&self, id: &SessionId, last_used: SystemTime) -> Result<bool, BoxError> {
        let touched = in_time(async {
            let sql = "UPDATE sessions SET last_used_ms = $2 WHERE session_id = $1";
            let touched = sqlx::query(sql)
                .bind(text(id.as_str()))
                .bind(milliseconds(last_used))
                .execute(self.writer().await?.pool)
                .await?;
            Ok(touched.rows_affected() > 0)
        });
        Ok(touched.await?)
    }

    async fn forget(&self, id: &SessionId) -> Result<(), BoxError> {
        let gone = in_time(async {
            sqlx::query("DELETE FROM sessions WHERE session_id = $1")
                .bind(text(id.as_str()))
                .execute(self.writer().await?.pool)
                .await?;
            Ok(())
        });
        Ok(gone.await?)
    }

    async fn forget_unused(&self, since: SystemTime) -> Result<u64, BoxError> {
        let gone = in_time(async {
            let gone = sqlx::query(
                "DELETE FROM sessions WHERE session_id IN (SELECT session_id FROM sessions \
                 WHERE last_used_ms < $1 OR last_used_ms < (SELECT last_used_ms FROM sessions \
                 ORDER BY last_used_ms DESC LIMIT 1 OFFSET $3) LIMIT $2)",
            )
            .bind(milliseconds(since))
            .bind(AT_ONCE)
            .bind(i64::from(MAX_TEXT_SESSIONS) - 1)
            .execute(self.writer().await?.pool)
            .await?;
            Ok(gone.rows_affected())
        });
        Ok(gone.await?)
    }
}

fn milliseconds(time: SystemTime) -> i64 {
    let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}
