//! One file per subcommand: arguments, calling one thing, printing. No behaviour.

pub mod convert;
pub mod devices;
pub mod engine;
pub mod load;
pub mod mock_services;
pub mod password;
pub mod persons;
pub mod replay;
pub mod serve;
pub mod server;
pub mod state_server;
pub mod store;
pub mod text_client;
pub mod token;
mod tool_servers;
pub mod tools;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use hearken_proto::device::ListenMode;

use crate::config::{self, Config, ConfigError, EnvVars};

/// Reads the configuration from this file, else from `config.toml` here, if it exists.
pub(crate) fn configuration(file: Option<&Path>, env: &dyn EnvVars) -> Result<Config, ConfigError> {
    let here = PathBuf::from("config.toml");
    let file = file.or_else(|| here.exists().then_some(here.as_path()));
    config::load(file, env)
}

/// Parses the listening mode of a command line.
pub(crate) fn listen_mode(name: &str) -> Result<ListenMode, String> {
    [ListenMode::Auto, ListenMode::Manual, ListenMode::Realtime]
        .into_iter()
        .find(|mode| mode.as_str() == name)
        .ok_or_else(|| "use auto, manual or realtime".into())
}

/// Prints text to standard output; a closed reader is not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout(), "{}", text.trim_end()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Prints a line for people to standard error.
pub(crate) fn note(text: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stderr(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
