//! SQL of chat sessions, their messages and turns. Not for the content of messages. Snapshots and
//! requests with keys have their own modules.

use async_trait::async_trait;
use hearken_ports::{
    BoxError, ChatStore, KeptMessage, KeptTurn, KnownRequest, PendingEvent, RefusedUntil,
    RequestKey, SessionFilter, SessionPage, StorageUsage, StoreOutcome,
};
use hearken_proto::chat::{ChatSession, ChatStatus, Event, Snapshot};
use hearken_proto::ids::SessionId;
use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::error::SqlError;
use super::{SqlStore, in_time_for_ports, pending_events, requests, text, time, unusable};

/// Names of all columns of a session.
// A prepared `*` breaks when a migration adds a column. Decision 0038.
macro_rules! columns {
    () => {
        "session_id, name, creator_id, dm_user_id, status, max_players, players, message_count, \
         state_version, created_ms, updated_ms, last_access_ms"
    };
}

/// Filter of sessions: `$1` is the person, `$2` the status, `$3` the owner.
macro_rules! fitting {
    () => {
        " FROM chat_sessions WHERE ($1 IS NULL OR session_id IN \
         (SELECT session_id FROM chat_people WHERE user_id = $1)) \
         AND (status = $2 OR ($2 IS NULL AND status <> 'deleted')) \
         AND ($3 IS NULL OR owner = $3) "
    };
}

fn session(row: &AnyRow) -> Result<ChatSession, SqlError> {
    let status: String = row.try_get("status")?;
    let players: String = row.try_get("players")?;
    Ok(ChatSession {
        id: SessionId::new(row.try_get::<String, _>("session_id")?),
        name: row.try_get("name")?,
        creator_id: row.try_get("creator_id")?,
        dm_user_id: row.try_get("dm_user_id")?,
        status: ChatStatus::from_word(&status)
            .ok_or_else(|| unusable(format!("a chat session's status is `{status}`")))?,
        max_players: row.try_get::<i64, _>("max_players")?.try_into().map_err(unusable)?,
        players: serde_json::from_str(&players).map_err(unusable)?,
        message_count: row.try_get("message_count")?,
        state_version: row.try_get("state_version")?,
        created_at: time(row.try_get("created_ms")?)?,
        updated_at: time(row.try_get("updated_ms")?)?,
        last_access_at: time(row.try_get("last_access_ms")?)?,
    })
}

fn refused_until(row: &AnyRow) -> Result<RefusedUntil, SqlError> {
    let since_1970: i64 = row.try_get("refused_ns")?;
    let at = Timestamp::from_nanosecond(i128::from(since_1970)).map_err(unusable)?;
    Ok(RefusedUntil { number: row.try_get("refused_number")?, at })
}

#[async_trait]
impl ChatStore for SqlStore {
    async fn create(&self, session: &ChatSession, owner: &str) -> Result<(), BoxError> {
        in_time_for_ports(self.create_chat(session, owner)).await
    }

    async fn owner(&self, id: &SessionId) -> Result<Option<String>, BoxError> {
        in_time_for_ports(self.chat_owner(id)).await
    }

    async fn usage(&self, owner: &str) -> Result<StorageUsage, BoxError> {
        in_time_for_ports(self.chat_usage(owner)).await
    }

    async fn oldest_deleted(
        &self,
        owner: &str,
        offset: u32,
    ) -> Result<Option<SessionId>, BoxError> {
        in_time_for_ports(self.oldest_deleted_chat(owner, offset)).await
    }

