//! The composition root: the one place where concrete types meet.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::{Server, ServerHandle};
use actix_web::rt::net::TcpStream;
use actix_web::{App, HttpServer};
use anyhow::Context as _;
use hearken_actors::pipeline::{AudioPool, Pipeline, Ports};
use socket2::SockRef;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::http::{self, Auth, Door, Doorman, Health, OtaRules};
use crate::providers;
use crate::recorder::Recorder;
use crate::store::{self, DeviceStore};
use crate::supervise::{Engine, EngineStates, Supervisor};
use crate::telemetry;

/// A peer that takes no data for this long is gone (`TCP_USER_TIMEOUT`).
const SOCKET_STALL: Duration = Duration::from_secs(20);

/// Wait before the fixed phrases are asked for again.
const WARM_AGAIN: Duration = Duration::from_secs(15);

/// Longest wait for the store to write out what it holds, at the end.
const STORE_CLOSES: Duration = Duration::from_secs(1);

/// A server that listens.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    server: Server,
    supervisor: Supervisor,
    places: Arc<Semaphore>,
    connections: u32,
    process: CancellationToken,
    warming: tokio::task::JoinHandle<()>,
    tidying: tokio::task::JoinHandle<()>,
    store: Arc<dyn DeviceStore>,
}

/// Builds everything from the configuration and starts to listen. Needs an actix system; ends
/// with `process`.
///
/// # Errors
/// A setting that cannot be used, or an address that is taken.
pub fn start(
    config: &Config,
    engines: Vec<Engine>,
    process: CancellationToken,
) -> anyhow::Result<Running> {
    let metrics = telemetry::metrics()?;
    let tts = providers::tts(&config.tts)?;
    let ports = Ports {
        asr: providers::asr(&config.asr)?,
        llm: providers::llm(&config.llm)?,
        tts: tts.clone(),
        tools: Arc::new(|_| Vec::new()),
        vision: None,
    };
    let settings = config.pipeline();
    let (phrases, language) = (settings.phrases.all(), settings.dialogue.language);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let or_cores = |n: usize| if n == 0 { cores } else { n };
    let audio = AudioPool::new(or_cores(config.server.audio_threads));
    let recorder = recorder(&config.server.record_dir)?;
    let store = store::open(&config.store.url, &config.server.data_dir)?;
    let door = door(config, Arc::clone(&store))?;
    let supervisor = Supervisor::start(engines, &process);
    let places = Arc::new(Semaphore::new(config.server.max_connections));
    let doorman = Doorman {
        pipeline: Pipeline::new(ports, settings, audio, process.clone()),
        places: Arc::clone(&places),
        recorder,
        door,
        language,
    };
    let health = Health { engines: supervisor.states().clone(), metrics: metrics.clone() };
    let factory = move || {
        let (doorman, health) = (doorman.clone(), health.clone());
        App::new().configure(|services| http::routes(services, doorman, health))
    };
    let at = (config.server.host.as_str(), config.server.port);
    let server = HttpServer::new(factory)
        .workers(or_cores(config.server.workers))
        .on_connect(|connection, _| tune(connection))
        .disable_signals()
        .shutdown_timeout(config.server.shutdown_timeout_ms.div_ceil(1_000))
        .bind(at)
        .with_context(|| {
            format!("cannot listen on {}:{}: is another server running? (CLOUD_PORT)", at.0, at.1)
        })?;
    let address = *server.addrs().first().context("no address to listen on")?;
    let warming = warm(tts, phrases, supervisor.states().clone(), process.clone());
    let tidying = tokio::spawn(telemetry::tidy(metrics));
    Ok(Running {
        address,
        server: server.run(),
        supervisor,
        places,
        connections: u32::try_from(config.server.max_connections).unwrap_or(u32::MAX),
        process,
        warming,
        tidying,
        store,
    })
}

/// Records every session into a folder, unless it is empty.
fn recorder(dir: &Path) -> anyhow::Result<Option<Arc<Recorder>>> {
    if dir.as_os_str().is_empty() {
        return Ok(None);
    }
    let recorder = Recorder::new(dir)
        .with_context(|| format!("`server.record_dir`: cannot record into {}", dir.display()))?;
    Ok(Some(Arc::new(recorder)))
}

/// Who is let in; makes the secrets that are needed and not configured.
fn door(config: &Config, store: Arc<dyn DeviceStore>) -> anyhow::Result<Arc<Door>> {
    let auth = Auth::new(&config.auth, &config.server.host, &config.server.data_dir)?;
    Ok(Arc::new(Door::new(auth, OtaRules::new(&config.ota)?, store)))
}

impl Running {
    /// Where the engines stand.
    pub fn engines(&self) -> &EngineStates {
        self.supervisor.states()
    }

    /// Serves until the process's token is cancelled; then tells the sockets, lets them end, and
    /// ends the engines.
    ///
    /// # Errors
    /// The server failed.
    pub async fn serve(self) -> anyhow::Result<()> {
        let handle = self.server.handle();
        let ending = end(handle, self.places, self.connections, self.process);
        let (served, ()) = tokio::join!(self.server, ending);
        self.warming.abort();
        self.tidying.abort();
        self.supervisor.stop().await;
        if tokio::time::timeout(STORE_CLOSES, self.store.close()).await.is_err() {
            tracing::warn!("the store did not close in time");
        }
        served.context("the server failed")
    }
}

/// Sockets hear of the end by their tokens; those that are gone give their places back.
async fn end(
    handle: ServerHandle,
    places: Arc<Semaphore>,
    connections: u32,
    process: CancellationToken,
) {
    process.cancelled().await;
    let all = places.acquire_many(connections);
    if tokio::time::timeout(Duration::from_secs(2), all).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
    handle.stop(true).await;
}

/// Small packets leave at once, and a peer that takes none is given up.
fn tune(connection: &dyn std::any::Any) {
    let Some(stream) = connection.downcast_ref::<TcpStream>() else { return };
    let socket = SockRef::from(stream);
    let tuned = socket.set_tcp_nodelay(true);
    if let Err(error) = tuned.and_then(|()| socket.set_tcp_user_timeout(Some(SOCKET_STALL))) {
        tracing::debug!(%error, "cannot tune a socket");
    }
}

/// Makes the audio of the fixed phrases when the engines are ready, so that an apology is heard
/// even when the synthesiser is down.
fn warm(
    tts: Arc<providers::tts::CachedTts>,
    phrases: Vec<String>,
    engines: EngineStates,
    process: CancellationToken,
) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let work = async {
            while !engines.all_ready() {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            while let Err(error) = tts.warm(&phrases).await {
                tracing::warn!(%error, "cannot make the fixed phrases yet");
                tokio::time::sleep(WARM_AGAIN).await;
            }
        };
        if process.run_until_cancelled(work).await.is_some() {
            tracing::debug!("the fixed phrases are ready");
        }
    })
}
