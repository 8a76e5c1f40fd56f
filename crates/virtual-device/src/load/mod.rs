//! Many virtual devices at once against any server of the device wire: who connects, who talks,
//! what the wire showed, and what the server's process used for it. Not for the rules of a device
//! ([`crate`]), nor for printing.

mod figures;
mod fleet;
mod measure;
mod plan;
mod usage;

pub use figures::{Figures, Spread};
pub use fleet::{Crowd, run};
pub use plan::{LoadPlan, Measured};
pub use usage::{Course, Usage, Used};
