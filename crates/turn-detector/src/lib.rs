//! Turn detector in this process: Smart Turn v3.2, a model that judges from the sound of speech, its melody and its
//! pace, whether the person has finished. In Rust alone, so that a server without native engines has it too. Not for
//! what follows from its judgement, which the actors draw.

mod log_mel;
mod smart_turn;
mod worker;

pub use smart_turn::SmartTurn;
pub use worker::Worker;
