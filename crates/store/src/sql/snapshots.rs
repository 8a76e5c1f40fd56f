//! SQL of snapshots of chat sessions: copies of their messages, made and restored within the
//! database. Not for the state server's part of a snapshot: only its version is stored here.

use hearken_proto::chat::{Event, Snapshot};
use hearken_proto::ids::SessionId;
use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::error::SqlError;
use super::{SqlStore, pending_events, requests, text, time};

/// Names of all columns of a snapshot.
macro_rules! columns {
    () => {
        "snapshot_id, session_id, name, message_count, state_version, created_ms"
    };
}

fn snapshot(row: &AnyRow) -> Result<Snapshot, SqlError> {
    Ok(Snapshot {
        id: row.try_get("snapshot_id")?,
        session_id: SessionId::new(row.try_get::<String, _>("session_id")?),
        name: row.try_get("name")?,
        message_count: row.try_get("message_count")?,
        state_version: row.try_get("state_version")?,
        created_at: time(row.try_get("created_ms")?)?,
    })
}

impl SqlStore {
    pub(super) async fn keep_chat_snapshot(
        &self,
        new: &Snapshot,
        fence: i64,
    ) -> Result<Option<Snapshot>, SqlError> {
        let id = text(new.session_id.as_str());
        let snapshot_id = text(&new.id);
        let mut work = self.begin().await?;
        // From here on, no turn can be stored in between.
        let taken = sqlx::query(
            "UPDATE chat_sessions SET fence = $2 WHERE session_id = $1 AND fence <= $2",
        )
        .bind(&id)
        .bind(fence)
        .execute(&mut *work)
        .await?;
        if taken.rows_affected() == 0 {
            work.rollback().await?;
            return Ok(None);
        }
        let row = sqlx::query(concat!(
            "INSERT INTO chat_snapshots (",
            columns!(),
            ", stored_bytes) SELECT $1, session_id, $3, message_count, $4, $5, stored_bytes \
             FROM chat_sessions WHERE session_id = $2 AND status <> 'deleted' RETURNING ",
            columns!()
        ))
        .bind(&snapshot_id)
        .bind(&id)
        .bind(text(&new.name))
        .bind(new.state_version)
        .bind(new.created_at.as_millisecond())
        .fetch_optional(&mut *work)
        .await?;
        let Some(row) = row else {
            work.rollback().await?;
            return Ok(None);
        };
        sqlx::query(
            "INSERT INTO chat_snapshot_messages (snapshot_id, number, message) \
             SELECT $1, number, message FROM chat_messages WHERE session_id = $2",
        )
        .bind(&snapshot_id)
        .bind(&id)
        .execute(&mut *work)
        .await?;
        requests::copy_to_snapshot(&mut work, &id, &snapshot_id).await?;
        work.commit().await?;
        snapshot(&row).map(Some)
    }

    pub(super) async fn chat_snapshots(&self, id: &SessionId) -> Result<Vec<Snapshot>, SqlError> {
        let rows = sqlx::query(concat!(
            "SELECT ",
            columns!(),
            " FROM chat_snapshots WHERE session_id = $1 ORDER BY created_ms, snapshot_id"
        ))
        .bind(text(id.as_str()))
        .fetch_all(self.pool().await?)
        .await?;
        rows.iter().map(snapshot).collect()
    }

    pub(super) async fn restore_chat_snapshot(
        &self,
        id: &SessionId,
        snapshot_id: &str,
        fence: i64,
        at: Timestamp,
        event: Option<&Event>,
    ) -> Result<Option<Snapshot>, SqlError> {
        let id = text(id.as_str());
        let snapshot_id = text(snapshot_id);
        let mut work = self.begin().await?;
        let taken = sqlx::query(
            "UPDATE chat_sessions SET fence = $3, updated_ms = $4, last_access_ms = $4, \
             message_count = \
               (SELECT message_count FROM chat_snapshots WHERE snapshot_id = $2), \
             state_version = \
               (SELECT state_version FROM chat_snapshots WHERE snapshot_id = $2), \
             stored_bytes = \
               (SELECT stored_bytes FROM chat_snapshots WHERE snapshot_id = $2) \
             WHERE session_id = $1 AND status = 'active' AND fence <= $3 AND EXISTS \
             (SELECT 1 FROM chat_snapshots WHERE snapshot_id = $2 AND session_id = $1)",
        )
        .bind(&id)
        .bind(&snapshot_id)
        .bind(fence)
        .bind(at.as_millisecond())
        .execute(&mut *work)
        .await?;
        if taken.rows_affected() == 0 {
            work.rollback().await?;
            return Ok(None);
        }
        sqlx::query("DELETE FROM chat_messages WHERE session_id = $1")
            .bind(&id)
            .execute(&mut *work)
            .await?;
        sqlx::query(
            "INSERT INTO chat_messages (session_id, number, message) \
             SELECT $1, number, message FROM chat_snapshot_messages WHERE snapshot_id = $2",
        )
        .bind(&id)
        .bind(&snapshot_id)
        .execute(&mut *work)
        .await?;
        requests::copy_from_snapshot(&mut work, &id, &snapshot_id).await?;
        if let Some(event) = event {
            pending_events::add(&mut work, event).await?;
        }
        let row = sqlx::query(concat!(
            "SELECT ",
            columns!(),
            " FROM chat_snapshots WHERE snapshot_id = $1"
        ))
        .bind(&snapshot_id)
        .fetch_one(&mut *work)
        .await?;
        work.commit().await?;
        snapshot(&row).map(Some)
    }
}
