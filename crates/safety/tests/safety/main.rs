//! Tests of the public interface: sentences of people in danger, harmless ones that sound like them, and the replies. Not for
//! how patterns match.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking")]

mod beside;
mod exam;
mod replies;
mod sentences;
mod told;
mod victims;
