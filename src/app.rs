//! The composition root: the one place where concrete types meet.

mod admin;
mod frontends;
mod listening;
mod models;
mod museum;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::{Server, ServerHandle};
use actix_web::web::{Data, ServiceConfig};
use anyhow::Context as _;
use futures_util::future::BoxFuture;
use hearken_actors::actors::pipeline::{AudioPool, Pipeline, Ports};
use hearken_actors::admission::cores;
use hearken_actors::dialogue::{ConversationStyle, Dialogue, LocalTime};
use hearken_actors::ports::{Prompt, ToolSource};
use hearken_actors::settings::PipelineSettings;
use hearken_actors::tasks::Tasks;
use hearken_actors::tools::Toolbox;
use hearken_base::priority::lower_priority;
use hearken_cluster::Cluster;
use hearken_engines::supervise::{Engine, EngineStates, Supervisor};
use hearken_providers::LlmSettings;
use hearken_providers::Vision;
use hearken_store::{DeviceStore, ToolStore};
use hearken_tool_sources::{
    AgentTokens, Builtin, Cameras, Endpoint, Registry, Servers, Sources, VisionTokens,
};
use jiff::Timestamp;
use metrics_exporter_prometheus::PrometheusHandle;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::admin::Changing;
use self::frontends::{chats, purge, sweep, text_clients, visits};
use self::models::Models;
use crate::config::{Config, ProcessEnv, env};
use crate::engines;
use crate::http::{
    self, AccessControl, Admin, Auth, Chats, DeviceEndpoint, Health, LiteMcp, MuseumClients,
    OtaRules, TextClients, ToolsApi,
};
use crate::recorder::Recorder;
use crate::telemetry;
use crate::tls::Certificate;

/// Wait before another attempt to synthesise the fixed phrases.
const WARM_AGAIN: Duration = Duration::from_secs(15);

/// Maximum number of concurrent requests with side effects.
const MAX_TASKS: u32 = 4_096;

/// Shutdown time after which read-only requests are no longer waited for: if the requests with side
/// effects took this long to end, the server stops without waiting for the rest.
const WAITED_ENOUGH: Duration = Duration::from_secs(1);

/// Longest wait at shutdown for the store to write its data.
const STORE_CLOSES: Duration = Duration::from_secs(1);

/// Running server.
pub struct Running {
    /// Address on which it listens.
    pub address: SocketAddr,
    server: Server,
    supervisor: Supervisor,
    /// Connection slots of devices and of text clients, and their number.
    places: [(Arc<Semaphore>, usize); 2],
    /// Running requests with side effects, and the server's shutdown token.
    tasks: Tasks,
    /// Background tasks.
    tending: Vec<tokio::task::JoinHandle<()>>,
    store: Arc<dyn DeviceStore>,
    tools: Sources,
    cluster: Cluster,
}

