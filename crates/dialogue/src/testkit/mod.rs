//! Scripted ports, people in memory and ten turns of a conversation, for tests in virtual time; never linked by the server.

pub mod persons;
pub mod scripted;
pub mod ten_turns;

pub use scripted::{AsrAct, LlmAct, Plan, Script, ScriptedLlm, TtsAct};
