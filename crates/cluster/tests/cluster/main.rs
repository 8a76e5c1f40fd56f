//! Instances that share a Redis, in one process. Not for whole servers, which are in `tests/it`.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking")]

mod contracts;
mod faults;
mod name_resolution;
