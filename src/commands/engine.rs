//! `hearken speech` and `hearken llm`: become the program with the engines. Not for its arguments.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::Context as _;

use crate::config::{self, EnvVars, env::models_dir};
use crate::engines;

/// Arguments of the program with the engines, as they stand.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Arguments; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Replaces this process by the program with the engines, which serves `engine`. It reads its
/// settings from the environment only.
///
/// # Errors
/// The environment cannot be used as configuration, or there is no such program.
pub fn run(
    engine: &str,
    args: Args,
    env: &dyn EnvVars,
) -> anyhow::Result<std::convert::Infallible> {
    let config = config::load(None, env)?;
    let program = engines::program().with_context(|| {
        format!("`hearken {engine}` needs the program hearken-engines beside it or on PATH: build it with `scripts/engines`")
    })?;
    let models = models_dir(&config.embedded.models_dir, env);
    let error = Command::new(&program)
        .arg(engine)
        .args(args.args)
        .envs(engines::log_env(&config))
        .env("HEARKEN_MODELS", models)
        .exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}
