//! Entry point of `hearken-engines`, which the server starts as child processes: arguments, the
//! command, the exit code. The files beside it are all that calls native code.

mod commands;
mod espeak;
mod llama;
mod load;
mod sherpa_asr;
mod sherpa_tts;
mod sherpa_vad;
mod speech;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use commands::{llm, speech as speech_command};
use hearken_base::log::{ZoneTime, filter};
use hearken_engines::models::{command as models, default_root};
use jiff::tz::TimeZone;

/// The allocator of all of our own memory, as in the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The engines of Hearken: recogniser, synthesiser and language model, as services of their own.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Speech(speech_command::Args),
    Llm(llm::Args),
    Models(models::Args),
}

#[actix_web::main]
async fn main() -> ExitCode {
    hearken_outbound::tls::choose_provider();
    match run(Cli::parse().command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

#[allow(clippy::print_stderr, reason = "the one place that prints failures")]
fn print_error(text: &str) {
    eprintln!("hearken-engines: {text}");
}

async fn run(command: Command) -> anyhow::Result<()> {
    let root = default_root(variable);
    match command {
        Command::Speech(args) => {
            start_log()?;
            speech_command::run(args, &root).await
        }
        Command::Llm(args) => {
            start_log()?;
            llm::run(args, &root).await
        }
        Command::Models(args) => models::run(args, &root).await,
    }
}

/// Returns an environment variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name)?.into_string().ok().filter(|value| !value.is_empty())
}

/// Starts the log with the level and the format of the server, which hands them over as variables.
fn start_log() -> anyhow::Result<()> {
    let level = variable("HEARKEN__LOG__LEVEL").unwrap_or_else(|| "info".into());
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter(&level)?)
        .with_timer(ZoneTime(TimeZone::system()))
        .with_writer(std::io::stderr);
    let started = match variable("HEARKEN__LOG__FORMAT").as_deref() {
        Some(format) if format.eq_ignore_ascii_case("json") => logs.json().try_init(),
        _ => logs.with_target(false).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!(error)).context("cannot start the log")
}
