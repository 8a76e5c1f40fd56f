//! The composition root: the one place where concrete types meet.

mod admin;
mod background;
mod connections;
mod data_folder;
mod devices;
mod exposure;
mod frontends;
mod listening;
mod models;
mod museum;
mod own_address;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::{Server, ServerHandle};
use anyhow::Context as _;
use hearken_actors::pipeline::{AudioPool, Ports};
use hearken_actors::settings::PipelineSettings;
use hearken_base::priority::lower_priority;
use hearken_base::slots::Slots;
use hearken_base::tasks::Tasks;
use hearken_chat::ChatService;
use hearken_cluster::Cluster;
use hearken_dialogue::LocalTime;
use hearken_dialogue::admission::cores;
use hearken_dialogue::people::People;
use hearken_dialogue::turn_trace::TurnJournal;
use hearken_dialogue::usage::UsageMeter;
use hearken_engines::supervise::{Engine, EngineStates, Supervisor};
use hearken_ports::store::{DeviceStore, ToolStore};
use hearken_ports::{Asr, Tts};
use hearken_providers::tts::CachedTts;
use hearken_providers::{CallLog, DEVICE_FACE, LlmSettings, Vision};
use hearken_store::SqlStore;
use hearken_tool_sources::{
    AgentTokens, Builtin, Cameras, Endpoint, Registry, Servers, Sources, VisionTokens,
};
use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::admin::Changing;
use self::background::WarmUp;
use self::devices::build_devices;
use self::frontends::{build_chats, build_text_clients, frontends, patient};
use self::models::Models;
use self::own_address::upload_url;
use crate::config::{Config, ProcessEnv, TlsConfig, env};
use crate::history::History;
use crate::history::trial::Trials;
use crate::http::{
    self, Admin, Backups, Chats, Dependencies, DeviceEndpoint, Health, MuseumClients, Persons,
    TextClients, ToolsApi,
};
use crate::liveness::Liveness;
use crate::service_tests::ServiceTests;
use crate::tls::Certificate;
use crate::trace_export::TraceExporter;
use crate::usage::DailyUsage;
use crate::{engines, self_signed, telemetry};

pub use self::data_folder::upgrade_store;

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
    /// Connection slots of devices and of text clients.
    connection_slots: [Slots; 2],
    /// Running requests with side effects, and the server's shutdown token.
    tasks: Tasks,
    /// Background tasks, aborted when serving ends.
    background: Vec<tokio::task::JoinHandle<()>>,
    records: Records,
    store: Arc<dyn DeviceStore>,
    chats: ChatService,
    tools: Sources,
    cluster: Cluster,
    liveness: Liveness,
}

/// Dependencies that several frontends share.
struct Shared<'a> {
    config: &'a Config,
    models: &'a Models,
    tooling: &'a Tooling,
    cluster: &'a Cluster,
    tasks: &'a Tasks,
    process: &'a CancellationToken,
    people: People,
    records: Records,
}

/// What is known of turns beyond them.
#[derive(Clone)]
struct Records {
    turn_journal: TurnJournal,
    history: History,
    usage: DailyUsage,
}

/// Frontends other than devices, built whether they are enabled or not: settings can be changed
/// before a restart enables them.
struct Services {
    clients: TextClients,
    chats: Chats,
    museum: MuseumClients,
    admin: Arc<Admin>,
    persons: Arc<Persons>,
    trials: Trials,
    service_tests: Arc<ServiceTests>,
    backups: Arc<Backups>,
}

