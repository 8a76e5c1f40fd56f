//! Allocations, counted by an allocator that replaces the program's: their number on the hot paths,
//! and their size where a limit is in bytes of memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hot_paths;
mod weights;
