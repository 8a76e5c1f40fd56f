//! A small sample state server: dice, characters, combat and doors, with one world per session. It
//! is an example for readers and a test server; `hearken_providers::state` is the client of any
//! state server.
//!
//! Its rules are pure: [`rules::act`] changes a [`session_state::World`] and returns events.
//! [`storage::Storage`] gives each world a version, refuses callers with an old one, and restores
//! earlier versions.

mod arguments;
pub mod characters;
mod combat;
pub mod dice;
mod routes;
pub mod rules;
pub mod session_state;
pub mod storage;
#[cfg(test)]
mod tests;
pub mod tools;

pub use arguments::CallError;
pub use routes::server;
pub use storage::Storage;
