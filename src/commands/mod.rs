//! One file per subcommand: arguments, calling one thing, printing. No behaviour.

pub mod convert;
pub mod devices;
pub mod other_program;
pub mod password;
pub mod people;
pub mod replay;
pub mod serve;
pub mod server;
pub mod store;
pub mod token;
mod tool_servers;
pub mod tools;

use std::path::{Path, PathBuf};

use hearken_base::output;

use crate::config::{self, Config, ConfigError, EnvVars};

/// Reads the configuration from this file, else from `config.toml` here, if it exists.
pub(crate) fn configuration(file: Option<&Path>, env: &dyn EnvVars) -> Result<Config, ConfigError> {
    let here = PathBuf::from("config.toml");
    let file = file.or_else(|| here.exists().then_some(here.as_path()));
    config::load(file, env)
}

/// Prints text to standard output; a closed reader is not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    Ok(output::print(text)?)
}

/// Prints a line for people to standard error.
pub(crate) fn note(text: &str) -> anyhow::Result<()> {
    Ok(output::note(text)?)
}
