//! What whole-server tests stand on, where it needs the server or is theirs alone; the rest is in
//! `crates/test-support`. Not for assertions.

pub(crate) mod app;
pub(crate) mod command;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod slow_worlds;
