//! The chat sessions' port: where the dialogues of applications are kept, so that any instance of
//! the server takes any request. Not for what is said in them, nor for text clients' sessions.

use async_trait::async_trait;
use hearken_proto::chat::{ChatSession, ChatStatus, Message, Snapshot};
use hearken_proto::ids::SessionId;
use jiff::Timestamp;

use super::BoxError;

/// Which sessions are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionFilter {
    /// Only those of this person: its creator, its game master or one of its players.
    pub user_id: Option<String>,
    /// Only those with this status; none for all but the deleted ones.
    pub status: Option<ChatStatus>,
    /// So many of the first are left out.
    pub offset: u32,
    /// At most this many.
    pub limit: u32,
}

/// Part of the list of sessions, the ones used last first.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<ChatSession>,
    /// How many fit the filter in all.
    pub total: u64,
}

/// A message as it is kept. Messages of a session are numbered from 1, without gaps.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptMessage {
    /// Its number.
    pub number: i64,
    /// What it says.
    pub message: Message,
}

/// The client's name for a request, by which a repeated one is known; unique in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    /// As the client gives it.
    pub name: String,
    /// Of what is asked; a request of this name that asks for something else is another.
    pub hash: String,
}

/// What is known of a request that its client named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownRequest {
    /// Of what it asked; empty where that was not kept.
    pub hash: String,
    /// The answer as the client was told it; none where the request called tools and brought no
    /// answer, or not yet.
    pub answer: Option<String>,
}

/// A turn of a session, once it is complete.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptTurn {
    /// The session.
    pub session_id: SessionId,
    /// The number of the last message that the turn was built on; 0 where there was none.
    pub after: i64,
    /// The fencing number of the lock under which the turn ran.
    pub fence: i64,
    /// The client's name for the request.
    pub key: Option<RequestKey>,
    /// The answer as the client is told it, for a repeated request.
    pub answer: String,
    /// What was said, in order: the question, calls with their results, the answer.
    pub messages: Vec<Message>,
    /// The version of the state server's state after the turn, where it told one.
    pub state_version: Option<i64>,
    /// When it was complete.
    pub at: Timestamp,
}

/// What became of a turn that was to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnKept {
    /// It is on disk.
    Kept,
    /// The session went on without it, or under a later lock: nothing was written.
    Overtaken,
    /// The session is not active (any more), or there is none: nothing was written.
    Closed,
}

/// Where chat sessions are kept. Every call ends within seconds, with an error where the store is
/// down. Times are the caller's, so that they can be tested.
#[async_trait]
pub trait ChatStore: Send + Sync {
    /// Keeps a new session.
    async fn create(&self, session: &ChatSession) -> Result<(), BoxError>;

    /// A session, deleted ones too.
    async fn session(&self, id: &SessionId) -> Result<Option<ChatSession>, BoxError>;

    /// The sessions that fit.
    async fn sessions(&self, filter: &SessionFilter) -> Result<SessionPage, BoxError>;

    /// Gives a session with one of these states another, and tells how it is then. None where
    /// there is no such session, or in none of these states.
    async fn set_status(
        &self,
        id: &SessionId,
        from: &[ChatStatus],
        to: ChatStatus,
        at: Timestamp,
    ) -> Result<Option<ChatSession>, BoxError>;

    /// At most this many sessions that were deleted before this time, the oldest first; so many of
    /// the first are left out.
    async fn purgeable(
        &self,
        before: Timestamp,
        offset: u32,
        limit: u32,
    ) -> Result<Vec<SessionId>, BoxError>;

    /// Forgets a deleted session with all that belongs to it. False where there is none.
    async fn purge(&self, id: &SessionId) -> Result<bool, BoxError>;

    /// The last messages, at most this many, oldest first; with `before` those whose numbers are
    /// smaller.
    async fn messages(
        &self,
        id: &SessionId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<KeptMessage>, BoxError>;

    /// Notes that a request begins to call tools, under the lock of this fencing number: from now
    /// on its name is known, without an answer.
    async fn begin_request(
        &self,
        id: &SessionId,
        key: &RequestKey,
        fence: i64,
    ) -> Result<TurnKept, BoxError>;

    /// Forgets a request that was begun under the lock of this fencing number and brought no
    /// answer.
    async fn forget_request(&self, id: &SessionId, key: &str, fence: i64) -> Result<(), BoxError>;

    /// Keeps a turn, all of it or nothing; the session counts as used.
    async fn keep_turn(&self, turn: &KeptTurn) -> Result<TurnKept, BoxError>;

    /// What is known of the request of this name. The last 256 of a session are known.
    async fn request(&self, id: &SessionId, key: &str) -> Result<Option<KnownRequest>, BoxError>;

    /// Keeps the dialogue and the named requests of a session as they are now, with this
    /// snapshot's id, name and version of the world, under the lock of this fencing number; tells
    /// the snapshot with what it holds. None where there is no such session that is not deleted,
    /// or it was locked later.
    async fn keep_snapshot(
        &self,
        snapshot: &Snapshot,
        fence: i64,
    ) -> Result<Option<Snapshot>, BoxError>;

    /// A session's snapshots, oldest first.
    async fn snapshots(&self, id: &SessionId) -> Result<Vec<Snapshot>, BoxError>;

    /// Makes a session's dialogue and named requests what they were, under the lock of this fencing
    /// number; tells the snapshot. None where there is no such snapshot, or the session is not active, or was
    /// locked later.
    async fn restore_snapshot(
        &self,
        id: &SessionId,
        snapshot_id: &str,
        fence: i64,
        at: Timestamp,
    ) -> Result<Option<Snapshot>, BoxError>;
}
