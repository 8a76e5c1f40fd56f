//! Both services and their pages on real engines, from opening the sockets to closing them.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hearken_engines::speech::asr_service::AsrService;
use hearken_engines::speech::engine::{EngineError, RecognitionEngines, VoicePair};
use hearken_engines::speech::page::{self, Page};
use hearken_engines::speech::pool::Pool;
use hearken_engines::speech::tts_service::TtsService;
use hearken_engines::speech::voice_speeds::VoiceSpeeds;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::load;

/// File in the models folder that stores the speed of the voices on this machine.
const PACE_FILE: &str = "voice-speed.json";
/// Maximum wait for running engine work at the end.
const LAST_WORK: Duration = Duration::from_millis(1_200);

/// Addresses of one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listen {
    /// Address of its WebSocket.
    pub(crate) socket: SocketAddr,
    /// Address of its demo page and health check.
    pub(crate) page: SocketAddr,
}

/// Services to run, and their limits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    /// Addresses of recognition; `None` disables it.
    pub(crate) asr: Option<Listen>,
    /// Addresses of synthesis; `None` disables it.
    pub(crate) tts: Option<Listen>,
    /// Path of the models folder.
    pub(crate) models: PathBuf,
    /// Number of threads that run engines.
    pub(crate) threads: usize,
    /// Maximum number of waiting jobs of each kind, and of open synthesis requests.
    pub(crate) queue_len: usize,
    /// Size of the cache of spoken phrases, in bytes.
    pub(crate) cache_bytes: usize,
    /// Seconds of work per second of speech above which the natural Chinese voice is not used.
    pub(crate) hopeless_cost: f64,
}

/// Reason why the service does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// The service cannot listen on an address.
    #[error("cannot listen on {address}: {reason}; is another server running there?")]
    Listen {
        /// Address that failed.
        address: SocketAddr,
        /// Error of the system.
        reason: std::io::Error,
    },
    /// An engine is missing.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The system refuses a thread or the use of a socket.
    #[error("the speech service cannot run: {0}")]
    System(#[from] std::io::Error),
    /// Loading the engines failed.
    #[error("loading the speech engines panicked; see the log above")]
    Loading,
}

/// Open listeners of one service.
struct Bound {
    socket: TcpListener,
    address: SocketAddr,
    page: TcpListener,
}

/// Serves until `stop` is cancelled. Listens at once: early clients wait. `/healthz` answers 503
/// until the engines are loaded; then `ready` is called.
///
/// # Errors
/// An address is taken, or an engine does not load.
pub(crate) async fn run(
    settings: Settings,
    stop: CancellationToken,
    ready: impl FnOnce(),
) -> Result<(), ServeError> {
    let asr = settings.asr.map(bind).transpose()?;
    let tts = settings.tts.map(bind).transpose()?;
    let loaded = Arc::new(AtomicBool::new(false));
    let ended = stop.child_token();
    let _end_pages = ended.clone().drop_guard();
    let pages = [(Page::Recognition, &asr), (Page::Synthesis, &tts)].map(|(page, bound)| {
        let bound =
            bound.as_ref().map(|b| Ok::<_, std::io::Error>((b.page.try_clone()?, b.address)));
        let loaded = Arc::clone(&loaded);
        let ended = ended.clone();
        async move {
            match bound {
                Some(bound) => {
                    let (listener, socket) = bound?;
                    page::serve(page, listener, socket, loaded, ended).await
                }
                None => Ok(()),
            }
        }
    });
    let [asr_page, tts_page] = pages;
    let serving = async {
        let outcome = serve(&settings, asr, tts, &stop, || {
            loaded.store(true, Ordering::Release);
            ready();
        })
        .await;
        ended.cancel();
        outcome
    };
    let (served, asr_page, tts_page) = tokio::join!(serving, asr_page, tts_page);
    served?;
    asr_page?;
    tts_page?;
    Ok(())
}