/// Builds everything from the configuration and starts to listen. Needs an actix system. Ends when
/// `process` is cancelled.
///
/// # Errors
/// A setting is invalid, or an address is in use.
pub fn start(
    config: &Config,
    engines: Vec<Engine>,
    process: CancellationToken,
) -> anyhow::Result<Running> {
    let metrics = telemetry::metrics()?;
    let tts = hearken_providers::tts(&config.tts)?;
    let store = hearken_store::open(&config.store.url, &config.server.data_dir)?;
    let cluster = Cluster::start(&config.redis, &process)?;
    let (tools, registry, desk, cameras) = tools(config, Arc::clone(&store) as _, &process)?;
    let models = Models::default();
    let ports = ports(config, tts.clone(), &tools, &cameras, &desk, &models)?;
    let settings = settings(config);
    let (phrases, language) = (settings.phrases.all(), settings.dialogue.language);
    let ahead = ports.llm.read_ahead(opening(&settings, &tools, local_time(config)));
    let voices = AudioPool::new(threads(config).1, lower_priority);
    let places = Arc::new(Semaphore::new(config.server.max_connections));
    let device_endpoint = DeviceEndpoint {
        pipeline: Pipeline::new(ports, settings, voices.clone(), process.clone()),
        places: Arc::clone(&places),
        recorder: recorder(&config.server.record_dir)?,
        access: access(config, Arc::clone(&store) as _)?,
        language,
    };
    hold(&cluster, &device_endpoint, &tools);
    let govern =
        device_endpoint.pipeline.admission().clone().govern(cpu_time, move || voices.busy());
    let supervisor = Supervisor::start(engines, &process);
    let (engines, metrics_shown) = (supervisor.states().clone(), metrics.clone());
    let (describer, kept) = (desk.describer(), Arc::clone(&store) as _);
    let clients =
        text_clients(config, (kept, &models), &tools, describer.clone(), &cluster, &process)?;
    let tasks = tasks(config, &process);
    let chats =
        chats(config, (Arc::clone(&store) as _, &models), &tools, describer, &cluster, &tasks)?;
    let museum = museum::museum(config, Arc::clone(&store) as _, &models, &cluster)?;
    let (visits, text_places) = (visits(&museum), Arc::clone(&clients.places));
    let changing = changing(&device_endpoint, &clients, &chats, &museum);
    let admin = admin::admin(config, Arc::clone(&store) as _, models, changing)?;
    let mut tending = vec![sweep(&clients), purge(&chats), tidy(metrics)];
    let in_step = admin::keep_in_step(&admin);
    let faces = Frontends {
        device_endpoint,
        health: Health::new(engines, metrics_shown, cluster.clone(), process.clone()),
        desk,
        own_tools: own_tools(&tools, &process),
        clients: Some(clients).filter(|_| config.gateway.enabled),
        chats: Some(chats).filter(|_| config.chat.enabled),
        museum: Some(museum).filter(|_| config.museum.enabled),
        admin: Some(Arc::new(admin)).filter(|_| config.admin.enabled),
        tasks: tasks.clone(),
    };
    let certificate = Certificate::load(&config.tls)?;
    let (server, address) = listening::listen(config, certificate.as_ref(), faces)?;
    cameras.are_at(pictures_at(config, address)?);
    let warms = warm(tts, phrases, ahead, supervisor.states().clone(), process);
    let follows = follow(registry, cluster.is_shared());
    tending.extend([warms, follows, in_step, visits, tokio::spawn(govern)]);
    tending.extend(certificate.map(|c| tokio::spawn(c.keep_fresh())));
    let places =
        [(places, config.server.max_connections), (text_places, config.gateway.max_connections)];
    Ok(Running { address, server, supervisor, places, tasks, tending, store, tools, cluster })
}

/// Creates the tracker of requests with side effects. When the server stops, they may run as long
/// as other requests.
fn tasks(config: &Config, process: &CancellationToken) -> Tasks {
    let grace = Duration::from_millis(config.server.shutdown_timeout_ms);
    Tasks::new(MAX_TASKS, grace, process.clone())
}

/// Collects the settings that can change at run time.
fn changing(
    device_endpoint: &DeviceEndpoint,
    clients: &TextClients,
    chats: &Chats,
    museum: &MuseumClients,
) -> Changing {
    let places = Arc::clone(&clients.places);
    Changing {
        dialogue: device_endpoint.pipeline.dialogue_settings().clone(),
        dialogue_of: |config| settings(config).dialogue,
        gateway: clients.desk.settings.clone(),
        gateway_idle: clients.desk.sessions.idle().clone(),
        chat: chats.desk.settings.clone(),
        museum: Arc::clone(&museum.museum),
        devices: device_endpoint.pipeline.device_registry().clone(),
        text_places: places,
    }
}

/// Loads the stored tool servers; with other instances (`others`), follows their changes.
fn follow(registry: Registry, others: bool) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        if others { registry.keep_in_step().await } else { registry.load().await }
    })
}

/// Starts the periodic upkeep of the metrics.
fn tidy(metrics: PrometheusHandle) -> tokio::task::JoinHandle<()> {
    tokio::spawn(telemetry::tidy(metrics))
}

/// Makes this instance's devices and tool clients reachable for other instances.
fn hold(cluster: &Cluster, device_endpoint: &DeviceEndpoint, tools: &Sources) {
    let device_registry = device_endpoint.pipeline.device_registry();
    cluster.hold(
        device_registry,
        Arc::new(tools.endpoint().clone()),
        http::order_handler(device_registry.clone()),
    );
}

/// Services behind the HTTP routes.
#[derive(Clone)]
struct Frontends {
    device_endpoint: DeviceEndpoint,
    health: Health,
    desk: Arc<ToolsApi>,
    own_tools: Arc<LiteMcp>,
    clients: Option<TextClients>,
    chats: Option<Chats>,
    museum: Option<MuseumClients>,
    admin: Option<Arc<Admin>>,
    tasks: Tasks,
}

impl Frontends {
    fn routes(self, services: &mut ServiceConfig) {
        if let Some(clients) = self.clients {
            http::gateway_routes(services, clients);
        }
        if let Some(chats) = self.chats {
            http::chat_routes(services, chats);
        }
        if let Some(clients) = self.museum {
            http::museum_routes(services, clients);
        }
        if let Some(admin) = self.admin {
            http::admin_routes(services, admin);
        }
        services.app_data(Data::new(self.tasks));
        services.app_data(Data::new(self.health.cluster.clone()));
        http::litemcp_routes(services, self.own_tools);
        http::routes(services, self.device_endpoint, self.health, self.desk);
    }
}

