//! A streamed part of an answer.

use hearken_proto::chat::Event;

/// Streamed part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatPiece {
    /// More words.
    Delta(String),
    /// Event in the session's state.
    Event(Event),
}