/// Builds everything from the configuration and starts to listen. Needs an actix system; ends
/// with `process`.
///
/// # Errors
/// A setting is invalid, or an address is in use.
pub fn start(
    config: &Config,
    engines: Vec<Engine>,
    process: CancellationToken,
) -> anyhow::Result<Running> {
    let metrics = telemetry::metrics()?;
    let store = data_folder::open_store(config)?;
    let cluster = Cluster::start(&config.redis, &process)?;
    let tooling = build_tooling(config, Arc::clone(&store) as _, &process)?;
    let models = Models::new(CallLog::new(config.journal.words));
    let tasks = tasks(config, &process);
    let tts = hearken_providers::tts(&config.tts, models.calls())?;
    let people = people(config, &store)?;
    let ports = build_ports(config, tts.clone(), &people, &tooling, &models)?;
    let dependencies = Dependencies::new(&ports, Arc::clone(&store) as _);
    let warm_up = WarmUp::new(config, tts, &ports, &tooling.sources);
    let pool = AudioPool::new(threads(config).1, lower_priority);
    let records = records(config, &store, &cluster);
    let traces = TraceExporter::new(&config.traces, &records.turn_journal)?;
    let speech = (Arc::clone(&ports.asr), Arc::clone(&ports.tts));
    let models = &models;
    let tooling = &tooling;
    let cluster = &cluster;
    let tasks = &tasks;
    let process = &process;
    let shared = Shared { config, models, tooling, cluster, tasks, process, people, records };
    let devices = build_devices(&shared, ports, pool.clone(), Arc::clone(&store) as _)?;
    join_cluster(cluster, &devices, &tooling.sources);
    let services = build_services(&shared, &store, &devices, speech)?;
    let certificate = Certificate::load(&certificate_files(config)?)?;
    let supervisor = Supervisor::start(engines, process);
    let states = supervisor.states().clone();
    let chats = services.chats.service.clone();
    let govern = devices.pipeline.admission().clone().govern(cpu_time, move || pool.busy());
    let mut background = background::spawn_periodic(config, &services, certificate.as_ref());
    background.push(background::follow_tool_servers(tooling.registry.clone(), cluster.is_shared()));
    let warm = warm_up.is_done();
    background.push(warm_up.spawn(states.clone(), process.clone()));
    background.extend([tokio::spawn(telemetry::maintain(metrics.clone())), tokio::spawn(govern)]);
    background.extend(background::keep_records(&shared.records, process));
    background.extend(traces.map(|traces| tokio::spawn(traces.run(process.clone()))));
    let slots = [&devices.connection_slots, &services.clients.connection_slots].map(Slots::clone);
    let dependencies = dependencies.with_state_server(chats.state.clone());
    let dependencies = dependencies.with_warm_up(warm);
    let health = Health::new(states, metrics, cluster.clone(), dependencies, process.clone());
    let frontends = frontends(&shared, devices, services, health);
    exposure::log_exposure(config);
    let (server, address, liveness) = listening::listen(config, certificate.as_ref(), frontends)?;
    tooling.cameras.set_address(upload_url(config, address)?);
    Ok(Running {
        address,
        server,
        supervisor,
        connection_slots: slots,
        tasks: tasks.clone(),
        background,
        records: shared.records.clone(),
        store,
        chats,
        tools: tooling.sources.clone(),
        cluster: cluster.clone(),
        liveness,
    })
}

/// Builds text clients, applications, museum clients and the administrator, each over its port of
/// the store.
fn build_services(
    shared: &Shared<'_>,
    store: &Arc<SqlStore>,
    devices: &DeviceEndpoint,
    (asr, tts): (Arc<dyn Asr>, Arc<dyn Tts>),
) -> anyhow::Result<Services> {
    let clients = build_text_clients(shared, Arc::clone(store) as _)?;
    let chats = build_chats(shared, Arc::clone(store) as _)?;
    let museum = museum::build_museum(shared, Arc::clone(store) as _)?;
    let trials = Trials::new(
        shared.models.patient(shared.config, "trial", patient)?,
        devices.pipeline.dialogue_settings().clone(),
        local_time(shared.config),
        shared.records.usage.meter().clone(),
    );
    let language = shared.config.dialogue.language;
    let service_tests = Arc::new(ServiceTests::new(asr, tts, trials.clone(), language));
    let changing = changing(shared, devices, &clients, &chats, &museum);
    let settings = Arc::clone(store) as _;
    let admin = Arc::new(admin::build_admin(shared.config, settings, shared.models, changing)?);
    let persons = Arc::new(Persons::new(shared.people.clone(), Arc::clone(store) as _));
    let url = shared.config.store.url.clone();
    let folder = shared.config.server.data_dir.clone();
    let backups = Arc::new(Backups::new(url, folder, Arc::clone(store) as _));
    Ok(Services { clients, chats, museum, admin, persons, trials, service_tests, backups })
}

