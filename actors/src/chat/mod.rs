//! Chat sessions of applications: a message in, the model and its tools round by round, an answer
//! and events out; the same rounds of a turn as devices and text clients have. Nothing is kept in
//! memory between two requests, so that any instance takes any; a message that has called a tool
//! runs to its end, also when its client leaves. Not for HTTP, nor for where sessions, states and
//! events are kept.
//!
//! Reading order: this file, [`turns`], `running`, `context`, `narration`, `world`, `rolls`,
//! `budget`, [`sessions`], `snapshots`, [`watching`].

mod api_output;
mod budget;
mod context;
mod rolls;
mod running;
pub mod sessions;
mod settings;
mod snapshots;
mod state_tools;
pub mod turns;

use std::sync::Arc;
use std::time::Duration;

use hearken_proto::fault::Fault;
use hearken_proto::ids::SessionId;

use crate::dialogue::{LocalTime, TurnError};
use crate::ports::{
    BoxError, ChatStore, EventBus, ImageDescriber, Llm, SessionLocks, StateError, StateServer,
    ToolSource,
};
use crate::reloadable::Reloadable;
use crate::tasks::{NotBegun, Tasks};

pub use api_output::ChatPiece;
pub use settings::ChatSettings;

/// Gives a session the server's tools beside those of the state server.
pub type ChatTools = Arc<dyn Fn(&SessionId) -> Vec<Arc<dyn ToolSource>> + Send + Sync>;

/// What all chat sessions share.
#[derive(Clone)]
pub struct ChatService {
    /// The language model.
    pub llm: Arc<dyn Llm>,
    /// Where sessions are kept.
    pub store: Arc<dyn ChatStore>,
    /// Who keeps their worlds; none where there is no such server.
    pub state: Option<Arc<dyn StateServer>>,
    /// Where events go through.
    pub events: Arc<dyn EventBus>,
    /// One turn at a time in a session.
    pub locks: Arc<dyn SessionLocks>,
    /// The server's own tools for a session.
    pub tools: ChatTools,
    /// What looks at pictures that tools answer with, where there is any.
    pub describer: Option<Arc<dyn ImageDescriber>>,
    /// The date and time that the model is told.
    pub now: LocalTime,
    /// How sessions are served.
    pub settings: Reloadable<ChatSettings>,
    /// Where messages are answered, until the server's end.
    pub tasks: Tasks,
}

/// Why a request about a session was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// There is none of this id, or no longer.
    #[error("Session not found: {0}")]
    NotFound(SessionId),
    /// It does not stand so that this could be done.
    #[error("{0}")]
    Status(String),
    /// Another request about the session takes too long.
    #[error("another request about this session is being carried out")]
    Busy,
    /// Somebody else went on with the session, or its world, meanwhile.
    #[error("the session was changed meanwhile")]
    Overtaken,
    /// The model did not stop calling tools.
    #[error("tools were called in {0} rounds, and more were wanted")]
    TooManyRounds(usize),
    /// The message took longer than any may.
    #[error("the message was not answered within {} s", .0.as_secs())]
    TooLong(Duration),
    /// As many messages are being answered as may be.
    #[error(transparent)]
    Full(NotBegun),
    /// The model failed.
    #[error("the language model failed")]
    Llm(#[source] TurnError),
    /// The state server failed.
    #[error(transparent)]
    State(StateError),
    /// There is no state server, or it knows no such thing.
    #[error("{0}")]
    NoState(String),
    /// The store failed.
    #[error("the store failed")]
    Store(#[source] BoxError),
    /// The server stops.
    #[error("the server is stopping")]
    GoingAway,
}

impl ChatError {
    /// What a client is told.
    pub fn fault(&self) -> Fault {
        match self {
            Self::NotFound(_) => Fault::SessionNotFound,
            Self::Status(_) => Fault::Conflict,
            Self::Busy | Self::Full(NotBegun::Full) => Fault::Busy,
            Self::Overtaken => Fault::VersionConflict,
            Self::TooManyRounds(_) => Fault::MaxIterations,
            Self::Llm(_) => Fault::LlmUnavailable,
            Self::State(StateError::Conflict(_)) => Fault::VersionConflict,
            Self::State(_) => Fault::StateServer,
            Self::NoState(_) => Fault::NotFound,
            Self::Store(_) | Self::TooLong(_) => Fault::Unavailable,
            Self::GoingAway | Self::Full(NotBegun::Stopping) => Fault::GoingAway,
        }
    }
}

impl From<BoxError> for ChatError {
    fn from(error: BoxError) -> Self {
        Self::Store(error)
    }
}
