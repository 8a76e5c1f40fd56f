//! State that the tools of one conversation share: session id, style, and the available characters.
//! Not for the tools themselves.

use std::sync::{Arc, MutexGuard, PoisonError};

use hearken_dialogue::{Character, ConversationStyle, SharedStyle};
use serde_json::{Map, Value};

use super::text;

/// Maximum length of a caller's text that is repeated in a message to it, in characters.
const MAX_SHOWN_CHARS: usize = 80;

/// State of one conversation for its tools; clones share it.
#[derive(Clone)]
pub(super) struct Conversation {
    pub(super) session_id: Arc<str>,
    style: SharedStyle,
    /// Characters that the deployment offers.
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

    /// Locks the style of the session; hold the lock only to read or change it.
    pub(super) fn style(&self) -> MutexGuard<'_, ConversationStyle> {
        self.style.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the call is for this session: its arguments name no session, or this one.
    ///
    /// # Errors
    /// The arguments name another session; the message is for the model.
    pub(super) fn check_session(&self, arguments: &Map<String, Value>) -> Result<(), String> {
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

/// Shortens a text of a caller for use in a message.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_SHOWN_CHARS).collect()
}