fn bind(listen: Listen) -> Result<Bound, ServeError> {
    let open = |address: SocketAddr| {
        let failed = |reason| ServeError::Listen { address, reason };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok::<_, ServeError>(listener)
    };
    let socket = open(listen.socket)?;
    let address = socket.local_addr()?;
    Ok(Bound { socket, address, page: open(listen.page)? })
}

async fn serve(
    settings: &Settings,
    asr: Option<Bound>,
    tts: Option<Bound>,
    stop: &CancellationToken,
    ready: impl FnOnce(),
) -> Result<(), ServeError> {
    let paces = Arc::new(VoiceSpeeds::open(Some(settings.models.join(PACE_FILE))));
    let begun = Instant::now();
    let loading = load_all(settings, asr.is_some(), tts.is_some(), &paces);
    let (hearing, speakers) = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        loaded = loading => loaded?,
    };
    let engines = (hearing.clone(), speakers.clone());
    let pool = Arc::new(Pool::start(settings.threads, settings.queue_len)?);
    tracing::info!(
        took_ms = begun.elapsed().as_millis(),
        threads = settings.threads,
        "loaded the speech engines"
    );
    let recognition = async {
        if let (Some(bound), Some(hearing)) = (asr, hearing) {
            let listener = tokio::net::TcpListener::from_std(bound.socket)?;
            AsrService { hearing, pool: Arc::clone(&pool) }.serve(listener, stop.clone()).await;
        }
        Ok::<_, std::io::Error>(())
    };
    let synthesis = async {
        if let (Some(bound), Some(speakers)) = (tts, speakers) {
            let listener = tokio::net::TcpListener::from_std(bound.socket)?;
            let queue = settings.queue_len;
            let cache = settings.cache_bytes;
            TtsService::new(speakers, Arc::clone(&pool), Arc::clone(&paces), queue, cache)
                .serve(listener, stop.clone())
                .await;
        }
        Ok::<_, std::io::Error>(())
    };
    ready();
    let served = tokio::try_join!(recognition, synthesis);
    // Freeing a gigabyte of weights piece by piece takes seconds. The process ends next, which
    // frees them at once.
    std::mem::forget(engines);
    if !pool.close(LAST_WORK) {
        tracing::warn!("some work of the speech engines did not end in time");
    }
    served?;
    Ok(())
}

async fn load_all(
    settings: &Settings,
    asr: bool,
    tts: bool,
    paces: &Arc<VoiceSpeeds>,
) -> Result<(Option<RecognitionEngines>, Option<Vec<VoicePair>>), ServeError> {
    let models = settings.models.clone();
    let threads = settings.threads;
    let known = load::speeds_are_known(paces, settings.hopeless_cost);
    let mut hearing = on_thread(move || asr.then(|| load::hearing(&models, threads)).transpose())?;
    let models = settings.models.clone();
    let hopeless = settings.hopeless_cost;
    let paces = Arc::clone(paces);
    // While the speed of voices is measured, nothing else is loaded.
    let first = if known { None } else { Some((&mut hearing).await) };
    let speakers = on_thread(move || {
        tts.then(|| load::speakers(&models, threads, &paces, hopeless)).transpose()
    })?;
    let hearing = match first {
        Some(loaded) => loaded,
        None => hearing.await,
    };
    let hearing = hearing.map_err(|_| ServeError::Loading)??;
    Ok((hearing, speakers.await.map_err(|_| ServeError::Loading)??))
}

/// Runs `work` on a thread that the runtime does not wait for at the end of the process: loading
/// cannot be cancelled, and the runtime would wait for its own threads.
fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<oneshot::Receiver<T>> {
    let (done, result) = oneshot::channel();
    std::thread::Builder::new().name("speech-load".into()).spawn(move || {
        // The receiver is gone if the process was asked to end.
        let _stopped = done.send(work());
    })?;
    Ok(result)
}