    async fn unused(
        &self,
        before: Timestamp,
        offset: u32,
        limit: u32,
    ) -> Result<Vec<SessionId>, BoxError> {
        in_time_for_ports(self.unused_chats(before, offset, limit)).await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<ChatSession>, BoxError> {
        in_time_for_ports(async {
            let sql = concat!("SELECT ", columns!(), " FROM chat_sessions WHERE session_id = $1");
            let row =
                sqlx::query(sql).bind(text(id.as_str())).fetch_optional(self.pool().await?).await?;
            row.as_ref().map(session).transpose()
        })
        .await
    }

    async fn sessions(&self, filter: &SessionFilter) -> Result<SessionPage, BoxError> {
        in_time_for_ports(async {
            let pool = self.pool().await?;
            let user = filter.user_id.as_deref().map(text);
            let status = filter.status.map(ChatStatus::as_str);
            let owner = filter.owner.as_deref().map(text);
            let sql = concat!(
                "SELECT ",
                columns!(),
                fitting!(),
                "ORDER BY last_access_ms DESC, session_id LIMIT $4 OFFSET $5"
            );
            let rows = sqlx::query(sql)
                .bind(user.clone())
                .bind(status)
                .bind(owner.clone())
                .bind(i64::from(filter.limit))
                .bind(i64::from(filter.offset))
                .fetch_all(pool)
                .await?;
            let total: i64 = sqlx::query_scalar(concat!("SELECT COUNT(*)", fitting!()))
                .bind(user)
                .bind(status)
                .bind(owner)
                .fetch_one(pool)
                .await?;
            let sessions = rows.iter().map(session).collect::<Result<_, _>>()?;
            Ok(SessionPage { sessions, total: total.try_into().map_err(unusable)? })
        })
        .await
    }

    async fn set_status(
        &self,
        id: &SessionId,
        from: &[ChatStatus],
        to: ChatStatus,
        at: Timestamp,
        event: Option<&Event>,
    ) -> Result<Option<ChatSession>, BoxError> {
        let may = |status: ChatStatus| from.contains(&status).then_some(status.as_str());
        in_time_for_ports(async {
            let mut work = self.begin().await?;
            let row = sqlx::query(concat!(
                "UPDATE chat_sessions SET status = $2, updated_ms = $3, last_access_ms = \
                 CASE WHEN $2 = 'active' THEN $3 ELSE last_access_ms END \
                 WHERE session_id = $1 AND status IN ($4, $5, $6) \
                 AND (status <> 'deleted' OR last_access_ms >= 0) RETURNING ",
                columns!()
            ))
            .bind(text(id.as_str()))
            .bind(to.as_str())
            .bind(at.as_millisecond())
            .bind(may(ChatStatus::Active))
            .bind(may(ChatStatus::Archived))
            .bind(may(ChatStatus::Deleted))
            .fetch_optional(&mut *work)
            .await?;
            let Some(row) = row else {
                work.rollback().await?;
                return Ok(None);
            };
            if let Some(event) = event {
                pending_events::add(&mut work, event).await?;
            }
            work.commit().await?;
            session(&row).map(Some)
        })
        .await
    }

    async fn touch(&self, id: &SessionId, at: Timestamp) -> Result<(), BoxError> {
        in_time_for_ports(async {
            sqlx::query(
                "UPDATE chat_sessions SET last_access_ms = $2 \
                 WHERE session_id = $1 AND status <> 'deleted' AND last_access_ms < $2",
            )
            .bind(text(id.as_str()))
            .bind(at.as_millisecond())
            .execute(self.writer().await?.pool)
            .await?;
            Ok(())
        })
        .await
    }

    async fn purgeable(
        &self,
        before: Timestamp,
        offset: u32,
        limit: u32,
    ) -> Result<Vec<SessionId>, BoxError> {
        in_time_for_ports(self.purgeable_chats(before, offset, limit)).await
    }

    async fn set_purging(&self, id: &SessionId, is_purging: bool) -> Result<bool, BoxError> {
        in_time_for_ports(async {
            // The last access of a deleted session that is being purged is set to a time before
            // 1970.
            let sql = match is_purging {
                true => {
                    "UPDATE chat_sessions SET last_access_ms = -1 \
                     WHERE session_id = $1 AND status = 'deleted'"
                }
                false => {
                    "UPDATE chat_sessions SET last_access_ms = updated_ms \
                     WHERE session_id = $1 AND status = 'deleted' AND last_access_ms < 0"
                }
            };
            let changed =
                sqlx::query(sql).bind(text(id.as_str())).execute(self.writer().await?.pool).await?;
            Ok(changed.rows_affected() > 0)
        })
        .await
    }

    async fn purge(&self, id: &SessionId) -> Result<bool, BoxError> {
        let purged = in_time_for_ports(async {
            let id = text(id.as_str());
            let sql =
                "SELECT COUNT(*) FROM chat_sessions WHERE session_id = $1 AND status = 'deleted'";
            let count: i64 =
                sqlx::query_scalar(sql).bind(&id).fetch_one(self.pool().await?).await?;
            if count == 0 {
                return Ok(false);
            }
            // First, so that a failure here leaves the session, and the purge is retried.
            self.delete_history_of(&id).await?;
            self.delete_snapshots_of(&id).await?;
            let sql = "DELETE FROM chat_sessions WHERE session_id = $1 AND status = 'deleted'";
            let overwritten = async {
                let mut work = self.begin_overwriting().await?;
                let gone = sqlx::query(sql).bind(&id).execute(&mut *work).await?;
                work.commit().await?;
                Ok::<_, SqlError>(gone)
            };
            let gone = match overwritten.await {
                Ok(gone) => gone,
                // Overwriting needs free disk space, which a purge is meant to create.
                Err(_) => sqlx::query(sql).bind(&id).execute(self.writer().await?.pool).await?,
            };
            Ok(gone.rows_affected() > 0)
        })
        .await?;
        if purged {
            self.empty_log().await;
        }
        Ok(purged)
    }

    async fn messages(
        &self,
        id: &SessionId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<KeptMessage>, BoxError> {
        in_time_for_ports(async {
            let rows = sqlx::query(
                "SELECT number, message FROM chat_messages WHERE session_id = $1 AND number < $2 \
                 ORDER BY number DESC LIMIT $3",
            )
            .bind(text(id.as_str()))
            .bind(before.unwrap_or(i64::MAX))
            .bind(i64::from(limit))
            .fetch_all(self.pool().await?)
            .await?;
            let message = |row: &AnyRow| {
                let message: String = row.try_get("message")?;
                let message = serde_json::from_str(&message).map_err(unusable)?;
                Ok(KeptMessage { number: row.try_get("number")?, message })
            };
            rows.iter().rev().map(message).collect()
        })
        .await
    }

    async fn refused_until(&self, id: &SessionId) -> Result<Option<RefusedUntil>, BoxError> {
        in_time_for_ports(async {
            let row = sqlx::query(
                "SELECT refused_number, refused_ns FROM chat_sessions \
                 WHERE session_id = $1 AND refused_number > 0",
            )
            .bind(text(id.as_str()))
            .fetch_optional(self.pool().await?)
            .await?;
            row.as_ref().map(refused_until).transpose()
        })
        .await
    }

    async fn keep_turn(&self, turn: &KeptTurn) -> Result<StoreOutcome, BoxError> {
        in_time_for_ports(self.keep_chat_turn(turn)).await
    }

    async fn begin_request(
        &self,
        id: &SessionId,
        key: &RequestKey,
        fence: i64,
    ) -> Result<StoreOutcome, BoxError> {
        in_time_for_ports(self.begin_chat_request(id, key, fence)).await
    }

    async fn forget_request(&self, id: &SessionId, key: &str, fence: i64) -> Result<(), BoxError> {
        in_time_for_ports(self.forget_chat_request(id, key, fence)).await
    }

    async fn request(&self, id: &SessionId, key: &str) -> Result<Option<KnownRequest>, BoxError> {
        in_time_for_ports(self.known_request(id, key)).await
    }

    async fn keep_snapshot(
        &self,
        snapshot: &Snapshot,
        fence: i64,
    ) -> Result<Option<Snapshot>, BoxError> {
        in_time_for_ports(self.keep_chat_snapshot(snapshot, fence)).await
    }

    async fn snapshots(&self, id: &SessionId) -> Result<Vec<Snapshot>, BoxError> {
        in_time_for_ports(self.chat_snapshots(id)).await
    }

    async fn restore_snapshot(
        &self,
        id: &SessionId,
        snapshot_id: &str,
        fence: i64,
        at: Timestamp,
        event: Option<&Event>,
    ) -> Result<Option<Snapshot>, BoxError> {
        in_time_for_ports(self.restore_chat_snapshot(id, snapshot_id, fence, at, event)).await
    }

    async fn last_fence(&self) -> Result<i64, BoxError> {
        in_time_for_ports(self.last_chat_fence()).await
    }

    async fn pending_events(
        &self,
        session: Option<&SessionId>,
        limit: u32,
    ) -> Result<Vec<PendingEvent>, BoxError> {
        in_time_for_ports(self.pending_chat_events(session, limit)).await
    }

    async fn remove_events(&self, numbers: &[i64]) -> Result<(), BoxError> {
        in_time_for_ports(self.remove_chat_events(numbers)).await
    }
}

impl SqlStore {
    async fn create_chat(&self, session: &ChatSession, owner: &str) -> Result<(), SqlError> {
        let players = serde_json::to_string(&session.players).map_err(unusable)?;
        // The players are stored twice: for display and for searches.
        let bytes = i64::try_from(session.name.len() + 2 * players.len()).map_err(unusable)?;
        let mut work = self.begin().await?;
        sqlx::query(concat!(
            "INSERT INTO chat_sessions (",
            columns!(),
            ", owner, stored_bytes) VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8, $9, $10, $11, $12, $13)"
        ))
        .bind(text(session.id.as_str()))
        .bind(text(&session.name))
        .bind(text(&session.creator_id))
        .bind(text(&session.dm_user_id))
        .bind(session.status.as_str())
        .bind(i64::from(session.max_players))
        .bind(players)
        .bind(session.state_version)
        .bind(session.created_at.as_millisecond())
        .bind(session.updated_at.as_millisecond())
        .bind(session.last_access_at.as_millisecond())
        .bind(text(owner))
        .bind(bytes)
        .execute(&mut *work)
        .await?;
        let leaders = [&session.creator_id, &session.dm_user_id];
        for user in leaders.into_iter().chain(&session.players) {
            sqlx::query(
                "INSERT INTO chat_people (session_id, user_id) VALUES ($1, $2) \
                 ON CONFLICT (session_id, user_id) DO NOTHING",
            )
            .bind(text(session.id.as_str()))
            .bind(text(user))
            .execute(&mut *work)
            .await?;
        }
        work.commit().await
    }

    /// Updates the session's row first, and only if no other turn came first. Of two concurrent
    /// turns after the same message, the second finds another message count.
    async fn keep_chat_turn(&self, turn: &KeptTurn) -> Result<StoreOutcome, SqlError> {
        let id = text(turn.session_id.as_str());
        let messages = turn.messages.iter().map(serde_json::to_string);
        let messages = messages.collect::<Result<Vec<_>, _>>().map_err(unusable)?;
        let answer = if turn.key.is_some() { turn.answer.len() } else { 0 };
        let bytes = messages.iter().map(String::len).sum::<usize>() + answer;
        let refused_at = turn.refused.map(|refused| i64::try_from(refused.at.as_nanosecond()));
        let refused_at = refused_at.transpose().map_err(unusable)?;
        let mut work = self.begin().await?;
        let taken = sqlx::query(
            "UPDATE chat_sessions SET message_count = message_count + $4, fence = $3, \
             state_version = COALESCE($5, state_version), updated_ms = $6, last_access_ms = $6, \
             stored_bytes = stored_bytes + $7, \
             refused_number = COALESCE($8, refused_number), \
             refused_ns = COALESCE($9, refused_ns) \
             WHERE session_id = $1 AND status = 'active' AND message_count = $2 AND fence <= $3",
        )
        .bind(&id)
        .bind(turn.after)
        .bind(turn.fence)
        .bind(i64::try_from(messages.len()).map_err(unusable)?)
        .bind(turn.state_version)
        .bind(turn.at.as_millisecond())
        .bind(i64::try_from(bytes).map_err(unusable)?)
        .bind(turn.refused.map(|refused| refused.number))
        .bind(refused_at)
        .execute(&mut *work)
        .await?;
        if taken.rows_affected() == 0 {
            let why = requests::why_not(&mut work, &id).await?;
            work.rollback().await?;
            return Ok(why);
        }
        if !requests::answer(&mut work, turn).await? {
            // The request already has an answer.
            work.rollback().await?;
            return Ok(StoreOutcome::Overtaken);
        }
        for (number, message) in (turn.after.saturating_add(1)..).zip(messages) {
            sqlx::query(
                "INSERT INTO chat_messages (session_id, number, message) VALUES ($1, $2, $3)",
            )
            .bind(&id)
            .bind(number)
            .bind(message)
            .execute(&mut *work)
            .await?;
        }
        if let Some(event) = &turn.event {
            pending_events::add(&mut work, event).await?;
        }
        work.commit().await?;
        Ok(StoreOutcome::Kept)
    }
}
