//! Routes of conversations: chat sessions with their worlds, recent turns, history and usage. Not for text clients.

pub(crate) mod chat;
pub(crate) mod chat_worlds;
pub(crate) mod history;
pub(crate) mod turns;
pub(crate) mod usage;
pub(crate) mod waiting;
