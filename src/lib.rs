//! The outside of Hearken: configuration, HTTP, vendors, embedded engines, commands.

pub mod commands;
pub mod emulator;
#[cfg(feature = "llm-engine")]
pub mod llm;
pub mod models;
pub mod providers;
pub mod recorder;
pub mod speech;
