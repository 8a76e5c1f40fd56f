//! Small models in this process, in Rust alone, so that a server without native engines has them too: their graphs, the
//! bands of the spectrum that they see, and the thread on which they work. Not for any one model.

mod band_energies;
mod graph;
mod worker;

pub use band_energies::BandEnergies;
pub use graph::Graph;
pub use worker::{Compute, Settings, Worker};
