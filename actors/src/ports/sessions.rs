//! The sessions' port: where a text client's dialogue is kept, so that it outlives its connection
//! and a restart. Not for what is in it, which is the session's own.

use std::time::SystemTime;

use async_trait::async_trait;
use hearken_proto::ids::SessionId;

use super::BoxError;

/// A session as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptSession {
    /// Its id.
    pub id: SessionId,
    /// What it remembers, as text that only the session reads.
    pub state: String,
    /// When it was last used.
    pub last_used: SystemTime,
}

/// Where sessions are kept. Every call ends within seconds, with an error where the store is down.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// A session; none where there is no such.
    async fn load(&self, id: &SessionId) -> Result<Option<KeptSession>, BoxError>;

    /// Keeps a session in place of what was kept of it.
    async fn keep(&self, session: &KeptSession) -> Result<(), BoxError>;

    /// Keeps a session in place of what was kept of it. False where nothing is kept of it: somebody
    /// forgot it.
    async fn renew(&self, session: &KeptSession) -> Result<bool, BoxError>;

    /// A session was used then. False where there is no such.
    async fn touch(&self, id: &SessionId, last_used: SystemTime) -> Result<bool, BoxError>;

    /// Forgets a session, where there is such.
    async fn forget(&self, id: &SessionId) -> Result<(), BoxError>;

    /// Forgets the sessions that were last used before this time; tells how many.
    async fn forget_unused(&self, since: SystemTime) -> Result<u64, BoxError>;
}
