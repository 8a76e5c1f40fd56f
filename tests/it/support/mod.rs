//! Helpers of whole-server tests that need the server or are used only here; others are in
//! `crates/test-support`. Not for assertions.

pub(crate) mod app;
pub(crate) mod command;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod slow_worlds;
