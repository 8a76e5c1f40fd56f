//! Everything that happens between two wires: hearing, dialogue, speaking. The outside (vendors,
//! HTTP, files) is behind [`ports`].
//!
//! Reading order: [`ports`].

pub mod audio;
pub mod ports;
