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
use hearken_actors::admission::cores;
use hearken_actors::dialogue::{ConversationStyle, Dialogue, LocalTime};
use hearken_actors::pipeline::{AudioPool, Pipeline, Ports};
use hearken_actors::ports::{Prompt, ToolSource};
use hearken_actors::settings::PipelineSettings;
use hearken_actors::tasks::Tasks;
use hearken_actors::tools::Toolbox;
use hearken_base::priority::give_way;
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

/// Wait before the fixed phrases are asked for again.
const WARM_AGAIN: Duration = Duration::from_secs(15);

/// Requests with effects that are carried out at once.
const MAX_TASKS: u32 = 4_096;

/// Who still asks without changing anything, once what has effects took this long to end, is not
/// waited for.
const WAITED_ENOUGH: Duration = Duration::from_secs(1);

/// Longest wait for the store to write out what it holds, at the end.
const STORE_CLOSES: Duration = Duration::from_secs(1);

/// A server that listens.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    server: Server,
    supervisor: Supervisor,
    /// The places of devices and of text clients, and how many there are.
    places: [(Arc<Semaphore>, usize); 2],
    /// Requests with effects, and the server's end.
    tasks: Tasks,
    /// What is done once, or now and again, beside serving.
    tending: Vec<tokio::task::JoinHandle<()>>,
    store: Arc<dyn DeviceStore>,
    tools: Sources,
    fleet: Cluster,
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
    let tts = hearken_providers::tts(&config.tts)?;
    let store = hearken_store::open(&config.store.url, &config.server.data_dir)?;
    let fleet = Cluster::start(&config.redis, &process)?;
    let (tools, registry, desk, cameras) = tools(config, Arc::clone(&store) as _, &process)?;
    let models = Models::default();
    let ports = ports(config, tts.clone(), &tools, &cameras, &desk, &models)?;
    let settings = settings(config);
    let (phrases, language) = (settings.phrases.all(), settings.dialogue.language);
    let ahead = ports.llm.read_ahead(opening(&settings, &tools, local_time(config)));
    let voices = AudioPool::new(threads(config).1, give_way);
    let places = Arc::new(Semaphore::new(config.server.max_connections));
    let doorman = DeviceEndpoint {
        pipeline: Pipeline::new(ports, settings, voices.clone(), process.clone()),
        places: Arc::clone(&places),
        recorder: recorder(&config.server.record_dir)?,
        door: door(config, Arc::clone(&store) as _)?,
        language,
    };
    hold(&fleet, &doorman, &tools);
    let govern = doorman.pipeline.admission().clone().govern(cpu_time, move || voices.busy());
    let supervisor = Supervisor::start(engines, &process);
    let (engines, metrics_shown) = (supervisor.states().clone(), metrics.clone());
    let (sight, kept) = (desk.sight(), Arc::clone(&store) as _);
    let clients = text_clients(config, (kept, &models), &tools, sight.clone(), &fleet, &process)?;
    let tasks = tasks(config, &process);
    let chats = chats(config, (Arc::clone(&store) as _, &models), &tools, sight, &fleet, &tasks)?;
    let museum = museum::museum(config, Arc::clone(&store) as _, &models, &fleet)?;
    let (visits, text_places) = (visits(&museum), Arc::clone(&clients.places));
    let changing = changing(&doorman, &clients, &chats, &museum);
    let admin = admin::admin(config, Arc::clone(&store) as _, models, changing)?;
    let mut tending = vec![sweep(&clients), purge(&chats), tidy(metrics)];
    let in_step = admin::keep_in_step(&admin);
    let faces = Frontends {
        doorman,
        health: Health::new(engines, metrics_shown, fleet.clone(), process.clone()),
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
    let follows = follow(registry, fleet.is_shared());
    tending.extend([warms, follows, in_step, visits, tokio::spawn(govern)]);
    tending.extend(certificate.map(|c| tokio::spawn(c.keep_fresh())));
    let places =
        [(places, config.server.max_connections), (text_places, config.gateway.max_connections)];
    Ok(Running { address, server, supervisor, places, tasks, tending, store, tools, fleet })
}

/// Requests with effects, which go on as long as requests do when the server stops.
fn tasks(config: &Config, process: &CancellationToken) -> Tasks {
    let grace = Duration::from_millis(config.server.shutdown_timeout_ms);
    Tasks::new(MAX_TASKS, grace, process.clone())
}

/// What changes with the settings.
fn changing(
    doorman: &DeviceEndpoint,
    clients: &TextClients,
    chats: &Chats,
    museum: &MuseumClients,
) -> Changing {
    let places = Arc::clone(&clients.places);
    Changing {
        dialogue: doorman.pipeline.dialogue_settings().clone(),
        dialogue_of: |config| settings(config).dialogue,
        gateway: clients.desk.settings.clone(),
        gateway_idle: clients.desk.sessions.idle().clone(),
        chat: chats.desk.settings.clone(),
        museum: Arc::clone(&museum.museum),
        devices: doorman.pipeline.roster().clone(),
        text_places: places,
    }
}

/// Takes over the tool servers that are kept; where others may change them, again and again.
fn follow(registry: Registry, others: bool) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        if others { registry.keep_in_step().await } else { registry.load().await }
    })
}

/// Sorts what was counted into its buckets, now and again.
fn tidy(metrics: PrometheusHandle) -> tokio::task::JoinHandle<()> {
    tokio::spawn(telemetry::tidy(metrics))
}

/// Lets other instances reach this one's devices and tool clients.
fn hold(fleet: &Cluster, doorman: &DeviceEndpoint, tools: &Sources) {
    let roster = doorman.pipeline.roster();
    fleet.hold(roster, Arc::new(tools.endpoint().clone()), http::order_handler(roster.clone()));
}

