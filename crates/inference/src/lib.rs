//! Small models in this process, in pure Rust, so that a server without native engines has them
//! too: their graphs, the spectral bands of their input, and the thread on which they run. Not for
//! any single model.

mod band_energies;
mod graph;
mod worker;

pub use band_energies::BandEnergies;
pub use graph::Graph;
pub use worker::{Compute, Settings, Worker};
