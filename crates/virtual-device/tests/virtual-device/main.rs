//! The virtual device against the real actors of a connection, in virtual time: acceptance checks,
//! and hours of conversation. Not for sockets nor whole servers.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and reports its progress"
)]

mod checks;
#[allow(dead_code, reason = "scripts/simulate uses more of it")]
mod simulation;
