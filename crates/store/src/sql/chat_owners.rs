//! SQL of who owns chat sessions, what an owner has stored, and what nobody uses any more. Not for
//! the decisions about it.

use hearken_ports::StorageUsage;
use hearken_proto::ids::SessionId;
use jiff::Timestamp;
use sqlx::Row as _;

use super::error::SqlError;
use super::{SqlStore, text, unusable};

/// Bytes that a snapshot takes besides the messages: its name, its row and those of the index.
const SNAPSHOT_BYTES: i64 = 512;

/// Most snapshots that one statement deletes: a session with many must not take longer than a call may.
const SNAPSHOTS_AT_ONCE: u64 = 20;

impl SqlStore {
    /// Deletes the snapshots of a session that is to be purged, a few at a time: what is deleted stays so if the time ends
    /// before the rest.
    pub(super) async fn delete_snapshots_of(&self, id: &str) -> Result<(), SqlError> {
        let sql = "DELETE FROM chat_snapshots WHERE snapshot_id IN \
                   (SELECT snapshot_id FROM chat_snapshots WHERE session_id = $1 LIMIT $2)";
        let at_once = i64::try_from(SNAPSHOTS_AT_ONCE).map_err(unusable)?;
        loop {
            let writer = self.writer().await?;
            let deleted = sqlx::query(sql).bind(id).bind(at_once).execute(writer.pool).await?;
            if deleted.rows_affected() < SNAPSHOTS_AT_ONCE {
                return Ok(());
            }
        }
    }

    pub(super) async fn chat_owner(&self, id: &SessionId) -> Result<Option<String>, SqlError> {
        let sql = "SELECT owner FROM chat_sessions WHERE session_id = $1";
        let owner = sqlx::query_scalar(sql).bind(text(id.as_str()));
        Ok(owner.fetch_optional(self.pool().await?).await?)
    }

    pub(super) async fn chat_usage(&self, owner: &str) -> Result<StorageUsage, SqlError> {
        let row = sqlx::query(
            "SELECT COUNT(*) AS sessions, CAST(COALESCE(SUM(stored_bytes), 0) AS BIGINT) + \
             (SELECT CAST(COALESCE(SUM(s.stored_bytes + $2), 0) AS BIGINT) FROM chat_snapshots s \
             JOIN chat_sessions c ON c.session_id = s.session_id WHERE c.owner = $1) AS bytes \
             FROM chat_sessions WHERE owner = $1",
        )
        .bind(text(owner))
        .bind(SNAPSHOT_BYTES)
        .fetch_one(self.pool().await?)
        .await?;
        let number = |column| row.try_get::<i64, _>(column)?.try_into().map_err(unusable);
        Ok(StorageUsage { sessions: number("sessions")?, bytes: number("bytes")? })
    }

    pub(super) async fn oldest_deleted_chat(
        &self,
        owner: &str,
    ) -> Result<Option<SessionId>, SqlError> {
        let id: Option<String> = sqlx::query_scalar(
            "SELECT session_id FROM chat_sessions WHERE owner = $1 AND status = 'deleted' \
             ORDER BY updated_ms, session_id LIMIT 1",
        )
        .bind(text(owner))
        .fetch_optional(self.pool().await?)
        .await?;
        Ok(id.map(SessionId::new))
    }

    pub(super) async fn unused_chats(
        &self,
        before: Timestamp,
        offset: u32,
        limit: u32,
    ) -> Result<Vec<SessionId>, SqlError> {
        let sql = "SELECT session_id FROM chat_sessions WHERE status <> 'deleted' \
                   AND last_access_ms < $1 ORDER BY last_access_ms, session_id LIMIT $2 OFFSET $3";
        self.chats_before(sql, before, offset, limit).await
    }

    pub(super) async fn purgeable_chats(
        &self,
        before: Timestamp,
        offset: u32,
        limit: u32,
    ) -> Result<Vec<SessionId>, SqlError> {
        // A deleted session never changes: its last change was the deletion.
        let sql = "SELECT session_id FROM chat_sessions WHERE status = 'deleted' \
                   AND updated_ms < $1 ORDER BY updated_ms, session_id LIMIT $2 OFFSET $3";
        self.chats_before(sql, before, offset, limit).await
    }

    /// Returns a page of the ids that this statement selects by a time, a limit and an offset.
    async fn chats_before(
        &self,
        sql: &'static str,
        before: Timestamp,
        offset: u32,
        limit: u32,
    ) -> Result<Vec<SessionId>, SqlError> {
        let ids: Vec<String> = sqlx::query_scalar(sql)
            .bind(before.as_millisecond())
            .bind(i64::from(limit))
            .bind(i64::from(offset))
            .fetch_all(self.pool().await?)
            .await?;
        Ok(ids.into_iter().map(SessionId::new).collect())
    }
}
