//! Commands that are programs of their own: this process becomes `hearken-engines` (`hearken speech`, `hearken llm`) or
//! `hearken-dev` (commands that were here once). Not for their arguments.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::Context as _;
use hearken_base::programs;

use crate::config::{self, EnvVars, env::models_dir};
use crate::engines;

/// Program with what developers need.
const DEV: &str = "hearken-dev";

/// Arguments of the other program, as they stand.
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
pub fn engine(engine: &str, args: Args, env: &dyn EnvVars) -> anyhow::Result<Infallible> {
    let config = config::load(None, env)?;
    let program = engines::program().with_context(|| {
        format!("`hearken {engine}` needs the program hearken-engines beside it or on PATH: build it with `scripts/engines`")
    })?;
    let mut command = Command::new(program);
    command.arg(engine).args(args.args).envs(engines::log_env(&config));
    command.env("HEARKEN_MODELS", models_dir(&config.embedded.models_dir, env));
    become_it(command)
}

/// Replaces this process by the program for developers, which carries out `name`.
///
/// # Errors
/// There is no such program.
pub fn dev(name: &str, args: Args) -> anyhow::Result<Infallible> {
    let program = programs::find(DEV).with_context(|| {
        format!("`{DEV} {name}` is not beside this program nor on PATH: build it with `cargo build --release --package {DEV}`")
    })?;
    let mut command = Command::new(program);
    command.arg(name).args(args.args);
    become_it(command)
}

fn become_it(mut command: Command) -> anyhow::Result<Infallible> {
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start {}", command.get_program().display()))
}
