//! Journeys through the whole server, and through its commands. Not for what one crate does alone,
//! which stands in that crate's `tests`, nor for the files of the repository.
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
