//! Port of the store of text clients' dialogues, which lets them outlive their connection and a
//! restart. Not for their content, which belongs to the session.

use std::time::SystemTime;

use async_trait::async_trait;
use hearken_proto::ids::SessionId;

use super::{BoxError, StoreOutcome};

/// Maximum number of stored sessions of text clients. Beyond it, those unused for longest are
/// deleted.
pub const MAX_TEXT_SESSIONS: u32 = 50_000;

/// Stored session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptSession {
    /// Id of the session.
    pub id: SessionId,
    /// Serialised state, read only by the session.
    pub state: String,
    /// Time of the last use.
    pub last_used: SystemTime,
}

/// Store of sessions. Every call ends within seconds, with an error if the store is down.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Returns a session, or `None` if there is no such session.
    async fn load(&self, id: &SessionId) -> Result<Option<KeptSession>, BoxError>;

    /// Stores a session. `known` is the last use of the copy that it replaces; without it, the
    /// session must not be stored yet. Stores nothing if the stored copy is another one
    /// ([`StoreOutcome::Overtaken`]) or was removed ([`StoreOutcome::Closed`]).
    async fn keep(
        &self,
        session: &KeptSession,
        known: Option<SystemTime>,
    ) -> Result<StoreOutcome, BoxError>;

    /// Records the time of use of a session. Returns false if there is no such session.
    async fn touch(&self, id: &SessionId, last_used: SystemTime) -> Result<bool, BoxError>;

    /// Removes a session, if it exists.
    async fn forget(&self, id: &SessionId) -> Result<(), BoxError>;

    /// Removes sessions that were last used before this time, and those beyond the maximum number,
    /// unused for longest first. Returns the number of removed sessions; zero if none is left to
    /// remove.
    async fn forget_unused(&self, since: SystemTime) -> Result<u64, BoxError>;
}
