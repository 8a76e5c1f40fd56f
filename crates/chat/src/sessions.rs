//! Management of chat sessions: creates, lists, archives, deletes, restores and purges them, and
//! reads their states. Not for messages, nor for snapshots.

use std::time::Duration;

use hearken_base::wall_clock::{earliest, now};
use hearken_ports::{SessionFilter, SessionPage, StateError};
use hearken_proto::chat::{ChatSession, ChatStatus, CreateSession, MessagesBody};
use hearken_proto::ids::SessionId;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::events::event;
use super::state_tools::empty_state;
use super::{Asker, ChatError, ChatService};

/// Number of sessions that one round of purging reads.
const PURGED_AT_ONCE: u32 = 100;
/// Number of failures of the store after which a round of purging ends.
const MAX_FAILED: u32 = 3;

/// Selection of sessions to remove by age.
#[derive(Clone, Copy)]
enum Sweep {
    /// Unused sessions.
    Unused,
    /// Deleted sessions.
    Deleted,
}

impl ChatService {
    /// Creates a session from a validated request, and its state. It belongs to `asker`.
    ///
    /// # Errors
    /// Returns an error if the asker may store nothing more, or the store or the state server
    /// failed. Then nothing is created.
    pub async fn create(
        &self,
        wanted: CreateSession,
        asker: &Asker,
    ) -> Result<ChatSession, ChatError> {
        let _share = self.lock_share(asker).await?;
        self.check_share_of_sessions(asker).await?;
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
        if let Some(state) = &self.state
            && let Err(error) = state.create(&session.id, &session.name).await
        {
            // Its answer may be lost: nobody else knows the id of this world.
            if error.may_be_done() {
                self.delete_state(&session.id).await;
            }
            return Err(ChatError::State(error));
        }
        if let Err(error) = self.store.create(&session, asker.owner()).await {
            self.delete_state(&session.id).await;
            return Err(error.into());
        }
        Ok(session)
    }

    /// Returns a session that is not deleted.
    ///
    /// # Errors
    /// Returns an error if there is no such session, or the store failed.
    pub async fn session(&self, id: &SessionId) -> Result<ChatSession, ChatError> {
        let session = self.store.session(id).await?;
        let there = session.filter(|session| session.status != ChatStatus::Deleted);
        there.ok_or_else(|| ChatError::SessionNotFound(id.clone()))
    }

    /// Returns the sessions that match the filter; for a client without a credential, only its own.
    ///
    /// # Errors
    /// Returns an error if the store failed.
    pub async fn sessions(
        &self,
        filter: SessionFilter,
        asker: &Asker,
    ) -> Result<SessionPage, ChatError> {
        let filter = SessionFilter { owner: asker.client().map(str::to_owned), ..filter };
        Ok(self.store.sessions(&filter).await?)
    }

    /// Deletes a session. It can be restored until it is purged, so its state is retained until
    /// then.
    ///
    /// # Errors
    /// Returns an error if there is no such session, another request about it takes too long, or
    /// the store failed.
    pub async fn delete(&self, id: &SessionId) -> Result<(), ChatError> {
        self.turn_to(id, &[ChatStatus::Active, ChatStatus::Archived], ChatStatus::Deleted).await
    }

    /// Archives an active session. An archived session stays archived.
    ///
    /// # Errors
    /// Returns the same errors as [`ChatService::delete`].
    pub async fn archive(&self, id: &SessionId) -> Result<(), ChatError> {
        self.turn_to(id, &[ChatStatus::Active, ChatStatus::Archived], ChatStatus::Archived).await
    }

