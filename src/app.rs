//! The composition root: the only place that knows all concrete types. Builds `parts` once,
//! `frontends` from them, and then opens the port.

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
mod parts;
mod probing;
mod rules;
pub mod service_check;
mod verify;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::{Server, ServerHandle};
use anyhow::Context as _;
use hearken_actors::settings::PipelineSettings;
use hearken_base::slots::Slots;
use hearken_base::tasks::Tasks;
use hearken_chat::ChatService;
use hearken_cluster::Cluster;
use hearken_dialogue::LocalTime;
use hearken_dialogue::admission::cores;
use hearken_engines::supervise::{Engine, EngineStates, Supervisor};
use hearken_ports::store::DeviceStore;
use hearken_providers::LlmSettings;
use hearken_tool_sources::{Registry, Sources};
use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::background::WarmUp;
use self::frontends::Frontends;
use self::own_address::upload_url;
use self::parts::{Parts, Records};
use crate::admin::RuntimeSettings;
use crate::config::{Config, TlsConfig};
use crate::liveness::Liveness;
use crate::tls::Certificate;
use crate::{engines, http, self_signed};

pub use self::data_folder::upgrade_store;
pub use self::rules::prepare as prepare_rules;
pub use self::verify::verify;

/// Shutdown time after which the server no longer waits for read-only requests: if requests with
/// side effects took at least this long to end, it stops without waiting for the rest.
const WAITED_ENOUGH: Duration = Duration::from_secs(1);

/// Maximum wait at startup for the first reading of the store. Until it was read, conversations
/// have only the tools that the store cannot withhold, and each call asks for consent. A store that
/// refuses connections costs no wait, and one on a busy machine may take a second.
const STORE_READ: Duration = Duration::from_secs(5);

/// Maximum wait at shutdown for the store to write its data.
const STORE_CLOSES: Duration = Duration::from_secs(1);

/// Running server.
pub struct Running {
    /// Address on which it listens.
    pub address: SocketAddr,
    server: Server,
    supervisor: Supervisor,
    /// Connection slots of devices and of text clients.
    connection_slots: [Slots; 3],
    /// Requests with side effects in progress, and the server's shutdown token.
    tasks: Tasks,
    /// Background tasks, aborted when serving ends.
    background: Vec<tokio::task::JoinHandle<()>>,
    records: Records,
    store: Arc<dyn DeviceStore>,
    chats: ChatService,
    tools: Sources,
    registry: Registry,
    settings: Arc<RuntimeSettings>,
    cluster: Cluster,
    liveness: Liveness,
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
    let parts = Parts::build(config, process)?;
    let frontends = Frontends::build(&parts)?;
    join_cluster(&parts, &frontends);
    let certificate = Certificate::load(&certificate_files(config)?)?;
    let supervisor = Supervisor::start(engines, &parts.process);
    let states = supervisor.states().clone();
    let warm_up = WarmUp::new(&parts);
    let health = parts.health(states.clone(), &frontends.chats.service, warm_up.is_done());
    let mut background = background::start(&parts, &frontends, certificate.as_ref())?;
    background.push(warm_up.spawn(states.clone(), parts.process.clone()));
    background.push(tokio::spawn(parts.services().keep_probing(states, parts.process.clone())));
    exposure::log_exposure(config);
    let devices = &frontends.devices;
    let connection_slots =
        [&devices.connection_slots, &devices.notice_slots, &frontends.clients.connection_slots]
            .map(Slots::clone);
    let chats = frontends.chats.service.clone();
    let settings = Arc::clone(&frontends.admin.settings);
    let routes = frontends.routes(&parts, health);
    let (server, address, liveness) = listening::listen(config, certificate.as_ref(), routes)?;
    parts.tooling.cameras.set_address(upload_url(config, address)?);
    Ok(Running {
        address,
        server,
        supervisor,
        connection_slots,
        tasks: parts.tasks,
        background,
        records: parts.records,
        store: parts.store,
        chats,
        tools: parts.tooling.sources,
        registry: parts.tooling.registry,
        settings,
        cluster: parts.cluster,
        liveness,
    })
}

/// Makes the devices and tool clients of this instance reachable by other instances.
fn join_cluster(parts: &Parts<'_>, frontends: &Frontends) {
    let device_registry = frontends.devices.pipeline.device_registry();
    parts.cluster.announce(
        Arc::new(device_registry.clone()),
        Arc::new(parts.tooling.sources.endpoint().clone()),
        http::order_handler(device_registry.clone(), parts.tooling.registry.clone()),
    );
}

/// Returns the certificate files; creates them if the server signs its own certificate.
fn certificate_files(config: &Config) -> anyhow::Result<TlsConfig> {
    if config.tls.has_certificate() || !config.tls.self_signed {
        return Ok(config.tls.clone());
    }
    let configured = config.http.host_names.iter().filter(|name| *name != "*").cloned();
    let names = self_signed::names(&configured.collect::<Vec<_>>(), own_address::own_ip());
    self_signed::ensure(&config.server.data_dir, &names).context("`tls.self_signed`")
}

/// Returns a function for the local date and time to the minute, in the format used in prompts.
fn local_time(config: &Config) -> LocalTime {
    let zone = config.time_zone();
    Arc::new(move || {
        Timestamp::now().to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M %A %Q").to_string()
    })
}

/// Returns the settings of the language model. The embedded model always prefetches, because it caches its prompts.
fn llm(config: &Config) -> LlmSettings {
    let prefetch = config.llm.prefetch || engines::uses_embedded_llm(config);
    LlmSettings { prefetch, ..config.llm.clone() }
}

/// Returns the settings of the actors. The embedded model writes worse text if asked for an
/// emotion, so it is not asked for one.
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

impl Running {
    /// Returns the state of the engines.
    pub fn engines(&self) -> &EngineStates {
        self.supervisor.states()
    }

    /// Returns the liveness marks of the serving threads.
    pub fn liveness(&self) -> Liveness {
        self.liveness.clone()
    }

    /// Serves until the process's token is cancelled, once the store was read or cannot be. Then ends
    /// the connections, the engines and the background tasks, and closes the store.
    ///
    /// # Errors
    /// The server failed.
    pub async fn serve(self) -> anyhow::Result<()> {
        let handle = self.server.handle();
        let process = self.tasks.process().clone();
        let ending = end(handle, self.connection_slots, self.tasks);
        let serving = async {
            // Connections wait in the queue of the port.
            tokio::join!(
                self.registry.wait_for_store(STORE_READ),
                self.settings.wait_for_store(STORE_READ),
            );
            self.server.await
        };
        let (served, ()) = tokio::join!(serving, ending);
        let rest = self.records.history.store_rest(&process);
        if tokio::time::timeout(STORE_CLOSES, rest).await.is_err() {
            tracing::warn!("the history did not store the last turns in time");
        }
        if !matches!(
            tokio::time::timeout(STORE_CLOSES, self.records.usage.save()).await,
            Ok(Ok(()))
        ) {
            tracing::warn!("the usage of the last seconds was not stored");
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

/// Waits for the shutdown, then for all connections and all requests with side effects to end, with
/// time limits. Connections end by their own tokens and release their slots. Requests with side
/// effects must end before their threads do.
async fn end(handle: ServerHandle, connection_slots: [Slots; 3], tasks: Tasks) {
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
