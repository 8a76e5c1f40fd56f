//! A small state server to begin with: dice, characters, fights and doors, in a world a session.
//! For people to read and for our tests to talk to; [`hearken_providers::state`] is the client of any.
//!
//! Its rules are pure: [`rules::act`] changes a [`world::World`] and tells what happened.
//! [`keeping::Keeping`] gives each world a version, refuses who knows an old one, and can go back.

mod arguments;
mod combat;
pub mod dice;
mod routes;
pub mod rules;
pub mod session_state;
pub mod storage;
#[cfg(test)]
mod tests;
pub mod tools;

pub use arguments::Wrong;
pub use routes::server;
pub use storage::Storage;
