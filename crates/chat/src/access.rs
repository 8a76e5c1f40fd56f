//! Access to chat sessions, and storage limits of clients without a credential. Not for
//! authentication.

use hearken_base::wall_clock::now;
use hearken_ports::SessionLock;
use hearken_proto::ids::SessionId;
use tokio::time::Instant;

use super::{ChatError, ChatService};

/// Owner of sessions that were created with a credential.
const CREDENTIAL: &str = "credential";
/// Maximum number of deleted sessions that one request purges, or fails to purge, to make room.
const PURGED_FOR_ROOM: usize = 16;

/// Client that sends a request about sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Asker {
    /// Any client, if no credential is required: may use every session, and owns none.
    #[default]
    Anybody,
    /// Holder of a credential: may use every session.
    Credential,
    /// Client without a credential, identified by this name: may use its own sessions, and sessions
    /// without an owner if it knows their id.
    Client(String),
}

impl Asker {
    /// Returns the owner of the sessions that it creates; empty for none.
    pub(super) fn owner(&self) -> &str {
        match self {
            Self::Anybody => "",
            Self::Credential => CREDENTIAL,
            Self::Client(name) => name,
        }
    }

    /// Returns the name of a client without a credential.
    pub(super) fn client(&self) -> Option<&str> {
        match self {
            Self::Anybody | Self::Credential => None,
            Self::Client(name) => Some(name),
        }
    }
}

impl ChatService {
    /// Checks that a client may use a session, and records the use.
    ///
    /// # Errors
    /// Returns an error if there is no such session, it belongs to another client, or the store
    /// failed. The first two look the same to the client.
    pub async fn admit(&self, asker: &Asker, id: &SessionId) -> Result<(), ChatError> {
        self.check_owner(asker, id).await?;
        // Whatever the request, and even if it fails: the session is in use.
        if self.touched.is_due(id)
            && let Err(error) = self.store.touch(id, now()).await
        {
            tracing::debug!(%error, session = id.short(), "cannot record the use of a session");
        }
        Ok(())
    }

    async fn check_owner(&self, asker: &Asker, id: &SessionId) -> Result<(), ChatError> {
        let Some(client) = asker.client() else { return Ok(()) };
        // Such clients are identified by their address alone: they send no credential, and any
        // client may write any `creator_id`. Decision 0054.
        let owner = self.store.owner(id).await?;
        let admitted = owner.is_some_and(|owner| owner.is_empty() || owner == client);
        if admitted { Ok(()) } else { Err(ChatError::SessionNotFound(id.clone())) }
    }

    /// Locks the share of a client: each of several concurrent requests sees the data that earlier
    /// ones have stored. Returns `None` for a client without a share.
    pub(super) async fn lock_share(&self, asker: &Asker) -> Result<Option<SessionLock>, ChatError> {
        let Some(client) = asker.client() else { return Ok(None) };
        let wait = self.settings.get().lock_wait;
        let lock = self.locks.lock(&format!("share of {client}"), wait).await?;
        lock.map(Some).ok_or(ChatError::Busy)
    }

    /// Checks that a client may store more in its sessions. Purges deleted sessions of a client
    /// whose bytes are used up, the oldest first.
    ///
    /// # Errors
    /// Returns an error if its bytes are used up, or the store failed.
    pub async fn check_share(&self, asker: &Asker) -> Result<(), ChatError> {
        self.make_room(asker, u64::MAX).await
    }

    /// Checks that a client may create a session. Purges deleted sessions of a client whose share
    /// is used up, the oldest first.
    ///
    /// # Errors
    /// Returns an error if the share is used up, or the store failed.
    pub(super) async fn check_share_of_sessions(&self, asker: &Asker) -> Result<(), ChatError> {
        self.make_room(asker, self.settings.get().max_sessions_per_address).await
    }

    /// Purges deleted sessions of a client until it has fewer sessions than this, and fewer bytes
    /// than its share. Passes over those that cannot be purged now: their error is not one of the
    /// request that needs the room.
    async fn make_room(&self, asker: &Asker, max_sessions: u64) -> Result<(), ChatError> {
        let Some(client) = asker.client() else { return Ok(()) };
        let settings = self.settings.get();
        let begun = Instant::now();
        let mut left = 0;
        for _ in 0..PURGED_FOR_ROOM {
            let used = self.store.usage(client).await?;
            if used.sessions < max_sessions && used.bytes < settings.max_bytes_per_address {
                return Ok(());
            }
            // A state server that hangs must not hold up the request for each of its worlds.
            if begun.elapsed() > settings.lock_wait {
                break;
            }
            let Some(deleted) = self.store.oldest_deleted(client, left).await? else { break };
            match self.forget(&deleted, now()).await {
                Ok(true) => {}
                Ok(false) => left += 1,
                Err(error) => {
                    tracing::warn!(%error, session = deleted.short(), "cannot purge a deleted session to make room");
                    left += 1;
                }
            }
        }
        let about = format!(
            "without a token, an address may have {} sessions with {} bytes: delete some",
            settings.max_sessions_per_address, settings.max_bytes_per_address
        );
        Err(ChatError::ShareUsed(about))
    }
}
