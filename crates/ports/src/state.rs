//! Port of the state server, which stores the state of a session's world and changes it by its own
//! rules. Not for the model's use of the state.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_proto::ids::SessionId;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::ServiceState;
use super::tools::Tool;

/// Server of session states. Every call has a deadline. Dropping its future cancels the request.
pub trait StateServer: Send + Sync {
    /// Lists its tools.
    fn tools(&self) -> BoxFuture<'static, Result<Arc<[Tool]>, StateError>>;

    /// Changes a session's state with one of its tools. `version` is the version that the caller
    /// has seen; without it there is no version check.
    fn call(
        &self,
        session: &SessionId,
        tool: &str,
        arguments: Map<String, Value>,
        version: Option<i64>,
    ) -> BoxFuture<'static, Result<StateOutcome, StateError>>;

    /// Returns the current state of a session.
    fn state(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Map<String, Value>, StateError>>;

    /// Creates the state of a new session. Does nothing if it exists.
    fn create(&self, session: &SessionId, name: &str)
    -> BoxFuture<'static, Result<(), StateError>>;

    /// Removes a session's state. Does nothing if there is none.
    fn delete(&self, session: &SessionId) -> BoxFuture<'static, Result<(), StateError>>;

    /// Restores a session's state to this version. Returns false if the server cannot.
    fn restore(
        &self,
        session: &SessionId,
        version: i64,
    ) -> BoxFuture<'static, Result<bool, StateError>>;

    /// Returns the maximum duration of a call.
    fn timeout(&self) -> Duration;

    /// Returns whether the server works, according to the last request. Sends none.
    fn service_state(&self) -> ServiceState {
        ServiceState::Ready
    }
}

/// Result of a tool call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StateOutcome {
    /// Result for the model.
    pub result: Value,
    /// Version of the state after the call, if the server reports one.
    pub version: Option<i64>,
    /// Events of the call, in order.
    pub events: Vec<StateEvent>,
    /// Failure reported by the tool itself.
    pub error: Option<String>,
}

/// Event in a session's state.
#[derive(Debug, Clone, PartialEq)]
pub struct StateEvent {
    /// Id of the event, if the server sent one.
    pub id: Option<String>,
    /// Time of the event, if the server sent one.
    pub at: Option<Timestamp>,
    /// Kind of the event, for example `combat.attack_resolved`.
    pub kind: String,
    /// Data of the event.
    pub data: Map<String, Value>,
}

/// Failure of a request to a state server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The server has no such tool, or no state of this session.
    #[error("the state server does not know this: {0}")]
    Unknown(String),
    /// The server refused the arguments.
    #[error("the state server refused: {0}")]
    Refused(String),
    /// The state has another version: the current one, if the server reported it.
    #[error("the state was changed meanwhile")]
    Conflict(Option<i64>),
    /// The server did not answer in time.
    #[error("the state server did not answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The server cannot be reached, is down, or violates the protocol.
    #[error("the state server failed: {0}")]
    Failed(String),
}

impl StateError {
    /// Returns true if the server may have executed the request although its response is missing.
    #[must_use]
    pub fn may_be_done(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Failed(_))
    }
}
