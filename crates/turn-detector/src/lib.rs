//! Turn detector in this process: Smart Turn v3.2, a model that judges from the melody and pace of
//! speech whether the user has finished. In pure Rust, so that a server without native engines has
//! it too. Not for the use of its judgement, which is up to the actors.

mod log_mel;
mod smart_turn;
mod worker;

pub use smart_turn::SmartTurn;
pub use worker::Worker;
