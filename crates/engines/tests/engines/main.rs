//! The services of our own over real sockets, with scripted engines in place of the native ones, and
//! the supervisor with programs that are no engines. Not for what real engines say.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod llm_service;
mod speech_service;
mod supervise;
