//! `hearken-engines speech`: the embedded speech engines with both speech protocols. Only arguments
//! and signals; the service is in [`crate::speech`].

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use hearken_base::stop_signal::stop_requested;
use tokio_util::sync::CancellationToken;

use crate::speech::{self, Listen, Settings};

/// Cost (seconds of work per second of speech) above which the natural Chinese voice is too slow,
/// and the robotic one is used instead.
const HOPELESS_COST: f64 = 2.5;

/// Serves recognition and synthesis with the embedded engines.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Examples:\n  hearken speech\n  hearken speech --no-tts --asr-listen 0.0.0.0:9200\n  \
    hearken speech --models /srv/models --threads 4"
)]
pub(crate) struct Args {
    /// Address of the recognition WebSocket
    #[arg(long, default_value = "127.0.0.1:9200")]
    pub(crate) asr_listen: SocketAddr,
    /// Address of the synthesis WebSocket
    #[arg(long, default_value = "127.0.0.1:9300")]
    pub(crate) tts_listen: SocketAddr,
    /// Address of recognition's test page and health check
    #[arg(long, default_value = "127.0.0.1:9201")]
    pub(crate) asr_page: SocketAddr,
    /// Address of synthesis's test page and health check
    #[arg(long, default_value = "127.0.0.1:9301")]
    pub(crate) tts_page: SocketAddr,
    /// Folder of the models; by default in the user's cache folder
    #[arg(long)]
    pub(crate) models: Option<PathBuf>,
    /// Threads that run the engines; by default one per core
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// Maximum number of open synthesis requests, and of jobs that wait for a thread
    #[arg(long, default_value_t = 32)]
    pub(crate) queue: usize,
    /// Size of the cache of spoken phrases, in MiB
    #[arg(long, default_value_t = 32)]
    pub(crate) cache_mib: usize,
    /// Disable recognition
    #[arg(long)]
    pub(crate) no_asr: bool,
    /// Disable synthesis
    #[arg(long, conflicts_with = "no_asr")]
    pub(crate) no_tts: bool,
    /// Exit when standard input ends, so that a child never outlives its server
    #[arg(long)]
    pub(crate) with_parent: bool,
}

/// Serves until SIGTERM, Ctrl-C or, with a parent, the end of standard input. `models_root` is the
/// folder of the models if `--models` is not given.
///
/// # Errors
/// Fails if an address is in use, or an engine does not load.
pub(crate) async fn run(args: Args, models_root: &Path) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let settings = settings(&args, models_root);
    let serving = speech::run(settings, stop.clone(), || tracing::info!("serving speech"));
    tokio::pin!(serving);
    tokio::select! {
        ended = &mut serving => return Ok(ended?),
        told = stop_requested(args.with_parent) => told?,
    }
    stop.cancel();
    Ok(serving.await?)
}

fn settings(args: &Args, models_root: &Path) -> Settings {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let asr = Listen { socket: args.asr_listen, page: args.asr_page };
    let tts = Listen { socket: args.tts_listen, page: args.tts_page };
    Settings {
        asr: (!args.no_asr).then_some(asr),
        tts: (!args.no_tts).then_some(tts),
        models: args.models.clone().unwrap_or_else(|| models_root.to_owned()),
        threads: args.threads.unwrap_or(cores).clamp(1, 64),
        queue_len: args.queue.max(1),
        cache_bytes: args.cache_mib << 20,
        hopeless_cost: HOPELESS_COST,
    }
}
