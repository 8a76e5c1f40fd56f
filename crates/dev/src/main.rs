//! Entry point of `hearken-dev`, the tools that developers run beside the server: arguments, the
//! command, the exit code.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use commands::{load, mock_services, state_server};
use hearken_base::{log, open_files, output};

/// The allocator of all Rust memory, as in the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Tools for developers of Hearken and of its clients: load a server, mock its services, serve an
/// example of a state server.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Load(load::LoadArgs),
    MockServices(mock_services::Args),
    StateServer(state_server::Args),
}

#[actix_web::main]
async fn main() -> ExitCode {
    hearken_outbound::tls::choose_provider();
    open_files::raise_limit();
    output::exit_code("hearken-dev", run(Cli::parse().command).await)
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Load(args) => load::run(args).await,
        Command::MockServices(args) => mock_services::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::StateServer(args) => {
            log::start_from_environment()?;
            state_server::run(args).await.map(|()| ExitCode::SUCCESS)
        }
    }
}
