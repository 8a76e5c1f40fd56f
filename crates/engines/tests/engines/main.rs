//! Our own services over real sockets, with scripted engines in place of the native ones, and the
//! supervisor with arbitrary programs. Not for the answers of real engines.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod llm_service;
mod speech_service;
mod supervise;
