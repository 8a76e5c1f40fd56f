//! Whole-server tests.

mod providers;
mod support;
