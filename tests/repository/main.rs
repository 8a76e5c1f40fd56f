//! Checks of the files of this repository: house rules, documents, fixtures. Links none of the
//! server's crates. Not for behaviour.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acceptance;
mod bounds;
mod crates;
mod cycles;
mod deploy;
mod fixtures;
mod lasting;
mod signatures;
mod source_names;
mod supply_chain;
mod tidy;
mod top_folder;
mod weighed;
mod words;

use std::path::Path;

/// The root folder of the repository.
fn root() -> &'static Path {
    // Cargo runs a test in the folder of its package.
    Path::new(".")
}
