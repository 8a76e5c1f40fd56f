//! Checks of the files of this repository: house rules, papers, fixtures. Links nothing of the server.
//! Not for behaviour.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acceptance;
mod bounds;
mod crates;
mod deploy;
mod fixtures;
mod lasting;
mod supply_chain;
mod tidy;
mod top_folder;

use std::path::Path;

/// The folder of the repository.
fn root() -> &'static Path {
    // Cargo begins a test in the folder of its package.
    Path::new(".")
}
