//! `hearken speech`: the embedded speech engines with both speech protocols. Only arguments and
//! signals; the service is in `hearken_engines::speech`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Cost (seconds of work per second of speech) above which the natural Chinese voice is too slow,
/// and the robotic one is used instead.
#[cfg(feature = "speech-engine")]
const HOPELESS_COST: f64 = 2.5;

/// Serves recognition and synthesis with the embedded engines.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Examples:\n  hearken speech\n  hearken speech --no-tts --asr-listen 0.0.0.0:9200\n  \
    hearken speech --models /srv/models --threads 4"
)]
pub struct Args {
    /// Address of the recognition WebSocket
    #[arg(long, default_value = "127.0.0.1:9200")]
    pub asr_listen: SocketAddr,
    /// Address of the synthesis WebSocket
    #[arg(long, default_value = "127.0.0.1:9300")]
    pub tts_listen: SocketAddr,
    /// Address of recognition's test page and health check
    #[arg(long, default_value = "127.0.0.1:9201")]
    pub asr_page: SocketAddr,
    /// Address of synthesis's test page and health check
    #[arg(long, default_value = "127.0.0.1:9301")]
    pub tts_page: SocketAddr,
    /// Folder of the models; by default in the user's cache folder
    #[arg(long)]
    pub models: Option<PathBuf>,
    /// Threads that run the engines; by default one per core
    #[arg(long)]
    pub threads: Option<usize>,
    /// Maximum number of open synthesis requests, and of jobs that wait for a thread
    #[arg(long, default_value_t = 32)]
    pub queue: usize,
    /// Size of the cache of spoken phrases, in MiB
    #[arg(long, default_value_t = 32)]
    pub cache_mib: usize,
    /// Disable recognition
    #[arg(long)]
    pub no_asr: bool,
    /// Disable synthesis
    #[arg(long, conflicts_with = "no_asr")]
    pub no_tts: bool,
    /// Exit when standard input ends, so that a child never outlives its server
    #[arg(long)]
    pub with_parent: bool,
}

/// Returns the error that says how to get a build with the engines.
///
/// # Errors
/// Fails always.
#[cfg(not(feature = "speech-engine"))]
pub async fn run(_args: Args, _models_root: &Path) -> anyhow::Result<()> {
    anyhow::bail!(
        "this build has no speech engines: start with `scripts/run`, or build with `cargo build \
         --release --features speech-engine`"
    )
}

/// Serves until SIGTERM, Ctrl-C or, with a parent, the end of standard input. `models_root` is the
/// folder of the models if `--models` is not given.
///
/// # Errors
/// Fails if an address is in use, or an engine does not load.
#[cfg(feature = "speech-engine")]
pub async fn run(args: Args, models_root: &Path) -> anyhow::Result<()> {
    use tokio_util::sync::CancellationToken;

    let stop = CancellationToken::new();
    let settings = settings(&args, models_root);
    let serving = hearken_engines::speech::serve::run(settings, stop.clone(), || {
        tracing::info!("serving speech")
    });
    tokio::pin!(serving);
    tokio::select! {
        ended = &mut serving => return Ok(ended?),
        told = crate::shutdown::stop_requested(args.with_parent) => told?,
    }
    stop.cancel();
    Ok(serving.await?)
}

#[cfg(feature = "speech-engine")]
fn settings(args: &Args, models_root: &Path) -> hearken_engines::speech::serve::Settings {
    use hearken_engines::speech::serve::{Listen, Settings};

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
