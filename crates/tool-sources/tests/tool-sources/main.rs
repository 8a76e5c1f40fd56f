//! Tools outside devices, against the third-party programs that `scripts/peers` installs, and
//! against scripted ones. Not for the server's routes about them.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking")]

mod builtin;
mod clients;
mod conversation;
mod gauntlet;
mod hostile;
mod litemcp_client;
mod python;
mod remote;
