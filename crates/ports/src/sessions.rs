//! Port of the store of text clients' dialogues, which lets them outlive their connection and a
//! restart. Not for their content, which belongs to the session.

use std::time::SystemTime;

use async_trait::async_trait;
use hearken_proto::ids::SessionId;

use super::{BoxError, StoreOutcome};

/// Most sessions of text clients that are stored. Beyond, those unused for longest are deleted.
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

    /// Stores a session in place of the copy that was last used at `known`; without one, a session
    /// that is not stored yet. Stores nothing if there is another copy
    /// ([`StoreOutcome::Overtaken`]), or if it was removed ([`StoreOutcome::Closed`]).
    async fn keep(
        &self,
        session: &KeptSession,
        known: Option<SystemTime>,
    ) -> Result<StoreOutcome, BoxError>;

    /// Records the time of use of a session. Returns false if there is no such session.
    async fn touch(&self, id: &SessionId, last_used: SystemTime) -> Result<bool, BoxError>;

    /// Removes a session, if it exists.
    async fn forget(&self, id: &SessionId) -> Result<(), BoxError>;

    /// Removes sessions that were last used before this time, and those beyond the largest number,
    /// unused for longest. Returns how many were removed; zero if there are no more.
    async fn forget_unused(&self, since: SystemTime) -> Result<u64, BoxError>;
}
