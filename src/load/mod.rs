//! Many virtual devices at once against any server of the device wire: who connects, who talks,
//! and what the wire showed. Not for the rules of a device ([`crate::emulator`]), nor for printing.

mod crowd;
mod figures;

pub use crowd::{Crowd, run};
pub use figures::{Figures, Spread};