/// Creates the LiteMCP service of the built-in tools.
fn own_tools(tools: &Sources, process: &CancellationToken) -> Arc<LiteMcp> {
    Arc::new(LiteMcp::new(vec![Arc::new(tools.builtin().clone())], process.clone()))
}

/// Builds the ports that conversations use.
fn ports(
    config: &Config,
    tts: Arc<hearken_providers::tts::CachedTts>,
    tools: &Sources,
    cameras: &Cameras,
    desk: &ToolsApi,
    models: &Models,
) -> anyhow::Result<Ports> {
    Ok(Ports {
        asr: hearken_providers::asr(&config.asr)?,
        llm: models.spoken(config, "device", llm)?,
        tts,
        tools: tools.desk(),
        vision: Some(cameras.desk()),
        style: tools.styles(),
        now: local_time(config),
        describer: desk.describer(),
    })
}

/// Returns the CPU time of this process so far, for all its threads.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Returns a function for the local date and time to the minute, in the format for the model.
fn local_time(config: &Config) -> LocalTime {
    let zone = config.time_zone();
    Arc::new(move || {
        Timestamp::now().to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M %A %Q").to_string()
    })
}

/// Returns the settings of the language model. The embedded one always reads ahead, because it
/// keeps its prompts in a cache.
fn llm(config: &Config) -> LlmSettings {
    let read_ahead = config.llm.read_ahead || engines::think_here(config);
    LlmSettings { read_ahead, ..config.llm.clone() }
}

/// Returns the settings of the actors. The embedded model writes worse text when asked for an
/// emotion: it is not asked for one.
fn settings(config: &Config) -> PipelineSettings {
    let mut settings = config.pipeline();
    if engines::think_here(config) {
        settings.dialogue.emotion_prompt.clear();
        if !config.embedded.llm_tools {
            settings.tools.max_tools = 0;
        }
    }
    settings
}

/// Returns the numbers of threads for sockets and for audio. If encoding could use all cores,
/// packets would be sent late.
fn threads(config: &Config) -> (usize, usize) {
    let cores = cores();
    let or = |set: usize, else_: usize| if set == 0 { else_.max(1) } else { set };
    (or(config.server.workers, cores), or(config.server.audio_threads, cores * 2 / 3))
}

/// Creates a recorder that records every session into this folder; `None` if the folder is empty.
fn recorder(dir: &Path) -> anyhow::Result<Option<Arc<Recorder>>> {
    if dir.as_os_str().is_empty() {
        return Ok(None);
    }
    let recorder = Recorder::new(dir)
        .with_context(|| format!("`server.record_dir`: cannot record into {}", dir.display()))?;
    Ok(Some(Arc::new(recorder)))
}

/// Builds the access control. Creates the secrets that are needed and not configured.
fn access(config: &Config, store: Arc<dyn DeviceStore>) -> anyhow::Result<Arc<AccessControl>> {
    let auth = Auth::new(&config.auth, &config.server.host, &config.server.data_dir)?;
    Ok(Arc::new(AccessControl::new(auth, OtaRules::new(&config.ota)?, store)))
}

/// Builds everything for tools outside devices: their sources, the registry that changes them, the
/// state of their routes, and the camera instructions.
fn tools(
    config: &Config,
    store: Arc<dyn ToolStore>,
    process: &CancellationToken,
) -> anyhow::Result<(Sources, Registry, Arc<ToolsApi>, Cameras)> {
    let secret = http::secret(&config.auth, &config.server.data_dir)?;
    let vision = Vision::new(&config.vision)?;
    let environment = env::for_children(&ProcessEnv);
    let servers = Servers::start(&config.tools.servers, &environment, process)?;
    let timeout = Duration::from_millis(config.tools.endpoint_timeout_ms);
    let builtin = Builtin::new(&config.tools.builtin, &config.time_zone())?;
    let sources = Sources::new(builtin, servers, Endpoint::new(timeout));
    let agents = AgentTokens::new(&secret, &config.tools.revoked_tokens);
    let cameras = VisionTokens::new(&secret);
    let registry = Registry::new(sources.clone(), store, config.tools.allow_commands_over_api);
    let changes = registry.clone();
    let desk =
        ToolsApi::new(sources.clone(), changes, agents, cameras.clone(), vision, process.clone());
    Ok((sources, registry, Arc::new(desk), Cameras::new(cameras)))
}

