//! SQL of the owners of chat sessions, their storage usage, and unused sessions. Not for decisions
//! about them.

use hearken_ports::StorageUsage;
use hearken_proto::ids::SessionId;
use jiff::Timestamp;
use sqlx::Row as _;

use super::error::SqlError;
use super::{SqlStore, text, unusable};

/// Size of a snapshot apart from its messages, in bytes: its name, its row and index entries.
const SNAPSHOT_BYTES: i64 = 512;

/// Maximum number of snapshots that one statement deletes, so that a session with many of them does
/// not exceed the deadline of a call.
const SNAPSHOTS_AT_ONCE: u64 = 20;

impl SqlStore {
    /// Deletes the snapshots of a session that is being purged, in small steps: completed deletions
    /// remain if the deadline ends the call before the rest.
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
        offset: u32,
    ) -> Result<Option<SessionId>, SqlError> {
        let id: Option<String> = sqlx::query_scalar(
            "SELECT session_id FROM chat_sessions WHERE owner = $1 AND status = 'deleted' \
             ORDER BY updated_ms, session_id LIMIT 1 OFFSET $2",
        )
        .bind(text(owner))
        .bind(i64::from(offset))
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
        // A deleted session does not change: its last change is the deletion.
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
