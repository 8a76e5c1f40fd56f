//! Tests of the whole server and of its commands. Tests of a single crate are in that crate's
//! `tests`, those of the repository's files in `tests/repository`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

mod admin;
mod api;
mod chat;
mod checks;
mod cluster;
mod config;
mod console;
mod cycles;
mod devices;
mod endurance;
mod examples;
mod faults;
mod http_rules;
mod load;
mod museum;
mod process_faults;
mod real_engines;
mod recordings;
mod server;
mod sockets;
mod store_command;
mod strangers;
mod support;
mod text_gateway;
mod tools;
mod upgrades;
