//! One file per subcommand: arguments, calling one thing, printing. No behaviour.

pub mod config;
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

use crate::config::{self as configuration, Config, ConfigError, EnvVars, Loaded};

/// Reads the configuration from this file, else from `config.toml` here, if it exists, and prints
/// warnings about old names.
pub(crate) fn configuration(file: Option<&Path>, env: &dyn EnvVars) -> Result<Config, ConfigError> {
    loaded(configuration_file(file).as_deref(), env).map(|loaded| loaded.config)
}

/// Returns this file, else `config.toml` here, if it exists.
pub(crate) fn configuration_file(file: Option<&Path>) -> Option<PathBuf> {
    let here = PathBuf::from("config.toml");
    file.map(Path::to_owned).or_else(|| here.exists().then_some(here))
}

/// Reads the configuration with its origins, and prints warnings about old names.
pub(crate) fn loaded(file: Option<&Path>, env: &dyn EnvVars) -> Result<Loaded, ConfigError> {
    let loaded = configuration::load_with_origins(file, env)?;
    for warning in &loaded.warnings {
        // The configuration holds all the same.
        note(&format!("hearken: warning: {warning}")).ok();
    }
    Ok(loaded)
}

/// Prints text to standard output; a closed reader is not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    Ok(output::print(text)?)
}

/// Prints a line for people to standard error.
pub(crate) fn note(text: &str) -> anyhow::Result<()> {
    Ok(output::note(text)?)
}