    /// Makes a session active again, even a deleted one.
    ///
    /// # Errors
    /// Returns the same errors as [`ChatService::delete`].
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
        let missing = || ChatError::SessionNotFound(id.clone());
        let session = self.store.session(id).await?.ok_or_else(missing)?;
        if !from.contains(&session.status) {
            return Err(missing());
        }
        // Waits until a message in progress is stored.
        let _lock = self.lock(id).await?;
        // A pending confirmation ends with its conversation.
        drop(self.held.take(id));
        let kind = match to {
            ChatStatus::Active => "session.restored",
            ChatStatus::Archived => "session.archived",
            ChatStatus::Deleted => "session.deleted",
        };
        let event = event(id, kind, json!({ "status": to }));
        let changed = self.store.set_status(id, from, to, now(), Some(&event)).await?;
        changed.ok_or_else(missing)?;
        self.publish_pending(id).await;
        Ok(())
    }

    /// Returns the last messages of a session, or those before the number `before`.
    ///
    /// # Errors
    /// Returns an error if there is no such session, or the store failed.
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

    /// Returns the current state of a session. It is empty without a state server.
    ///
    /// # Errors
    /// Returns an error if there is no such session, or the state server does not know it or
    /// failed.
    pub async fn state(&self, id: &SessionId) -> Result<Map<String, Value>, ChatError> {
        self.session(id).await?;
        let Some(server) = &self.state else { return Ok(empty_state(id)) };
        server.state(id).await.map_err(|error| match error {
            StateError::Unknown(_) => {
                ChatError::ResourceNotFound("the state server has no state of this session".into())
            }
            other => ChatError::State(other),
        })
    }

    /// Deletes sessions that have been unused for the retention time, and purges those that were
    /// deleted long ago, with their states. Never returns.
    pub async fn keep_purging(&self) {
        let mut ticks = tokio::time::interval(self.settings.get().purge_every);
        loop {
            ticks.tick().await;
            for swept in [self.delete_unused().await, self.purge().await] {
                if let Err(error) = swept {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::warn!(%error, cause, "cannot purge old sessions");
                }
            }
        }
    }

    /// Deletes sessions that have been unused for the retention time, and returns their number.
    /// They can be restored like other deleted sessions.
    ///
    /// # Errors
    /// Returns an error if the store failed.
    pub async fn delete_unused(&self) -> Result<usize, ChatError> {
        let retention = self.settings.get().retention;
        if retention.is_zero() {
            return Ok(0);
        }
        self.sweep(Sweep::Unused, retention).await
    }

    /// Purges sessions that were deleted long ago, and returns their number.
    ///
    /// # Errors
    /// Returns an error if the store failed.
    pub async fn purge(&self) -> Result<usize, ChatError> {
        self.sweep(Sweep::Deleted, self.settings.get().purge_after).await
    }

    /// Removes sessions of an age, a few at a time. A session that cannot be removed is retried in
    /// the next round.
    async fn sweep(&self, kind: Sweep, age: Duration) -> Result<usize, ChatError> {
        let Ok(before) = earliest().checked_sub(age) else { return Ok(0) };
        let mut swept = 0;
        let mut left = 0;
        let mut failed = 0;
        loop {
            let ids = match kind {
                Sweep::Unused => self.store.unused(before, left, PURGED_AT_ONCE).await?,
                Sweep::Deleted => self.store.purgeable(before, left, PURGED_AT_ONCE).await?,
            };
            let last = ids.len() < PURGED_AT_ONCE as usize;
            for id in ids {
                let removed = match kind {
                    Sweep::Unused => self.delete_if_unused(&id, before).await,
                    Sweep::Deleted => self.forget(&id, before).await,
                };
                match removed {
                    Ok(true) => swept += 1,
                    Ok(false) => {}
                    // A session that cannot be removed must not block those after it; an
                    // unreachable store blocks all.
                    Err(error @ ChatError::Store(_)) if failed + 1 >= MAX_FAILED => {
                        return Err(error);
                    }
                    Err(error) => {
                        tracing::warn!(%error, session = id.short(), "cannot purge an old session; trying again later");
                        left += 1;
                        failed += u32::from(matches!(error, ChatError::Store(_)));
                    }
                }
            }
            if last {
                return Ok(swept);
            }
        }
    }

    /// Deletes a session that was last used before this time.
    async fn delete_if_unused(&self, id: &SessionId, before: Timestamp) -> Result<bool, ChatError> {
        let _lock = self.lock(id).await?;
        let session = self.store.session(id).await?;
        let is_old = |s: &ChatSession| s.last_access_at < before;
        if !session.as_ref().is_some_and(is_old) {
            return Ok(false);
        }
        let kept = [ChatStatus::Active, ChatStatus::Archived];
        let deleted = self.store.set_status(id, &kept, ChatStatus::Deleted, now(), None).await?;
        Ok(deleted.is_some())
    }

    /// Purges a session and its state, if it is still deleted and was last changed before this
    /// time.
    pub(super) async fn forget(
        &self,
        id: &SessionId,
        before: Timestamp,
    ) -> Result<bool, ChatError> {
        let _lock = self.lock(id).await?;
        let is_old = |s: &ChatSession| s.status == ChatStatus::Deleted && s.updated_at < before;
        let Some(session) = self.store.session(id).await?.filter(is_old) else { return Ok(false) };
        // Blocks restoring: if the rest fails, some of the session's data may be gone.
        if !self.store.set_purging(id, true).await? {
            return Ok(false);
        }
        if let Some(state) = &self.state
            && let Err(error) = state.delete(id).await
        {
            // If the state may be gone, the session cannot be restored: the next round purges it.
            if !error.may_be_done() {
                self.store.set_purging(id, false).await?;
            }
            return Err(ChatError::State(error));
        }
        let purged = self.store.purge(id).await?;
        self.turn_journal.forget(|turn| turn.client == id.as_str());
        // The log does not know whose calls it holds; those of this session began before it was
        // deleted.
        (self.forget_calls)(session.updated_at);
        if let Err(error) = self.events.forget(id).await {
            tracing::warn!(
                error,
                session = id.short(),
                "cannot drop the events of a purged session; they end a day after the last one"
            );
        }
        Ok(purged)
    }

    /// Deletes the world that was just created for a session, if the session was deleted meanwhile:
    /// its purge, which does not wait for a lock that was lost, may have deleted the world before.
    ///
    /// # Errors
    /// Returns an error if the session was deleted, or the store failed.
    pub(super) async fn delete_world_of_purged(&self, id: &SessionId) -> Result<(), ChatError> {
        let found = self.session(id).await;
        if matches!(found, Err(ChatError::SessionNotFound(_))) {
            self.delete_state(id).await;
        }
        found.map(drop)
    }

    async fn delete_state(&self, id: &SessionId) {
        if let Some(state) = &self.state
            && let Err(error) = state.delete(id).await
        {
            tracing::warn!(%error, session = id.short(), "cannot delete the state of a session that does not exist");
        }
    }
}
