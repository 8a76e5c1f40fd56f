//! Entry point: arguments, the command, the exit code.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hearken::commands::{
    config, convert, devices, other_program, password, people, replay, serve, store, token, tools,
};
use hearken::config::ProcessEnv;
use hearken::config::env::models_dir;
use hearken_base::{open_files, output};
use hearken_engines::models::command as models;
use hearken_text_client as text_client;

/// The allocator of all of our own memory. glibc's keeps what a burst of large messages needed for as
/// long as something small lies above it. Decision 0056.
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
const OLD_NAMES: [(&str, &str); 6] = [
    ("chat", "hearken text-client"),
    ("persons", "hearken people"),
    ("doubles", "hearken-dev mock-services"),
    ("mock-services", "hearken-dev mock-services"),
    ("load", "hearken-dev load"),
    ("state-server", "hearken-dev state-server"),
];

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    /// Serve recognition and synthesis with the embedded engines
    Speech(other_program::Args),
    /// Serve the embedded language model over the OpenAI HTTP API
    Llm(other_program::Args),
    #[command(alias = "chat")]
    TextClient(text_client::Args),
    Replay(replay::ReplayArgs),
    #[command(hide = true)]
    Load(other_program::Args),
    #[command(hide = true, alias = "doubles")]
    MockServices(other_program::Args),
    Convert(convert::ConvertArgs),
    Config(config::Args),
    Models(models::Args),
    Devices(devices::Args),
    #[command(visible_alias = "init")]
    Password(password::Args),
    #[command(alias = "persons")]
    People(people::Args),
    Store(store::Args),
    Token(token::Args),
    Tools(tools::Args),
    #[command(hide = true)]
    StateServer(other_program::Args),
}

#[actix_web::main]
async fn main() -> ExitCode {
    hearken_outbound::tls::choose_provider();
    open_files::raise_limit();
    let command = Cli::parse().command;
    if let Some((old, new)) = renamed(std::env::args().nth(1).as_deref()) {
        let warning = format!("hearken: `hearken {old}` is now `{new}`: use the new name");
        // The command works all the same.
        output::note(&warning).ok();
    }
    output::exit_code("hearken", run(command).await)
}

/// Returns the old and the new name of a command that was renamed, if it was called by the old one.
fn renamed(called: Option<&str>) -> Option<(&'static str, &'static str)> {
    OLD_NAMES.into_iter().find(|(old, _)| called == Some(old))
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => serve::run(args, &ProcessEnv).await.map(|()| ExitCode::SUCCESS),
        Command::Speech(args) => match other_program::engine("speech", args, &ProcessEnv)? {},
        Command::Llm(args) => match other_program::engine("llm", args, &ProcessEnv)? {},
        Command::TextClient(args) => text_client::run(args).await,
        Command::Replay(args) => replay::run(args).await,
        Command::Load(args) => match other_program::dev("load", args)? {},
        Command::MockServices(args) => match other_program::dev("mock-services", args)? {},
        Command::StateServer(args) => match other_program::dev("state-server", args)? {},
        Command::Convert(args) => convert::run(args).await,
        Command::Config(args) => config::run(args, &ProcessEnv).await,
        Command::Devices(args) => devices::run(args, &ProcessEnv).await.map(|()| ExitCode::SUCCESS),
        Command::People(args) => people::run(args, &ProcessEnv).await.map(|()| ExitCode::SUCCESS),
        Command::Password(args) => {
            password::run(&args, &ProcessEnv).await.map(|()| ExitCode::SUCCESS)
        }
        Command::Tools(args) => tools::run(args, &ProcessEnv).await.map(|()| ExitCode::SUCCESS),
        Command::Store(args) => Box::pin(store::run(args, &ProcessEnv)).await,
        Command::Token(args) => token::run(&args, &ProcessEnv).await.map(|()| ExitCode::SUCCESS),
        Command::Models(args) => {
            let root = models_dir("".as_ref(), &ProcessEnv);
            models::run(args, &root).await.map(|()| ExitCode::SUCCESS)
        }
    }
}
