//! Scripted ports and an in-memory pipeline for tests in virtual time; never linked by the server.
//! The socket is the real actor on real WebSocket bytes, only without a network.

pub mod paths;
pub mod persons;
pub mod pipeline;
pub mod scripted;
pub mod ten_turns;

pub use pipeline::TestPipeline;
pub use scripted::{AsrAct, LlmAct, Plan, Script, ScriptedLlm, TtsAct};
