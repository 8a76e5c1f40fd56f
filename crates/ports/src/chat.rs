//! Port of the store of chat sessions. It stores the dialogues of applications, so that any
//! instance of the server can handle any request. Not for the content of dialogues, nor for text
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

/// Storage used by one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorageUsage {
    /// Number of sessions, including deleted ones.
    pub sessions: u64,
    /// Size of the stored turns and snapshots, in bytes.
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

/// Message of a session up to which the model refuses the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedUntil {
    /// Number of the message.
    pub number: i64,
    /// Time of the message: after a rollback, another message may have its number.
    pub at: Timestamp,
}

impl RefusedUntil {
    /// Records that the model refuses the messages up to this one.
    pub fn message(last: &KeptMessage) -> Self {
        Self { number: last.number, at: last.message.timestamp }
    }

    /// Returns true if this is the last refused message.
    pub fn is(&self, kept: &KeptMessage) -> bool {
        *self == Self::message(kept)
    }
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
    /// Answer as sent to the client. `None` if the request called tools and has no answer, or none
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
    /// Last message before the turn, if the model refused the messages up to it and answered
    /// without them.
    pub refused: Option<RefusedUntil>,
    /// Completion time.
    pub at: Timestamp,
    /// Event that must be published once the turn is stored.
    pub event: Option<Event>,
}

/// Event that was stored together with the change that it reports, and is to be published.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingEvent {
    /// Number in the store; within a session, later events have greater numbers.
    pub number: i64,
    /// The event.
    pub event: Event,
}

/// Outcome of storing a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreOutcome {
    /// The turn was stored.
    Kept,
    /// The session was changed or locked by another request meanwhile: nothing was stored.
    Overtaken,
    /// The session is not active (any more), or does not exist: nothing was stored.
    Closed,
}

/// Store of chat sessions. Every call ends within seconds, with an error if the store is down. The
/// caller supplies times, for tests.
#[async_trait]
pub trait ChatStore: Send + Sync {
    /// Stores a new session of this owner; empty for no owner.
    async fn create(&self, session: &ChatSession, owner: &str) -> Result<(), BoxError>;

    /// Returns the owner of a session, even of a deleted one; empty for no owner.
    async fn owner(&self, id: &SessionId) -> Result<Option<String>, BoxError>;

    /// Returns the storage that an owner uses.
    async fn usage(&self, owner: &str) -> Result<StorageUsage, BoxError>;

    /// Returns the deleted session of an owner whose deletion is oldest. Skips `offset` sessions.
    async fn oldest_deleted(&self, owner: &str, offset: u32)
    -> Result<Option<SessionId>, BoxError>;

    /// Returns a session, even a deleted one.
    async fn session(&self, id: &SessionId) -> Result<Option<ChatSession>, BoxError>;

    /// Returns the sessions that match the filter.
    async fn sessions(&self, filter: &SessionFilter) -> Result<SessionPage, BoxError>;

    /// Changes the status of a session that has one of the statuses `from`, and returns the
    /// session; a session that becomes active counts as used now. Returns `None` if there is no
    /// such session, or it has another status. Stores the event with the change.
    async fn set_status(
        &self,
        id: &SessionId,
        from: &[ChatStatus],
        to: ChatStatus,
        at: Timestamp,
        event: Option<&Event>,
    ) -> Result<Option<ChatSession>, BoxError>;

    /// Records that a session was used at this time, unless it is deleted.
    async fn touch(&self, id: &SessionId, at: Timestamp) -> Result<(), BoxError>;

    /// Returns sessions that are not deleted and were last used before this time, oldest first.
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

    /// Records whether a deleted session is being purged; meanwhile it cannot be restored. Returns
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

    /// Returns the message up to which the model refuses the messages, as recorded with the last
    /// turn that did. It may have been rolled back since.
    async fn refused_until(&self, id: &SessionId) -> Result<Option<RefusedUntil>, BoxError>;

    /// Records that a request starts to call tools, under the lock with this fencing number. From
    /// then on its idempotency key is known, without an answer.
    async fn begin_request(
        &self,
        id: &SessionId,
        key: &RequestKey,
        fence: i64,
    ) -> Result<StoreOutcome, BoxError>;

    /// Removes a request that was started under the lock with this fencing number and has no
    /// answer.
    async fn forget_request(&self, id: &SessionId, key: &str, fence: i64) -> Result<(), BoxError>;

    /// Stores a turn with its event atomically, and marks the session as used.
    async fn keep_turn(&self, turn: &KeptTurn) -> Result<StoreOutcome, BoxError>;

    /// Returns the greatest fencing number under which data was stored; 0 if there is none.
    async fn last_fence(&self) -> Result<i64, BoxError>;

    /// Returns the stored state of the request with this key. The last 256 keys of a session are
    /// stored.
    async fn request(&self, id: &SessionId, key: &str) -> Result<Option<KnownRequest>, BoxError>;

    /// Stores a snapshot of a session's current dialogue and idempotency keys, with this id, name
    /// and state version, under the lock with this fencing number. Returns the snapshot with its
    /// content counts. `None` if there is no such session, it is deleted, or it was locked by
    /// another request meanwhile.
    async fn keep_snapshot(
        &self,
        snapshot: &Snapshot,
        fence: i64,
    ) -> Result<Option<Snapshot>, BoxError>;

    /// Returns a session's snapshots, oldest first.
    async fn snapshots(&self, id: &SessionId) -> Result<Vec<Snapshot>, BoxError>;

    /// Restores a session's dialogue and idempotency keys, under the lock with this fencing number,
    /// and returns the snapshot. `None` if there is no such snapshot, or the session is not active
    /// or was locked by another request meanwhile. Stores the event with the change.
    async fn restore_snapshot(
        &self,
        id: &SessionId,
        snapshot_id: &str,
        fence: i64,
        at: Timestamp,
        event: Option<&Event>,
    ) -> Result<Option<Snapshot>, BoxError>;

    /// Returns the oldest stored events, at most `limit`, of a session or of all. Those of a
    /// session are in order.
    async fn pending_events(
        &self,
        session: Option<&SessionId>,
        limit: u32,
    ) -> Result<Vec<PendingEvent>, BoxError>;

    /// Removes published events by their numbers.
    async fn remove_events(&self, numbers: &[i64]) -> Result<(), BoxError>;
}
