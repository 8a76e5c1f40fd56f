//! Entry point: arguments, the command, the exit code.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hearken::commands::{
    convert, devices, engine, load, mock_services, password, persons, replay, serve, state_server,
    store, text_client, token, tools,
};
use hearken::config::ProcessEnv;
use hearken::config::env::models_dir;
use hearken::open_files;
use hearken_engines::models::command as models;

/// The allocator of all of our own memory. glibc's keeps what a burst of large messages needed for as
/// long as something small lies above it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A voice server for ESP32 speakers: recognises speech, asks a language model, speaks the answer.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Renamed commands, with their old names, which still work with a warning.
const OLD_NAMES: [(&str, &str); 2] = [("chat", "text-client"), ("doubles", "mock-services")];

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    /// Serve recognition and synthesis with the embedded engines
    Speech(engine::Args),
    /// Serve the embedded language model over the OpenAI HTTP API
    Llm(engine::Args),
    #[command(alias = "chat")]
    TextClient(text_client::Args),
    Replay(replay::ReplayArgs),
    Load(load::LoadArgs),
    #[command(alias = "doubles")]
    MockServices(mock_services::Args),
    Convert(convert::ConvertArgs),
    Models(models::Args),
    Devices(devices::Args),
    #[command(visible_alias = "init")]
    Password(password::Args),
    Persons(persons::Args),
    Store(store::Args),
    Token(token::Args),
    Tools(tools::Args),
    StateServer(state_server::Args),
}

#[actix_web::main]
async fn main() -> ExitCode {
    hearken_outbound::tls::choose_provider();
    open_files::raise_limit();
    let command = Cli::parse().command;
    if let Some((old, new)) = renamed(std::env::args().nth(1).as_deref()) {
        print_error(&format!("`hearken {old}` is now `hearken {new}`: use the new name"));
    }
    match run(command).await {
        Ok(code) => code,
        Err(error) => {
            print_error(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Returns the old and the new name of a command that was renamed, if it was called by the old one.
fn renamed(called: Option<&str>) -> Option<(&'static str, &'static str)> {
    OLD_NAMES.into_iter().find(|(old, _)| called == Some(old))
}

#[allow(clippy::print_stderr, reason = "the one place that prints failures and warnings")]
fn print_error(text: &str) {
    eprintln!("hearken: {text}");
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => serve::run(args, &ProcessEnv).await.map(|()| ExitCode::SUCCESS),
        Command::Speech(args) => match engine::run("speech", args, &ProcessEnv)? {},
        Command::Llm(args) => match engine::run("llm", args, &ProcessEnv)? {},
        Command::TextClient(args) => text_client::run(args).await,
        Command::Replay(args) => replay::run(args).await,
        Command::Load(args) => load::run(args).await,
        Command::MockServices(args) => mock_services::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Convert(args) => convert::run(args).await,
        Command::Devices(args) => devices::run(args, &ProcessEnv).await.map(|()| ExitCode::SUCCESS),
        Command::Persons(args) => persons::run(args, &ProcessEnv).await.map(|()| ExitCode::SUCCESS),
        Command::Password(args) => {
            password::run(&args, &ProcessEnv).await.map(|()| ExitCode::SUCCESS)
        }
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
