//! Port of the store of chat sessions. It keeps the dialogues of applications, which lets any
//! instance of the server handle any request. Not for the content of dialogues, nor for text
//! clients' sessions.

use async_trait::async_trait;
use hearken_proto::chat::{ChatSession, ChatStatus, Event, Message, Snapshot};
use hearken_proto::ids::SessionId;
use jiff::Timestamp;

use super::BoxError;

/// Filter and page of a list of sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionFilter {
    /// Only sessions of this person: as creator, game master or player.
    pub user_id: Option<String>,
    /// Only sessions of this owner.
    pub owner: Option<String>,
    /// Only sessions with this status. `None` for all except deleted ones.
    pub status: Option<ChatStatus>,
    /// Number of sessions to skip.
    pub offset: u32,
    /// Maximum number of sessions to return.
    pub limit: u32,
}

/// Page of the list of sessions, most recently used first.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionPage {
    /// Sessions of this page.
    pub sessions: Vec<ChatSession>,
    /// Total number of sessions that match the filter.
    pub total: u64,
}

/// What one owner has stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorageUsage {
    /// Number of sessions, with deleted ones.
    pub sessions: u64,
    /// Size of what their turns and snapshots have stored, in bytes.
    pub bytes: u64,
}

/// Stored message. Messages of a session are numbered from 1, without gaps.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptMessage {
    /// Number of the message.
    pub number: i64,
    /// Content of the message.
    pub message: Message,
}

/// Idempotency key of a request, unique in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    /// Key as sent by the client.
    pub name: String,
    /// Hash of the request's content. A request with this key but another hash is a different
    /// request.
    pub hash: String,
}

/// Stored state of a request with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownRequest {
    /// Hash of the request's content; empty if it was not stored.
    pub hash: String,
    /// Answer as sent to the client. `None` if the request called tools and has no answer, or not
    /// yet.
    pub answer: Option<String>,
}

/// Finished turn of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptTurn {
    /// Id of the session.
    pub session_id: SessionId,
    /// Number of the last message before the turn; 0 if there was none.
    pub after: i64,
    /// Fencing number of the lock under which the turn ran.
    pub fence: i64,
    /// Idempotency key of the request, if the client sent one.
    pub key: Option<RequestKey>,
    /// Answer as sent to the client, for a repeated request.
    pub answer: String,
    /// Messages in order: the question, calls with their results, the answer.
    pub messages: Vec<Message>,
    /// Version of the state after the turn, if the state server reported one.
    pub state_version: Option<i64>,
    /// Completion time.
    pub at: Timestamp,
    /// Event that is to be published once the turn is stored.
    pub event: Option<Event>,
}

/// Event that was stored with the change that it tells of, and is to be published.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingEvent {
    /// Number in the store: a later event of a session has a greater one.
    pub number: i64,
    /// The event.
    pub event: Event,
}

/// Outcome of storing a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreOutcome {
    /// The turn was stored.
    Kept,
    /// The session changed meanwhile, or was locked later: nothing was stored.
    Overtaken,
    /// The session is not active (any more), or there is none: nothing was stored.
    Closed,
}

/// Store of chat sessions. Every call ends within seconds, with an error if the store is down. The
/// caller supplies times, for tests.
#[async_trait]
pub trait ChatStore: Send + Sync {
    /// Stores a new session of this owner; empty for nobody.
    async fn create(&self, session: &ChatSession, owner: &str) -> Result<(), BoxError>;

    /// Returns the owner of a session, also of a deleted one; empty for nobody.
    async fn owner(&self, id: &SessionId) -> Result<Option<String>, BoxError>;

    /// Returns what an owner has stored.
    async fn usage(&self, owner: &str) -> Result<StorageUsage, BoxError>;

    /// Returns the session of an owner that was deleted first.
    async fn oldest_deleted(&self, owner: &str) -> Result<Option<SessionId>, BoxError>;

    /// Returns a session, also a deleted one.
    async fn session(&self, id: &SessionId) -> Result<Option<ChatSession>, BoxError>;

    /// Returns the sessions that match the filter.
    async fn sessions(&self, filter: &SessionFilter) -> Result<SessionPage, BoxError>;

