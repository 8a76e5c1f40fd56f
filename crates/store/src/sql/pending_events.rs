//! SQL of events to publish: stored with the change that they describe, read in order, removed once
//! they are published. Not for publishing.

use hearken_ports::PendingEvent;
use hearken_proto::chat::Event;
use hearken_proto::ids::SessionId;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::error::SqlError;
use super::{SqlStore, StoreTransaction, text, unusable};

/// Stores an event as part of a change.
pub(super) async fn add(work: &mut StoreTransaction, event: &Event) -> Result<(), SqlError> {
    sqlx::query("INSERT INTO chat_pending_events (session_id, event) VALUES ($1, $2)")
        .bind(text(event.session_id.as_str()))
        .bind(text(&serde_json::to_string(event).map_err(unusable)?))
        .execute(&mut **work)
        .await?;
    Ok(())
}

impl SqlStore {
    pub(super) async fn pending_chat_events(
        &self,
        session: Option<&SessionId>,
        limit: u32,
    ) -> Result<Vec<PendingEvent>, SqlError> {
        let query = match session {
            Some(session) => sqlx::query(
                "SELECT number, event FROM chat_pending_events WHERE session_id = $2 \
                 ORDER BY number LIMIT $1",
            )
            .bind(i64::from(limit))
            .bind(text(session.as_str())),
            None => sqlx::query(
                "SELECT number, event FROM chat_pending_events ORDER BY number LIMIT $1",
            )
            .bind(i64::from(limit)),
        };
        let rows = query.fetch_all(self.pool().await?).await?;
        Ok(rows.iter().filter_map(pending).collect())
    }

    pub(super) async fn remove_chat_events(&self, numbers: &[i64]) -> Result<(), SqlError> {
        if numbers.is_empty() {
            return Ok(());
        }
        let mut work = self.begin().await?;
        for number in numbers {
            sqlx::query("DELETE FROM chat_pending_events WHERE number = $1")
                .bind(number)
                .execute(&mut *work)
                .await?;
        }
        work.commit().await
    }
}

/// Reads a row. A damaged row is skipped, so that the others are still published.
fn pending(row: &AnyRow) -> Option<PendingEvent> {
    let read = || -> Result<PendingEvent, SqlError> {
        let event: String = row.try_get("event")?;
        let event = serde_json::from_str(&event).map_err(unusable)?;
        Ok(PendingEvent { number: row.try_get("number")?, event })
    };
    read().inspect_err(|error| tracing::warn!(%error, "cannot read a stored event")).ok()
}
