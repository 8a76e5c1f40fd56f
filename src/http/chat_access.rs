//! State of the routes of chat sessions, and the refusals that they share. Not for the routes.

use hearken_base::slots::Slots;
use hearken_chat::event_stream::WatchSettings;
use hearken_chat::{ChatError, ChatService};
use hearken_proto::fault::Fault;
use hearken_proto::ids::SessionId;

use crate::http::auth::AccessRule;
use crate::http::fault::{Refusal, log_outage, refusal};

/// State of the routes of chat sessions.
#[derive(Clone)]
pub struct Chats {
    /// Service that executes requests.
    pub service: ChatService,
    /// Rule of access.
    pub access: AccessRule,
    /// Connection slots of event streams.
    pub watch_slots: Slots,
    /// Settings of event streams.
    pub watching: WatchSettings,
}

/// Converts an error to a response; logs the cause of an outage.
pub(crate) fn refusal_of(error: &ChatError) -> Refusal {
    if let ChatError::Store(_) | ChatError::State(_) = error {
        log_outage(error);
    }
    refusal(error.fault(), &error.to_string())
}

/// Returns the session id in a path.
pub(crate) fn session_of(path: &str) -> SessionId {
    SessionId::new(path.to_lowercase())
}

/// Fault of an invalid request.
pub(crate) const UNFIT: Fault = Fault::InvalidRequest;

pub(crate) fn unfit(about: &impl ToString) -> Refusal {
    refusal(UNFIT, &about.to_string())
}
