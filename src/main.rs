//! Entry point: arguments, the command, the exit code.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hearken::commands::{
    chat, convert, devices, doubles, llm, load, models, replay, serve, speech, state_server, store,
    token, tools,
};
use hearken::config::env::models_dir;
use hearken::config::{self, ProcessEnv};
use hearken::{open_files, telemetry};

/// A voice server for ESP32 speakers: hears, thinks and speaks back.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Speech(speech::Args),
    Llm(llm::Args),
    Chat(chat::Args),
    Replay(replay::ReplayArgs),
    Load(load::LoadArgs),
    Doubles(doubles::Args),
    Convert(convert::ConvertArgs),
    Models(models::Args),
    Devices(devices::Args),
    Store(store::Args),
    Token(token::Args),
    Tools(tools::Args),
    StateServer(state_server::Args),
}

#[actix_web::main]
async fn main() -> ExitCode {
    hearken_base::tls::choose_provider();
    open_files::raise_limit();
    match run(Cli::parse().command).await {
        Ok(code) => code,
        Err(error) => {
            #[allow(
                clippy::print_stderr,
                reason = "the one place where a command's failure is told"
            )]
            {
                eprintln!("hearken: {error:#}");
            }
            ExitCode::from(2)
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => serve::run(args, &ProcessEnv).await.map(|()| ExitCode::SUCCESS),
        Command::Speech(args) => {
            let models = engine_start()?;
            speech::run(args, &models).await.map(|()| ExitCode::SUCCESS)
        }
        Command::Llm(args) => {
            let models = engine_start()?;
            llm::run(args, &models).await.map(|()| ExitCode::SUCCESS)
        }
        Command::Chat(args) => chat::run(args).await,
        Command::Replay(args) => replay::run(args).await,
        Command::Load(args) => load::run(args).await,
        Command::Doubles(args) => doubles::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Convert(args) => convert::run(args).await,
        Command::Devices(args) => devices::run(args, &ProcessEnv).await.map(|()| ExitCode::SUCCESS),
        Command::Tools(args) => tools::run(args, &ProcessEnv).await.map(|()| ExitCode::SUCCESS),
        Command::Store(args) => Box::pin(store::run(args, &ProcessEnv)).await,
        Command::Token(args) => token::run(&args, &ProcessEnv).map(|()| ExitCode::SUCCESS),
        Command::StateServer(args) => {
            state_server::run(args, &ProcessEnv).await.map(|()| ExitCode::SUCCESS)
        }
        Command::Models(args) => {
            let root = models_dir("".as_ref(), &ProcessEnv);
            models::run(args, &root).await.map(|()| ExitCode::SUCCESS)
        }
    }
}

/// Prepares an engine's process, which reads its settings from the environment only: starts the
/// log, and returns the folder of the models.
fn engine_start() -> anyhow::Result<PathBuf> {
    let config = config::load(None, &ProcessEnv)?;
    telemetry::start(&config.log, config.time_zone())?;
    Ok(models_dir(&config.embedded.models_dir, &ProcessEnv))
}
