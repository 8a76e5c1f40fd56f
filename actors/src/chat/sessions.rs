//! Chat sessions as such: made, listed, archived, deleted, restored, gone back in; their worlds
//! read. Not for what is said in them.

use hearken_proto::chat::{
    ChatSession, ChatStatus, CreateSession, CreateSnapshot, MessagesBody, Snapshot,
};
use hearken_proto::ids::SessionId;
use serde_json::{Map, Value, json};

use super::world::nowhere;
use super::{ChatDesk, ChatError};
use crate::ports::{SessionFilter, SessionPage, StateError};
use crate::wall_clock::now;

/// Sessions that one round of purging forgets.
const PURGED_AT_ONCE: u32 = 100;

impl ChatDesk {
    /// Makes a session that was checked, and its world.
    ///
    /// # Errors
    /// The store or the state server failed; nothing was made then.
    pub async fn create(&self, wanted: CreateSession) -> Result<ChatSession, ChatError> {
        let at = now();
        let session = ChatSession {
            id: SessionId::new(uuid::Uuid::now_v7().to_string()),
            dm_user_id: wanted.dm_user_id.clone().unwrap_or_else(|| wanted.creator_id.clone()),
            status: ChatStatus::Active,
            max_players: wanted.most_players(),
            name: wanted.name,
            creator_id: wanted.creator_id,
            players: wanted.players,
            message_count: 0,
            state_version: None,
            created_at: at,
            updated_at: at,
            last_access_at: at,
        };
        if let Some(state) = &self.state {
            state.create(&session.id, &session.name).await.map_err(ChatError::State)?;
        }
        if let Err(error) = self.store.create(&session).await {
            self.forget_world(&session.id).await;
            return Err(error.into());
        }
        Ok(session)
    }

    /// A session that is not deleted.
    ///
    /// # Errors
    /// There is none, or the store failed.
    pub async fn session(&self, id: &SessionId) -> Result<ChatSession, ChatError> {
        let session = self.store.session(id).await?;
        let there = session.filter(|session| session.status != ChatStatus::Deleted);
        there.ok_or_else(|| ChatError::NotFound(id.clone()))
    }

    /// The sessions that fit.
    ///
    /// # Errors
    /// The store failed.
    pub async fn sessions(&self, filter: &SessionFilter) -> Result<SessionPage, ChatError> {
        Ok(self.store.sessions(filter).await?)
    }

    /// Deletes a session; it can be restored until it is purged, and so its world is kept as long.
    ///
    /// # Errors
    /// There is none, or the store failed.
    pub async fn delete(&self, id: &SessionId) -> Result<(), ChatError> {
        self.turn_to(id, &[ChatStatus::Active, ChatStatus::Archived], ChatStatus::Deleted).await
    }

    /// Archives an active session; an archived one stays so.
    ///
    /// # Errors
    /// There is none, or the store failed.
    pub async fn archive(&self, id: &SessionId) -> Result<(), ChatError> {
        self.turn_to(id, &[ChatStatus::Active, ChatStatus::Archived], ChatStatus::Archived).await
    }

    /// Makes a session active again, a deleted one too.
    ///
    /// # Errors
    /// There is none, or the store failed.
    pub async fn restore(&self, id: &SessionId) -> Result<(), ChatError> {
        let any = [ChatStatus::Active, ChatStatus::Archived, ChatStatus::Deleted];
        self.turn_to(id, &any, ChatStatus::Active).await
    }

    async fn turn_to(
        &self,
        id: &SessionId,
        from: &[ChatStatus],
        to: ChatStatus,
    ) -> Result<(), ChatError> {
        let changed = self.store.set_status(id, from, to, now()).await?;
        changed.ok_or_else(|| ChatError::NotFound(id.clone()))?;
        let kind = match to {
            ChatStatus::Active => "session.restored",
            ChatStatus::Archived => "session.archived",
            ChatStatus::Deleted => "session.deleted",
        };
        self.tell(id, kind, json!({ "status": to })).await;
        Ok(())
    }

