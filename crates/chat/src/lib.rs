//! Chat sessions of applications. A message starts a turn of the model with its tools; an answer
//! and events come out. Turns run in the same rounds as those of devices and text clients. Apart
//! from pending confirmations, nothing is held in memory between two requests, so any instance can
//! handle any request. A message that has called a tool runs to its end, even if its client leaves.
//! Not for HTTP, nor for storing sessions, states and events.
//!
//! Reading order: this file, [`turns`], `running`, `earlier_messages`, `context`, `chat_output`,
//! `held_calls`, `state_tools`, `rolls`, `budget`, `events`, [`sessions`], `access`, `snapshots`,
//! [`event_stream`].

mod access;
mod budget;
mod chat_output;
mod context;
mod earlier_messages;
pub mod event_stream;
mod events;
mod held_calls;
mod piece;
mod rolls;
mod running;
pub mod sessions;
mod settings;
mod snapshots;
mod state_tools;
mod touched;
pub mod turns;

use std::sync::Arc;
use std::time::Duration;

use hearken_base::reloadable::Reloadable;
use hearken_base::tasks::{NotBegun, Tasks};
use hearken_dialogue::role::{AssignedRole, RoleLookup, assigned};
use hearken_dialogue::turn_trace::TurnJournal;
use hearken_dialogue::{LocalTime, TurnError};
use hearken_ports::usage::LimitReached;
use hearken_ports::{
    BoxError, ChatStore, EventBus, ImageDescriber, Llm, SessionLocks, StateError, StateServer,
    ToolSource,
};
use hearken_proto::fault::Fault;
use hearken_proto::ids::SessionId;
use jiff::Timestamp;

pub use access::Asker;
pub use events::PublishedEvents;
pub use held_calls::HeldCalls;
pub use piece::ChatPiece;
pub use settings::ChatSettings;
pub use touched::TouchedSessions;

/// Returns the server's tool sources for a session, besides the state server's.
pub type ChatTools = Arc<dyn Fn(&SessionId) -> Vec<Arc<dyn ToolSource>> + Send + Sync>;

/// Removes records of calls to services that began up to this time.
pub type ForgetCalls = Arc<dyn Fn(Timestamp) + Send + Sync>;

/// Shared dependencies of all chat sessions.
#[derive(Clone)]
pub struct ChatService {
    /// The language model.
    pub llm: Arc<dyn Llm>,
    /// Store of the sessions.
    pub store: Arc<dyn ChatStore>,
    /// State server; `None` if there is no such server.
    pub state: Option<Arc<dyn StateServer>>,
    /// Event bus.
    pub events: Arc<dyn EventBus>,
    /// Session locks: one turn at a time per session.
    pub locks: Arc<dyn SessionLocks>,
    /// Server's own tools for a session.
    pub tools: ChatTools,
    /// Describer of pictures in tool results, if any.
    pub describer: Option<Arc<dyn ImageDescriber>>,
    /// Clock that returns the date and time for the model.
    pub now: LocalTime,
    /// Settings of chat sessions.
    pub settings: Reloadable<ChatSettings>,
    /// Lookup of roles by id or name.
    pub roles: RoleLookup,
    /// Tasks that answer messages, until the server stops.
    pub tasks: Tasks,
    /// Pending confirmations.
    pub held: HeldCalls,
    /// Sessions whose use was recorded recently.
    pub touched: TouchedSessions,
    /// Events of the server that were published and are still in the store.
    pub published: PublishedEvents,
    /// Journal of the last turns.
    pub turn_journal: TurnJournal,
    /// Removes the words of a purged session from the log of calls to services.
    pub forget_calls: ForgetCalls,
}

impl ChatService {
    /// Returns the current role of chat sessions.
    fn role(&self) -> Option<Arc<AssignedRole>> {
        assigned(&self.settings.get().role, &*self.roles)
    }
}

/// Reason why a request about a session failed.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// There is no session with this id, or no longer.
    #[error("Session not found: {0}")]
    SessionNotFound(SessionId),
    /// The status of the session or request does not allow this.
    #[error("{0}")]
    Status(String),
    /// A client without a credential has used up its storage.
    #[error("{0}")]
    ShareUsed(String),
    /// Another request about the session takes too long.
    #[error("another request for this session is in progress")]
    Busy,
    /// Another request changed the session or its state meanwhile.
    #[error("the session was changed meanwhile")]
    Overtaken,
    /// The model did not stop calling tools.
    #[error("tools were called in {0} rounds, and the model requested more")]
    TooManyRounds(usize),
    /// The message took longer than the limit.
    #[error("the message was not answered within {} s", .0.as_secs())]
    TooLong(Duration),
    /// The maximum number of messages is being answered.
    #[error(transparent)]
    Full(NotBegun),
    /// Today's limit is reached.
    #[error(transparent)]
    LimitReached(LimitReached),
    /// The model failed.
    #[error("the language model failed")]
    Llm(#[source] TurnError),
    /// The state server failed.
    #[error(transparent)]
    State(StateError),
    /// There is no state server, or it does not know this session or snapshot.
    #[error("{0}")]
    ResourceNotFound(String),
    /// The store failed.
    #[error("the store failed")]
    Store(#[source] BoxError),
    /// The server is stopping.
    #[error("the server is stopping")]
    GoingAway,
}

impl ChatError {
    /// Returns the fault for the client.
    pub fn fault(&self) -> Fault {
        match self {
            Self::SessionNotFound(_) => Fault::SessionNotFound,
            Self::Status(_) => Fault::Conflict,
            Self::ShareUsed(_) => Fault::InvalidRequest,
            Self::Busy | Self::Full(NotBegun::Full) => Fault::Busy,
            Self::Overtaken => Fault::VersionConflict,
            Self::TooManyRounds(_) => Fault::MaxIterations,
            Self::LimitReached(_) => Fault::LimitReached,
            Self::Llm(_) => Fault::LlmUnavailable,
            Self::State(StateError::Conflict(_)) => Fault::VersionConflict,
            Self::State(_) => Fault::StateServer,
            Self::ResourceNotFound(_) => Fault::NotFound,
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
