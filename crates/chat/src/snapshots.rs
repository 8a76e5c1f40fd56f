//! Snapshots of chat sessions: a dialogue and the version of its state. They are created and
//! restored under the session's lock, so that both parts are consistent. Not for storing them.

use hearken_base::wall_clock::now;
use hearken_ports::StateError;
use hearken_proto::chat::{CreateSnapshot, Snapshot};
use hearken_proto::ids::SessionId;
use serde_json::json;

use super::events::event;
use super::state_tools::version_of;
use super::{Asker, ChatError, ChatService};

/// Maximum number of snapshots of one session: none can be deleted alone, and all of them are
/// listed at once.
const MAX_SNAPSHOTS: usize = 1_000;

impl ChatService {
    /// Creates a snapshot from a validated request.
    ///
    /// # Errors
    /// Returns an error if the asker may store nothing more, there is no such session, it has too
    /// many snapshots, a message is in progress, or a server failed.
    pub async fn make_snapshot(
        &self,
        asker: &Asker,
        id: &SessionId,
        wanted: CreateSnapshot,
    ) -> Result<Snapshot, ChatError> {
        self.session(id).await?;
        let lock = self.lock(id).await?;
        let session = self.session(id).await?;
        // Taken last: a session with a message in progress must not block other sessions of its
        // owner.
        let _share = self.lock_share(asker).await?;
        self.check_share(asker).await?;
        if self.store.snapshots(id).await?.len() >= MAX_SNAPSHOTS {
            let about =
                format!("the session has {MAX_SNAPSHOTS} snapshots: continue in another session");
            return Err(ChatError::ShareUsed(about));
        }
        let at = now();
        let snapshot = Snapshot {
            id: uuid::Uuid::now_v7().to_string(),
            session_id: id.clone(),
            name: wanted.name.unwrap_or_else(|| at.to_string()),
            message_count: session.message_count,
            state_version: self.state_version(id).await?,
            created_at: at,
        };
        match self.store.keep_snapshot(&snapshot, lock.fence).await? {
            Some(made) => Ok(made),
            // Deleted, or locked by another request.
            None => {
                self.session(id).await?;
                Err(self.overtaken().await)
            }
        }
    }

    /// Returns a session's snapshots, oldest first.
    ///
    /// # Errors
    /// Returns an error if there is no such session, or the store failed.
    pub async fn snapshots(&self, id: &SessionId) -> Result<Vec<Snapshot>, ChatError> {
        self.session(id).await?;
        Ok(self.store.snapshots(id).await?)
    }

    /// Restores a snapshot: first the state, if its server can, then the dialogue. If restoring the
    /// dialogue fails, the old state is restored.
    ///
    /// # Errors
    /// Returns an error if there is no such session or snapshot, the session is not active, a
    /// message is in progress, or a server failed.
    pub async fn restore_snapshot(
        &self,
        id: &SessionId,
        snapshot_id: &str,
    ) -> Result<Snapshot, ChatError> {
        self.active(id).await?;
        let missing =
            || ChatError::ResourceNotFound(format!("the session has no snapshot {snapshot_id}"));
        let all = self.store.snapshots(id).await?;
        let wanted = all.into_iter().find(|s| s.id == snapshot_id).ok_or_else(missing)?;
        let lock = self.lock(id).await?;
        self.active(id).await?;
        let before = match wanted.state_version {
            Some(version) => self.restore_state(id, version).await?,
            None => None,
        };
        let event = event(id, "session.rolled_back", json!({ "snapshot_id": snapshot_id }));
        let back =
            self.store.restore_snapshot(id, snapshot_id, lock.fence, now(), Some(&event)).await;
        match back {
            Ok(Some(back)) => {
                // A pending confirmation belongs to the conversation that was just rolled back.
                drop(self.held.take(id));
                self.publish_pending(id).await;
                Ok(back)
            }
            other => {
                if let Some(version) = before {
                    self.undo_restore_state(id, version).await;
                }
                other?;
                Err(self.overtaken().await)
            }
        }
    }

    /// Returns the version of a session's state. `None` if there is no state.
    async fn state_version(&self, id: &SessionId) -> Result<Option<i64>, ChatError> {
        let Some(server) = &self.state else { return Ok(None) };
        match server.state(id).await {
            Ok(state) => Ok(version_of(&state)),
            Err(StateError::Unknown(_)) => Ok(None),
            Err(error) => Err(ChatError::State(error)),
        }
    }

    /// Restores a session's state to this version. Returns the previous version, if the state was
    /// changed.
    async fn restore_state(&self, id: &SessionId, version: i64) -> Result<Option<i64>, ChatError> {
        let Some(server) = &self.state else { return Ok(None) };
        let before = self.state_version(id).await?;
        match server.restore(id, version).await {
            Ok(true) => Ok(before),
            Ok(false) => {
                tracing::warn!(
                    session = id.short(),
                    version,
                    "the state server cannot restore a version"
                );
                Ok(None)
            }
            Err(error) => {
                if let Some(before) = before
                    && error.may_be_done()
                {
                    self.undo_restore_state(id, before).await;
                }
                Err(ChatError::State(error))
            }
        }
    }

    /// Restores the state that the session had before a failed restore.
    async fn undo_restore_state(&self, id: &SessionId, version: i64) {
        let Some(server) = &self.state else { return };
        let error = match server.restore(id, version).await {
            Ok(true) => return,
            Ok(false) => StateError::Unknown(format!("version {version}")),
            Err(error) => error,
        };
        tracing::error!(%error, session = id.short(), version, "restored the state of a session but not its dialogue");
    }
}
