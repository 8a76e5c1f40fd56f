//! Scripted ports and an in-memory pipeline for tests in virtual time; never linked by the server.
//! The socket is the real actor on real WebSocket bytes, only without a network.

pub mod models;
pub mod numbers;
pub mod paths;
pub mod persons;
pub mod pipeline;
pub mod scripted;
mod socket;
pub mod sound;
pub mod ten_turns;

pub use pipeline::TestPipeline;
pub use scripted::{AsrAct, LlmAct, Plan, Script, ScriptedLlm, TtsAct};
pub use socket::{Down, MemorySocket, Received};
