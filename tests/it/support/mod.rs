//! What whole-server tests stand on. Not for assertions.

pub(crate) mod vendors;
