//! What the tools of one conversation share: whose it is, how it is talked to, and who can be
//! played. Not for the tools themselves.

use std::sync::{Arc, MutexGuard, PoisonError};

use hearken_actors::dialogue::{Character, ConversationStyle, SharedStyle};
use serde_json::{Map, Value};

use super::text;

/// Longest text of a caller that is shown back to it.
const MAX_SHOWN_CHARS: usize = 80;

/// One conversation, as its tools see it; clones share it.
#[derive(Clone)]
pub(super) struct Conversation {
    pub(super) session_id: Arc<str>,
    style: SharedStyle,
    /// Those that the deployment offers.
    pub(super) characters: Arc<[Character]>,
}

impl Conversation {
    pub(super) fn new(
        session_id: &str,
        style: &SharedStyle,
        characters: &Arc<[Character]>,
    ) -> Self {
        let characters = Arc::clone(characters);
        Self { session_id: session_id.into(), style: Arc::clone(style), characters }
    }

    /// How the session is talked to; hold it only as long as it takes to read or change it.
    pub(super) fn style(&self) -> MutexGuard<'_, ConversationStyle> {
        self.style.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call means this session: it names none, or this one.
    ///
    /// # Errors
    /// It names another; for the model.
    pub(super) fn is_meant(&self, arguments: &Map<String, Value>) -> Result<(), String> {
        let named = text(arguments, "session_id");
        if named.is_empty() || named == &*self.session_id {
            return Ok(());
        }
        let named = shown(named);
        Err(format!(
            "`{named}` is not this session, and only this one can be used: leave `session_id` out"
        ))
    }
}

/// Text of a caller, short enough to be told back.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_SHOWN_CHARS).collect()
}
