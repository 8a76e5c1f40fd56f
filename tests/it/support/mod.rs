//! What whole-server tests stand on. Not for assertions.

pub(crate) mod app;
pub(crate) mod command;
pub(crate) mod engines;
pub(crate) mod slow_worlds;
pub(crate) mod socket;
pub(crate) mod speech;
pub(crate) mod vendors;
pub(crate) mod worlds;