/// Returns the URL to which devices upload pictures: the configured one, else one based on the
/// configured WebSocket address, else on this machine's own address.
fn pictures_at(config: &Config, address: SocketAddr) -> anyhow::Result<String> {
    if !config.vision.url.is_empty() {
        return Ok(config.vision.url.clone());
    }
    let socket = config.ota.websocket_url.as_str();
    let mut base = if socket.is_empty() {
        let ip = if address.ip().is_unspecified() { own_ip() } else { address.ip() };
        let scheme = if config.tls.is_on() { "https" } else { "http" };
        url::Url::parse(&format!("{scheme}://{}", SocketAddr::new(ip, address.port())))?
    } else {
        // Converts `ws` and `wss` to `http` and `https`.
        let http = socket.replacen("ws", "http", 1);
        url::Url::parse(&http).with_context(|| format!("`ota.websocket_url` is {socket}"))?
    };
    base.set_path(http::VISION_PATH);
    base.set_query(None);
    Ok(base.into())
}

/// Returns the address from which this machine would reach others. Sends no packet.
fn own_ip() -> IpAddr {
    let asked = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        // An address for documentation (RFC 5737): any foreign address works.
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    asked.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
}

impl Running {
    /// Returns the state of the engines.
    pub fn engines(&self) -> &EngineStates {
        self.supervisor.states()
    }

    /// Serves until the process's token is cancelled. Then ends the connections, the engines and
    /// the background tasks, and closes the store.
    ///
    /// # Errors
    /// The server failed.
    pub async fn serve(self) -> anyhow::Result<()> {
        let handle = self.server.handle();
        let ending = end(handle, self.places, self.tasks);
        let (served, ()) = tokio::join!(self.server, ending);
        self.tending.iter().for_each(tokio::task::JoinHandle::abort);
        tokio::join!(self.supervisor.stop(), self.tools.stop(), self.cluster.stop());
        if tokio::time::timeout(STORE_CLOSES, self.store.close()).await.is_err() {
            tracing::warn!("the store did not close in time");
        }
        served.context("the server failed")
    }
}

/// Waits for the shutdown, then for the end of all connections and of the requests with side
/// effects, with time limits. Connections end by their own tokens and release their slots. Requests
/// with side effects must end before their threads do.
async fn end(handle: ServerHandle, places: [(Arc<Semaphore>, usize); 2], tasks: Tasks) {
    tasks.process().cancelled().await;
    let begun = Instant::now();
    let all = async {
        for (places, connections) in &places {
            let all = places.acquire_many(u32::try_from(*connections).unwrap_or(u32::MAX)).await;
            // The semaphores are never closed.
            all.map(tokio::sync::SemaphorePermit::forget).unwrap_or_default();
        }
    };
    let closed = tokio::time::timeout(Duration::from_secs(2), all);
    let (ended, closed) =
        tokio::join!(async { tasks.ended().await.then(|| begun.elapsed()) }, closed);
    if closed.is_err() {
        tracing::warn!("some connections did not end in time");
    }
    if ended.is_none() {
        tracing::warn!("some requests did not end in time");
    }
    handle.stop(ended.is_some_and(|took| took < WAITED_ENOUGH)).await;
}

/// Builds the common beginning of all prompts: the tools that all devices have, and the
/// instructions.
fn opening(settings: &PipelineSettings, tools: &Sources, now: LocalTime) -> Prompt {
    let all: Vec<Arc<dyn ToolSource>> = vec![Arc::new(tools.builtin().clone())];
    let toolbox = Toolbox::new(all, Arc::new(Vec::new), settings.tools.clone());
    let tools = Arc::clone(toolbox.offer().tools());
    let dialogue =
        Dialogue::new(settings.dialogue.clone(), Arc::new(ConversationStyle::default), now);
    Prompt { tools, ..dialogue.opening() }
}

/// Once the engines are ready, synthesises the fixed phrases, to make apologies audible even when
/// the synthesiser is down, and lets the model read ahead.
fn warm(
    tts: Arc<hearken_providers::tts::CachedTts>,
    phrases: Vec<String>,
    ahead: BoxFuture<'static, ()>,
    engines: EngineStates,
    process: CancellationToken,
) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let work = async {
            while !engines.all_ready() {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            let phrases = async {
                while let Err(error) = tts.warm(&phrases).await {
                    tracing::warn!(%error, "cannot make the fixed phrases yet");
                    tokio::time::sleep(WARM_AGAIN).await;
                }
            };
            tokio::join!(phrases, ahead);
        };
        if process.run_until_cancelled(work).await.is_some() {
            tracing::debug!("the fixed phrases are ready");
        }
    })
}