/// What the outside sees of the server.
#[derive(Clone)]
struct Frontends {
    doorman: DeviceEndpoint,
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
        services.app_data(Data::new(self.health.fleet.clone()));
        http::litemcp_routes(services, self.own_tools);
        http::routes(services, self.doorman, self.health, self.desk);
    }
}

/// The tools of this server itself, as LiteMCP clients find them.
fn own_tools(tools: &Sources, process: &CancellationToken) -> Arc<LiteMcp> {
    Arc::new(LiteMcp::new(vec![Arc::new(tools.builtin().clone())], process.clone()))
}

/// What conversations need of the outside.
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
        manner: tools.manners(),
        now: local_time(config),
        sight: desk.sight(),
    })
}

/// CPU time of this process so far, of all its threads.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The local date and time to the minute, as the model is told.
fn local_time(config: &Config) -> LocalTime {
    let zone = config.time_zone();
    Arc::new(move || {
        Timestamp::now().to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M %A %Q").to_string()
    })
}

/// How the model is asked; the embedded one keeps what it has read.
fn llm(config: &Config) -> LlmSettings {
    let read_ahead = config.llm.read_ahead || engines::think_here(config);
    LlmSettings { read_ahead, ..config.llm.clone() }
}

/// What the actors need. The embedded model loses its words over a face, so it is asked for none.
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

/// Threads for sockets and for speech. Where encoding may take all cores, packets leave late.
fn threads(config: &Config) -> (usize, usize) {
    let cores = cores();
    let or = |set: usize, else_: usize| if set == 0 { else_.max(1) } else { set };
    (or(config.server.workers, cores), or(config.server.audio_threads, cores * 2 / 3))
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
fn door(config: &Config, store: Arc<dyn DeviceStore>) -> anyhow::Result<Arc<AccessControl>> {
    let auth = Auth::new(&config.auth, &config.server.host, &config.server.data_dir)?;
    Ok(Arc::new(AccessControl::new(auth, OtaRules::new(&config.ota)?, store)))
}

/// Tools outside devices: their sources, what changes them, the routes about them, and where
/// cameras send pictures.
fn tools(
    config: &Config,
    store: Arc<dyn ToolStore>,
    process: &CancellationToken,
) -> anyhow::Result<(Sources, Registry, Arc<ToolsApi>, Cameras)> {
    let secret = http::secret(&config.auth, &config.server.data_dir)?;
    let vision = Vision::new(&config.vision)?;
    let environment = env::for_children(&ProcessEnv);
    let remotes = Servers::start(&config.tools.servers, &environment, process)?;
    let builtin = Builtin::new(&config.tools.builtin, &config.time_zone())?;
    let sources = Sources::new(builtin, remotes, Endpoint::new(config.tools.endpoint_timeout));
    let agents = AgentTokens::new(&secret, &config.tools.revoked_tokens);
    let cameras = VisionTokens::new(&secret);
    let registry = Registry::new(sources.clone(), store, config.tools.allow_commands_over_api);
    let changes = registry.clone();
    let desk =
        ToolsApi::new(sources.clone(), changes, agents, cameras.clone(), vision, process.clone());
    Ok((sources, registry, Arc::new(desk), Cameras::new(cameras)))
}

/// Where devices send pictures: as configured, else where they find the server's socket, else at
/// this machine's own address.
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
        // `ws` and `wss` become `http` and `https`.
        let http = socket.replacen("ws", "http", 1);
        url::Url::parse(&http).with_context(|| format!("`ota.websocket_url` is {socket}"))?
    };
    base.set_path(http::VISION_PATH);
    base.set_query(None);
    Ok(base.into())
}

/// The address of this machine from which it would reach others; no packet is sent.
fn own_ip() -> IpAddr {
    let asked = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        // An address for documentation (RFC 5737): any that is not ours will do.
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    asked.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
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
        let ending = end(handle, self.places, self.tasks);
        let (served, ()) = tokio::join!(self.server, ending);
        self.tending.iter().for_each(tokio::task::JoinHandle::abort);
        tokio::join!(self.supervisor.stop(), self.tools.stop(), self.fleet.stop());
        if tokio::time::timeout(STORE_CLOSES, self.store.close()).await.is_err() {
            tracing::warn!("the store did not close in time");
        }
        served.context("the server failed")
    }
}

/// Sockets hear of the end by their tokens; those that are gone give their places back. What has
/// begun to change something ends before the threads do that it runs on.
async fn end(handle: ServerHandle, places: [(Arc<Semaphore>, usize); 2], tasks: Tasks) {
    tasks.process().cancelled().await;
    let begun = Instant::now();
    let all = async {
        for (places, connections) in &places {
            let all = places.acquire_many(u32::try_from(*connections).unwrap_or(u32::MAX)).await;
            // Nobody closes them.
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

/// What every prompt begins with: the tools that all devices have, and how to behave.
fn opening(settings: &PipelineSettings, tools: &Sources, now: LocalTime) -> Prompt {
    let all: Vec<Arc<dyn ToolSource>> = vec![Arc::new(tools.builtin().clone())];
    let toolbox = Toolbox::new(all, Arc::new(Vec::new), settings.tools.clone());
    let tools = Arc::clone(toolbox.offer().tools());
    let dialogue =
        Dialogue::new(settings.dialogue.clone(), Arc::new(ConversationStyle::default), now);
    Prompt { tools, ..dialogue.opening() }
}

/// When the engines are ready, makes the audio of the fixed phrases, so that an apology is heard
/// even when the synthesiser is down, and lets the model read ahead.
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