/// Creates the tracker of requests with side effects. When the server stops, they may run as long
/// as other requests.
fn tasks(config: &Config, process: &CancellationToken) -> Tasks {
    let grace = Duration::from_millis(config.server.shutdown_timeout_ms);
    Tasks::new(MAX_TASKS, grace, process.clone())
}

/// Collects the settings that can change at run time.
fn changing(
    shared: &Shared<'_>,
    device_endpoint: &DeviceEndpoint,
    clients: &TextClients,
    chats: &Chats,
    museum: &MuseumClients,
) -> Changing {
    Changing {
        dialogue: device_endpoint.pipeline.dialogue_settings().clone(),
        dialogue_of: |config| settings(config).dialogue,
        tool_policies: shared.tooling.api.policies().clone(),
        gateway: clients.service.settings.clone(),
        gateway_idle: clients.service.sessions.idle().clone(),
        chat: chats.service.settings.clone(),
        museum: Arc::clone(&museum.museum),
        history: shared.records.history.clone(),
        usage: shared.records.usage.meter().clone(),
        devices: device_endpoint.pipeline.device_registry().clone(),
        text_slots: clients.connection_slots.clone(),
    }
}

/// Makes the devices and tool clients of this instance reachable by other instances.
fn join_cluster(cluster: &Cluster, device_endpoint: &DeviceEndpoint, tools: &Sources) {
    let device_registry = device_endpoint.pipeline.device_registry();
    cluster.announce(
        Arc::new(device_registry.clone()),
        Arc::new(tools.endpoint().clone()),
        http::order_handler(device_registry.clone()),
    );
}

/// Returns the files of the certificate; makes them where the server is to sign its own.
fn certificate_files(config: &Config) -> anyhow::Result<TlsConfig> {
    if config.tls.has_certificate() || !config.tls.self_signed {
        return Ok(config.tls.clone());
    }
    let configured = config.http.host_names.iter().filter(|name| *name != "*").cloned();
    let names = self_signed::names(&configured.collect::<Vec<_>>(), own_address::own_ip());
    self_signed::ensure(&config.server.data_dir, &names).context("`tls.self_signed`")
}

/// Returns the people whose voices are known. Without a model of voices nobody is recognised.
fn people(config: &Config, store: &Arc<SqlStore>) -> anyhow::Result<People> {
    let embedder = engines::speaker_embedder(config)?;
    Ok(People::new(Arc::clone(store) as _, embedder, config.speakers.clone()))
}

/// Creates the journal of turns, their history, and the count of what they use.
fn records(config: &Config, store: &Arc<SqlStore>, cluster: &Cluster) -> Records {
    let turn_journal = TurnJournal::new(config.journal.clone());
    let history =
        History::new(Arc::clone(store) as _, config.history.clone(), turn_journal.clone());
    let zone = config.time_zone();
    let today = move || Timestamp::now().to_zoned(zone.clone()).date();
    let meter = UsageMeter::new(config.usage.clone(), today);
    turn_journal.count_with(meter.clone());
    let usage = DailyUsage::new(meter, Arc::clone(store) as _, cluster.is_shared());
    Records { turn_journal, history, usage }
}

