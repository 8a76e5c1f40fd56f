//! Scripted ports and the in-memory ring for tests in virtual time; never linked by the server.
//! The socket is the real actor on real WebSocket bytes, only without a network.

pub mod ring;
pub mod scripted;
pub mod sound;

pub use ring::{Down, Ring, Told};
pub use scripted::{AsrAct, LlmAct, Script, TtsAct};
