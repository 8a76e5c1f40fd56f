//! Test support of several crates that needs none of our crates: JSON numbers, fetched models.
//! Never linked by the server.

pub mod models;
pub mod numbers;
