//! Scripted ports, a refusing model, tool sources, people in memory and ten turns of a conversation,
//! for tests in virtual time; never linked by the server.

pub mod answering;
pub mod people;
pub mod refusing;
pub mod scripted;
pub mod ten_turns;
mod virtual_time;

pub use scripted::{AsrAct, LlmAct, Plan, Script, ScriptedLlm, TtsAct};
pub use virtual_time::{freeze, ms};
