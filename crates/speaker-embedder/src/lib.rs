//! Speaker embedder in this process: CAM++, a model that computes from the sound of speech what is typical of its
//! voice. In Rust alone, so that a server without native engines has it too. Not for whose voice it is, nor for what
//! follows from that.

mod cam_plus_plus;
mod fbank;
mod worker;

pub use cam_plus_plus::CamPlusPlus;
pub use worker::Worker;
