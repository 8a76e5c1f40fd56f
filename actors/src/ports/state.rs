//! The state server's port: who keeps what is true in a session's world, and changes it by rules
//! of its own. Not for what a model makes of it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_proto::ids::SessionId;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::tools::Tool;

/// A server of sessions' states. Every call has a deadline; dropping its future ends the request.
pub trait StateServer: Send + Sync {
    /// What it can do.
    fn tools(&self) -> BoxFuture<'static, Result<Arc<[Tool]>, StateError>>;

    /// Changes a session's state by one of its tools. `version` is the one that the caller knows;
    /// none does not look at it.
    fn call(
        &self,
        session: &SessionId,
        tool: &str,
        arguments: Map<String, Value>,
        version: Option<i64>,
    ) -> BoxFuture<'static, Result<StateOutcome, StateError>>;

    /// A session's state as it is now.
    fn state(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Map<String, Value>, StateError>>;

    /// Makes the state of a new session; nothing where it is there.
    fn create(&self, session: &SessionId, name: &str)
    -> BoxFuture<'static, Result<(), StateError>>;

    /// Forgets a session's state; nothing where there is none.
    fn delete(&self, session: &SessionId) -> BoxFuture<'static, Result<(), StateError>>;

    /// Makes a session's state what it was at this version. False where the server cannot.
    fn restore(
        &self,
        session: &SessionId,
        version: i64,
    ) -> BoxFuture<'static, Result<bool, StateError>>;

    /// Longest time for a call.
    fn timeout(&self) -> Duration;
}

/// What a call of a tool came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StateOutcome {
    /// What the tool answers, for the model.
    pub result: Value,
    /// The state's version after the call, where the server tells one.
    pub version: Option<i64>,
    /// What happened in the world, in order.
    pub events: Vec<StateEvent>,
    /// The tool itself says that it failed, and why.
    pub error: Option<String>,
}

/// Something that happened in a session's world.
#[derive(Debug, Clone, PartialEq)]
pub struct StateEvent {
    /// Its id, where the server gave one.
    pub id: Option<String>,
    /// When it happened, where the server told.
    pub at: Option<Timestamp>,
    /// For example `combat.attack_resolved`.
    pub kind: String,
    /// What is to be known of it.
    pub data: Map<String, Value>,
}

/// Why a state server did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// It has no such tool, or no state of this session.
    #[error("the state server knows no such thing: {0}")]
    Unknown(String),
    /// It does not take the arguments.
    #[error("the state server refused: {0}")]
    Refused(String),
    /// The state has another version; the one that it has now, where it told.
    #[error("the state was changed meanwhile")]
    Conflict(Option<i64>),
    /// No answer in time.
    #[error("the state server did not answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// It cannot be reached, is down, or answers in words that are not its protocol.
    #[error("the state server failed: {0}")]
    Failed(String),
}