/// Builds the ports of conversations.
fn build_ports(
    config: &Config,
    tts: Arc<CachedTts>,
    people: &People,
    tooling: &Tooling,
    models: &Models,
) -> anyhow::Result<Ports> {
    Ok(Ports {
        asr: models.calls().asr(hearken_providers::asr(&config.asr)?),
        llm: models.spoken(config, DEVICE_FACE, llm)?,
        tts,
        turn_detector: engines::turn_detector(config)?,
        people: people.recognises().then(|| people.clone()),
        tools: tooling.sources.lookup(),
        vision: Some(tooling.cameras.lookup()),
        style: tooling.sources.styles(),
        roles: tooling.sources.roles(),
        now: local_time(config),
        describer: tooling.api.describer(),
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
    let read_ahead = config.llm.read_ahead || engines::uses_embedded_llm(config);
    LlmSettings { read_ahead, ..config.llm.clone() }
}

/// Returns the settings of the actors. The embedded model writes worse text when asked for an
/// emotion: it is not asked for one.
fn settings(config: &Config) -> PipelineSettings {
    let mut settings = config.pipeline();
    if engines::uses_embedded_llm(config) {
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

/// Tools outside devices.
struct Tooling {
    sources: Sources,
    /// Registry that adds, changes and removes tool servers.
    registry: Registry,
    /// State of the routes about tools.
    api: Arc<ToolsApi>,
    /// Upload address and tokens of devices' cameras.
    cameras: Cameras,
}

/// Builds the sources of tools outside devices, and connects to the configured servers.
fn build_tooling(
    config: &Config,
    store: Arc<dyn ToolStore>,
    process: &CancellationToken,
) -> anyhow::Result<Tooling> {
    let secret = http::secret(&config.auth, &config.server.data_dir)?;
    let vision = Vision::new(&config.vision)?;
    let environment = env::for_tool_servers(&ProcessEnv);
    let remotes = Servers::start(&config.tools.servers, &environment, process)?;
    let builtin = Builtin::new(&config.tools.builtin, &config.time_zone())?;
    let sources = Sources::new(builtin, remotes, Endpoint::new(config.tools.endpoint_timeout));
    let agents = AgentTokens::new(&secret, &config.tools.revoked_tokens);
    let tokens = VisionTokens::new(&secret);
    let registry = Registry::new(sources.clone(), store, config.tools.allow_commands_over_api);
    let changes = registry.clone();
    let process = process.clone();
    let api = ToolsApi::new(
        sources.clone(),
        changes,
        (agents, tokens.clone()),
        vision,
        config.tools.policies(),
        config.http.address_percent,
        process,
    );
    Ok(Tooling { sources, registry, api: Arc::new(api), cameras: Cameras::new(tokens) })
}

impl Running {
    /// Returns the state of the engines.
    pub fn engines(&self) -> &EngineStates {
        self.supervisor.states()
    }

    /// Returns the marks of the threads that serve.
    pub fn liveness(&self) -> Liveness {
        self.liveness.clone()
    }

    /// Serves until the process's token is cancelled. Then ends the connections, the engines and
    /// the background tasks, and closes the store.
    ///
    /// # Errors
    /// The server failed.
    pub async fn serve(self) -> anyhow::Result<()> {
        let handle = self.server.handle();
        let process = self.tasks.process().clone();
        let ending = end(handle, self.connection_slots, self.tasks);
        let (served, ()) = tokio::join!(self.server, ending);
        let rest = self.records.history.store_rest(&process);
        if tokio::time::timeout(STORE_CLOSES, rest).await.is_err() {
            tracing::warn!("the history did not store the last turns in time");
        }
        if !matches!(
            tokio::time::timeout(STORE_CLOSES, self.records.usage.save()).await,
            Ok(Ok(()))
        ) {
            tracing::warn!("what was used in the last seconds was not stored");
        }
        self.background.iter().for_each(tokio::task::JoinHandle::abort);
        tokio::join!(self.supervisor.stop(), self.tools.stop(), self.cluster.stop());
        let closing = async {
            self.chats.remove_published().await;
            self.store.close().await;
        };
        if tokio::time::timeout(STORE_CLOSES, closing).await.is_err() {
            tracing::warn!("the store did not close in time");
        }
        served.context("the server failed")
    }
}

/// Waits for the shutdown, then for the end of all connections and of the requests with side
/// effects, with time limits. Connections end by their own tokens and release their slots. Requests
/// with side effects must end before their threads do.
async fn end(handle: ServerHandle, connection_slots: [Slots; 2], tasks: Tasks) {
    tasks.process().cancelled().await;
    let begun = Instant::now();
    let all = async {
        for slots in &connection_slots {
            slots.drain().await;
        }
    };
    let closed = tokio::time::timeout(Duration::from_secs(2), all);
    let (ended, closed) =
        tokio::join!(async { tasks.drain().await.then(|| begun.elapsed()) }, closed);
    if closed.is_err() {
        tracing::warn!("some connections did not close in time");
    }
    if ended.is_none() {
        tracing::warn!("some requests did not end in time");
    }
    handle.stop(ended.is_some_and(|took| took < WAITED_ENOUGH)).await;
}
