//! Entry point of `hearken-engines`, which the server starts as child processes: arguments, the
//! command, the exit code. Only the files beside it call native code.

mod commands;
mod espeak;
mod llama;
mod load;
mod sherpa_asr;
mod sherpa_tts;
mod sherpa_vad;
mod speech;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use commands::{llm, speech as speech_command};
use hearken_base::programs::variable;
use hearken_base::{log, output};
use hearken_engines::models::{command as models, default_root};

/// The allocator of all Rust memory, as in the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The engines of Hearken: recogniser, synthesiser and language model, as separate services.
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
    let outcome = run(Cli::parse().command).await;
    output::exit_code("hearken-engines", outcome.map(|()| ExitCode::SUCCESS))
}

async fn run(command: Command) -> anyhow::Result<()> {
    let root = default_root(variable);
    match command {
        Command::Speech(args) => {
            log::start_from_environment()?;
            speech_command::run(args, &root).await
        }
        Command::Llm(args) => {
            log::start_from_environment()?;
            llm::run(args, &root).await
        }
        Command::Models(args) => models::run(args, &root).await,
    }
}
