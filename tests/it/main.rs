//! Whole-server tests.

mod config;
mod providers;
mod support;
mod tidy;
