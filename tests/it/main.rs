//! Whole-server tests.
