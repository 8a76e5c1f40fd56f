//! What whole-server tests stand on; what does not need the server is in `crates/test-support`. Not for assertions.

pub(crate) mod app;
pub(crate) mod command;
pub(crate) mod slow_worlds;

pub(crate) use hearken_test_support::{engines, socket, speech, vendors, worlds};
