//! Storage of museum clients' sessions: the port and its types. Not for the content of
//! conversations.

use async_trait::async_trait;
use hearken_proto::ids::SessionId;
use jiff::Timestamp;
use serde_json::Value;

use super::StoreError;
use crate::StoreOutcome;

/// Session of a museum client.
#[derive(Debug, Clone, PartialEq)]
pub struct MuseumSession {
    /// Id of the session.
    pub id: SessionId,
    /// Data that the client sent about itself.
    pub metadata: Value,
    /// Functions of the client, in OpenAI's format.
    pub functions: Vec<Value>,
    /// Chat messages, oldest first.
    pub history: Vec<Value>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last use.
    pub last_used_at: Timestamp,
    /// Time of expiry.
    pub expires_at: Timestamp,
    /// Number of uses.
    pub requests: i64,
}

/// Session of a museum client without its functions and messages.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedMuseumSession {
    /// Id of the session.
    pub id: SessionId,
    /// Data that the client sent about itself.
    pub metadata: Value,
    /// Number of functions of the client.
    pub functions: u64,
    /// Number of chat messages.
    pub messages: u64,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last use.
    pub last_used_at: Timestamp,
    /// Time of expiry.
    pub expires_at: Timestamp,
    /// Number of uses.
    pub requests: i64,
}

/// Storage of museum clients' sessions. Every call ends within seconds, with an error if the store
/// is down. Times have a precision of one millisecond.
#[async_trait]
pub trait MuseumStore: Send + Sync {
    /// Stores a new session, counted under this address; empty for none.
    async fn create(&self, session: &MuseumSession, address: &str) -> Result<(), StoreError>;

    /// Returns the number of unexpired sessions of an address.
    async fn count_at(&self, address: &str, now: Timestamp) -> Result<u64, StoreError>;

    /// Returns a session, even an expired one that is not deleted yet.
    async fn find(&self, id: &SessionId) -> Result<Option<MuseumSession>, StoreError>;

    /// Counts a use of the session now, and sets its expiry. Returns false if there is no such
    /// session, or it has expired.
    async fn touch(
        &self,
        id: &SessionId,
        expires: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Sets the expiry of a session in use, even if it has expired. Does not count a use. Returns
    /// false if there is no such session.
    async fn extend(
        &self,
        id: &SessionId,
        expires: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Replaces the stored messages, if they are still `former`. Does not count a use.
    async fn keep_history(
        &self,
        id: &SessionId,
        former: &[Value],
        history: &[Value],
        now: Timestamp,
    ) -> Result<StoreOutcome, StoreError>;

    /// Deletes a session. Returns false if there is none.
    async fn remove(&self, id: &SessionId) -> Result<bool, StoreError>;

    /// Deletes at most `limit` expired sessions. Returns their number.
    async fn remove_expired(&self, now: Timestamp, limit: u32) -> Result<u64, StoreError>;

    /// Returns at most `limit` unexpired sessions after an offset, last used first, and their total
    /// number.
    async fn list(
        &self,
        now: Timestamp,
        offset: u32,
        limit: u32,
    ) -> Result<(Vec<ListedMuseumSession>, u64), StoreError>;
}
