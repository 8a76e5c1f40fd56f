//! What is allocated, counted by an allocator that replaces that of the program: how often on the
//! hot paths, and how much where a limit is given in bytes of memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hot_paths;
mod weights;
