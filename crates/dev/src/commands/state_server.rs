//! `hearken-dev state-server`: the example state server. Only arguments and signals; its behaviour is
//! in `hearken_state_server`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use hearken_base::stop_signal::stop_requested;
use hearken_state_server::Storage;

/// Serves the states of chat sessions: dice, characters, combat. An example to start with.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Examples:\n  hearken-dev state-server\n  hearken-dev state-server --file worlds.json\n  \
    MCP_SERVER_URL=http://127.0.0.1:9000 hearken serve"
)]
pub(crate) struct Args {
    /// Address to listen on; no token is needed
    #[arg(long, default_value = "127.0.0.1:9000")]
    pub(crate) listen: SocketAddr,
    /// Seed of the dice: every session rolls the same in the same order
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Store the states in this file; by default they are lost at the end
    #[arg(long)]
    pub(crate) file: Option<PathBuf>,
}

/// Serves until SIGTERM or Ctrl-C.
///
/// # Errors
/// Fails if the address is in use, or the file has another format.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let storage = match &args.file {
        None => Storage::new(args.seed),
        Some(file) => Storage::in_file(args.seed, file)
            .with_context(|| format!("cannot read the sessions in {}", file.display()))?,
    };
    let (server, address) = hearken_state_server::server(args.listen, storage)
        .with_context(|| format!("cannot listen on {}: use --listen", args.listen))?;
    tracing::info!(%address, "serving states");
    let handle = server.handle();
    tokio::pin!(server);
    tokio::select! {
        ended = &mut server => return ended.context("the server failed"),
        told = stop_requested(false) => told?,
    }
    tokio::join!(handle.stop(true), server).1.context("the server failed")
}
