//! Speaker embedder in this process: CAM++, a model that computes a vector of a voice's
//! characteristics from speech. In pure Rust, so that a server without native engines has it too.
//! Not for identifying speakers, nor for the consequences.

mod cam_plus_plus;
mod fbank;
mod worker;

pub use cam_plus_plus::CamPlusPlus;
pub use worker::Worker;
