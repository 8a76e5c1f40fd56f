//! Content of the top folder: the product's own files and folders, and nothing that a tool left
//! behind. Not for the content of the folders.

use std::process::Command;

use super::root;

/// All permitted entries, except documents (`*.md`).
const ENTRIES: [&str; 25] = [
    ".ci",
    ".clippy.toml",
    ".config",
    ".deny.toml",
    ".gitignore",
    ".rustfmt.toml",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "actors",
    "benches",
    "build.rs",
    "config.toml",
    "crates",
    "deploy",
    "docs",
    "examples",
    "fixtures",
    "proto",
    "rust-toolchain.toml",
    "scripts",
    "src",
    "tests",
    "web",
];

#[test]
fn the_top_folder_has_no_leftovers() {
    let listing = Command::new("git").args(["ls-files"]).current_dir(root()).output();
    let Some(listing) = listing.ok().filter(|listing| listing.status.success()) else {
        return eprintln!("skipped: not a git checkout");
    };
    let files = String::from_utf8(listing.stdout).unwrap();
    let strange: Vec<&str> = files
        .lines()
        .filter_map(|file| file.split('/').next())
        .filter(|entry| !ENTRIES.contains(entry) && !entry.ends_with(".md"))
        .collect();
    assert!(strange.is_empty(), "does not belong there: {strange:?}");
}
