//! Whole-server tests.

mod providers;
mod recordings;
mod support;
