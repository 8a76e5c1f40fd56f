//! Load generator: many virtual devices against any server of the device protocol, with
//! measurements on the wire and of the server's process. Not for the rules of a device ([`crate`]),
//! nor for printing.

mod figures;
mod measure;
mod plan;
mod scenario;
mod usage;

pub use figures::{Distribution, Figures};
pub use plan::{LoadPlan, Measured};
pub use scenario::{LoadScenario, run};
pub use usage::{Usage, UsageReport, UsageSamples};
