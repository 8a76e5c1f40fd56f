//! The sessions of museum clients: the port and its types. Not for what is said in them.

use async_trait::async_trait;
use hearken_proto::ids::SessionId;
use jiff::Timestamp;
use serde_json::Value;

use super::StoreError;

/// A session of a museum client.
#[derive(Debug, Clone, PartialEq)]
pub struct MuseumSession {
    /// Its id.
    pub id: SessionId,
    /// What the client told of itself.
    pub metadata: Value,
    /// What the client can do, as functions in OpenAI's shape.
    pub functions: Vec<Value>,
    /// What was said, oldest first, as chat messages.
    pub history: Vec<Value>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last used.
    pub last_used_at: Timestamp,
    /// It is over then.
    pub expires_at: Timestamp,
    /// How often it was used.
    pub requests: i64,
}

/// Where museum clients' sessions are kept. Every call ends within seconds, with an error where
/// the store is down. Times are kept to the millisecond.
#[async_trait]
pub trait MuseumStore: Send + Sync {
    /// Keeps a new session.
    async fn create(&self, session: &MuseumSession) -> Result<(), StoreError>;

    /// A session, also one that is over and was not yet cleared away.
    async fn find(&self, id: &SessionId) -> Result<Option<MuseumSession>, StoreError>;

    /// The session was used now, which is counted, and lasts until then. False where there is no
    /// such session, or it is over.
    async fn touch(
        &self,
        id: &SessionId,
        expires: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// The session is in use and lasts until then, also where it is over; not counted as a use of
    /// its own. False where there is no such session.
    async fn extend(
        &self,
        id: &SessionId,
        expires: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Keeps what was said in place of what was said before; not counted as a use of its own.
    /// False where there is no such session.
    async fn keep_history(
        &self,
        id: &SessionId,
        history: &[Value],
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Forgets a session. False where there is none.
    async fn remove(&self, id: &SessionId) -> Result<bool, StoreError>;

    /// Forgets at most this many sessions that are over now; how many.
    async fn remove_expired(&self, now: Timestamp, limit: u32) -> Result<u64, StoreError>;

    /// At most this many sessions that are not over now, those used last first, after so many were
    /// left out; and how many there are in all.
    async fn list(
        &self,
        now: Timestamp,
        offset: u32,
        limit: u32,
    ) -> Result<(Vec<MuseumSession>, u64), StoreError>;
}