    /// The last messages of a session, or those before a number.
    ///
    /// # Errors
    /// There is no such session, or the store failed.
    pub async fn messages(
        &self,
        id: &SessionId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<MessagesBody, ChatError> {
        let session = self.session(id).await?;
        let kept = self.store.messages(id, before, limit).await?;
        let first = kept.first().map(|kept| kept.number);
        let messages = kept.into_iter().map(|kept| kept.message).collect();
        Ok(MessagesBody { messages, total: session.message_count, first })
    }

    /// A session's world as it is now. Without a state server it is empty.
    ///
    /// # Errors
    /// There is no such session, the state server knows nothing of it, or failed.
    pub async fn state(&self, id: &SessionId) -> Result<Map<String, Value>, ChatError> {
        self.session(id).await?;
        let Some(server) = &self.state else { return Ok(nowhere(id)) };
        server.state(id).await.map_err(|error| match error {
            StateError::Unknown(_) => {
                ChatError::NoState("the state server has no state of this session".into())
            }
            other => ChatError::State(other),
        })
    }

    /// Makes a snapshot that was checked.
    ///
    /// # Errors
    /// There is no such session, or the store failed.
    pub async fn make_snapshot(
        &self,
        id: &SessionId,
        wanted: CreateSnapshot,
    ) -> Result<Snapshot, ChatError> {
        let session = self.session(id).await?;
        let at = now();
        let snapshot = Snapshot {
            id: uuid::Uuid::now_v7().to_string(),
            session_id: id.clone(),
            name: wanted.name.unwrap_or_else(|| at.to_string()),
            message_count: session.message_count,
            state_version: session.state_version,
            created_at: at,
        };
        let made = self.store.keep_snapshot(&snapshot).await?;
        made.ok_or_else(|| ChatError::NotFound(id.clone()))
    }

    /// A session's snapshots, oldest first.
    ///
    /// # Errors
    /// There is no such session, or the store failed.
    pub async fn snapshots(&self, id: &SessionId) -> Result<Vec<Snapshot>, ChatError> {
        self.session(id).await?;
        Ok(self.store.snapshots(id).await?)
    }

    /// Goes back to a snapshot: the world first, where its server can, then the dialogue.
    ///
    /// # Errors
    /// There is no such session or snapshot, a message is being answered, or a server failed.
    pub async fn go_back(&self, id: &SessionId, snapshot_id: &str) -> Result<Snapshot, ChatError> {
        self.session(id).await?;
        let missing = || ChatError::NoState(format!("the session has no snapshot {snapshot_id}"));
        let all = self.store.snapshots(id).await?;
        let wanted = all.into_iter().find(|s| s.id == snapshot_id).ok_or_else(missing)?;
        let lock = self.locks.lock(id.as_str(), self.settings.get().lock_wait).await?;
        let lock = lock.ok_or(ChatError::Busy)?;
        if let (Some(server), Some(version)) = (&self.state, wanted.state_version) {
            let restored = server.restore(id, version).await.map_err(ChatError::State)?;
            if !restored {
                tracing::warn!(session = %id, version, "the state server cannot go back");
            }
        }
        let back = self.store.restore_snapshot(id, snapshot_id, lock.fence, now()).await?;
        let back = back.ok_or(ChatError::Overtaken)?;
        self.tell(id, "session.rolled_back", json!({ "snapshot_id": snapshot_id })).await;
        Ok(back)
    }

    /// Forgets the sessions that were deleted long ago, with their worlds, for ever and ever.
    pub async fn keep_purging(&self) {
        let mut ticks = tokio::time::interval(self.settings.get().purge_every);
        loop {
            ticks.tick().await;
            if let Err(error) = self.purge().await {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, cause, "deleted sessions cannot be purged");
            }
        }
    }

    /// Forgets the sessions that were deleted long ago; tells how many.
    ///
    /// # Errors
    /// The store or the state server failed; what is left is for the next time.
    pub async fn purge(&self) -> Result<usize, ChatError> {
        let Ok(before) = now().checked_sub(self.settings.get().purge_after) else { return Ok(0) };
        let mut purged = 0;
        loop {
            let ids = self.store.purgeable(before, PURGED_AT_ONCE).await?;
            let last = ids.len() < PURGED_AT_ONCE as usize;
            for id in ids {
                if let Some(state) = &self.state {
                    state.delete(&id).await.map_err(ChatError::State)?;
                }
                purged += usize::from(self.store.purge(&id).await?);
            }
            if last {
                return Ok(purged);
            }
        }
    }

    async fn forget_world(&self, id: &SessionId) {
        if let Some(state) = &self.state
            && let Err(error) = state.delete(id).await
        {
            tracing::warn!(%error, session = %id, "the world of a session that was not made is left");
        }
    }
}
