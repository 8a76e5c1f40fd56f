//! Whole-server tests.

mod config;
mod providers;
mod recordings;
mod support;
mod tidy;
