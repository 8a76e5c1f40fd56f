//! Tests of the crate's public interface: corpora of sentences, and the household exam where it is.
//! Not for private parts, whose tests are in their files.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod behaviour;
mod corpus;
mod declines;
mod exam;
mod fillers;
mod not_done;
mod opposites;
mod other_things;
mod support;
