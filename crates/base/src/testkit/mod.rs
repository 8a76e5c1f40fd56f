//! What tests of several crates need and no crate of ours is needed for: numbers as JSON writes them, models that were
//! fetched. Never linked by the server.

pub mod models;
pub mod numbers;