    /// Changes the status of a session that has one of the statuses `from`, and returns it. One that becomes active was
    /// used now. `None`
    /// if there is no such session, or it has another status. Stores the event with the change.
    async fn set_status(
        &self,
        id: &SessionId,
        from: &[ChatStatus],
        to: ChatStatus,
        at: Timestamp,
        event: Option<&Event>,
    ) -> Result<Option<ChatSession>, BoxError>;

    /// Notes that a session which is not deleted was used at this time.
    async fn touch(&self, id: &SessionId, at: Timestamp) -> Result<(), BoxError>;

    /// Returns sessions that are not deleted and were used last before this time, the oldest first.
    /// Skips `offset` sessions.
    async fn unused(
        &self,
        before: Timestamp,
        offset: u32,
        limit: u32,
    ) -> Result<Vec<SessionId>, BoxError>;

    /// Returns sessions that were deleted before this time, oldest first. Skips `offset` sessions.
    async fn purgeable(
        &self,
        before: Timestamp,
        offset: u32,
        limit: u32,
    ) -> Result<Vec<SessionId>, BoxError>;

    /// Notes that a deleted session is being purged, or that it is not any more: meanwhile it cannot be restored. Returns
    /// false if there is no such session.
    async fn set_purging(&self, id: &SessionId, is_purging: bool) -> Result<bool, BoxError>;

    /// Removes a deleted session with all its data. Returns false if there is none.
    async fn purge(&self, id: &SessionId) -> Result<bool, BoxError>;

    /// Returns the last messages, at most `limit`, oldest first. With `before`, only messages with
    /// smaller numbers.
    async fn messages(
        &self,
        id: &SessionId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<KeptMessage>, BoxError>;

    /// Records that a request begins to call tools, under the lock with this fencing number. From
    /// now on its idempotency key is known, without an answer.
    async fn begin_request(
        &self,
        id: &SessionId,
        key: &RequestKey,
        fence: i64,
    ) -> Result<StoreOutcome, BoxError>;

    /// Removes a request that was begun under the lock with this fencing number and has no answer.
    async fn forget_request(&self, id: &SessionId, key: &str, fence: i64) -> Result<(), BoxError>;

    /// Stores a turn with its event atomically, and marks the session as used.
    async fn keep_turn(&self, turn: &KeptTurn) -> Result<StoreOutcome, BoxError>;

    /// Returns the greatest fencing number under which anything was stored; 0 if there is none.
    async fn last_fence(&self) -> Result<i64, BoxError>;

    /// Returns the stored state of the request with this key. The last 256 keys of a session are
    /// stored.
    async fn request(&self, id: &SessionId, key: &str) -> Result<Option<KnownRequest>, BoxError>;

    /// Stores a snapshot of a session's current dialogue and idempotency keys, with this id, name
    /// and state version, under the lock with this fencing number. Returns the snapshot with its
    /// content counts. `None` if there is no such session, it is deleted, or it was locked later.
    async fn keep_snapshot(
        &self,
        snapshot: &Snapshot,
        fence: i64,
    ) -> Result<Option<Snapshot>, BoxError>;

    /// Returns a session's snapshots, oldest first.
    async fn snapshots(&self, id: &SessionId) -> Result<Vec<Snapshot>, BoxError>;

    /// Restores a session's dialogue and idempotency keys, under the lock with this fencing number,
    /// and returns the snapshot. `None` if there is no such snapshot, or the session is not active,
    /// or it was locked later. Stores the event with the change.
    async fn restore_snapshot(
        &self,
        id: &SessionId,
        snapshot_id: &str,
        fence: i64,
        at: Timestamp,
        event: Option<&Event>,
    ) -> Result<Option<Snapshot>, BoxError>;

    /// Returns the oldest events that were stored and not removed, at most `limit`: of a session, or
    /// of all. Those of a session are in order.
    async fn pending_events(
        &self,
        session: Option<&SessionId>,
        limit: u32,
    ) -> Result<Vec<PendingEvent>, BoxError>;

    /// Removes published events by their numbers.
    async fn remove_events(&self, numbers: &[i64]) -> Result<(), BoxError>;
}
