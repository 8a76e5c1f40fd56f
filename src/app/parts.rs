//! Parts that all frontends share, each built once: store, cluster, tools, models, people, records.
//! Not for the frontends, which borrow them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hearken_actors::pipeline::{AudioPool, Ports};
use hearken_base::memory_pool::MemoryPool;
use hearken_base::priority::lower_priority;
use hearken_base::reloadable::Reloadable;
use hearken_base::tasks::Tasks;
use hearken_chat::ChatService;
use hearken_cluster::Cluster;
use hearken_dialogue::people::People;
use hearken_dialogue::recent_words::RecentWords;
use hearken_dialogue::tools::ToolPolicies;
use hearken_dialogue::turn_rate::TurnRates;
use hearken_dialogue::turn_trace::TurnJournal;
use hearken_dialogue::usage::UsageMeter;
use hearken_engines::supervise::EngineStates;
use hearken_providers::tts::CachedTts;
use hearken_providers::{CallLog, DEVICE_FRONTEND, ModelEnd, Vision};
use hearken_store::SqlStore;
use hearken_tool_sources::{
    AgentTokens, Builtin, Cameras, Endpoint, Registry, Servers, Sources, VisionTokens,
};
use jiff::Timestamp;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::sync::CancellationToken;

use super::models::Models;
use super::probing::Services;
use super::rules::{self, Frontend};
use super::{data_folder, llm, local_time, threads};
use crate::config::{Config, ProcessEnv, env};
use crate::history::History;
use crate::http::{self, Dependencies, Health, ToolTokens, ToolsApi};
use crate::usage::DailyUsage;
use crate::{engines, telemetry};

/// Maximum number of concurrent requests with side effects.
const MAX_TASKS: u32 = 4_096;

/// Parts of the server.
pub(super) struct Parts<'a> {
    pub(super) config: &'a Config,
    /// Cancelled when the server ends.
    pub(super) process: CancellationToken,
    pub(super) metrics: PrometheusHandle,
    pub(super) store: Arc<SqlStore>,
    pub(super) cluster: Cluster,
    pub(super) tooling: Tooling,
    pub(super) models: Models,
    /// Models in use whose vendor has announced their end of life.
    pub(super) model_ends: Reloadable<Vec<ModelEnd>>,
    /// Requests with side effects.
    pub(super) tasks: Tasks,
    pub(super) people: People,
    pub(super) records: Records,
    /// Synthesiser with a cache of the fixed phrases.
    pub(super) tts: Arc<CachedTts>,
    /// Ports of devices' conversations.
    pub(super) ports: Ports,
    /// Turn rates of devices and text clients.
    pub(super) rates: TurnRates,
    /// Budget of memory held for peers.
    pub(super) memory_pool: MemoryPool,
    /// Threads that encode speech.
    pub(super) audio_pool: AudioPool,
}

/// Turn records that outlive the turn: journal, history, recent words, usage.
#[derive(Clone)]
pub(super) struct Records {
    pub(super) turn_journal: TurnJournal,
    pub(super) history: History,
    /// Words of the last turns of devices, for rules about people in danger.
    pub(super) recent_words: RecentWords,
    pub(super) usage: DailyUsage,
}

/// Tools outside devices.
pub(super) struct Tooling {
    pub(super) sources: Sources,
    /// Registry that adds, changes and removes tool servers.
    pub(super) registry: Registry,
    /// State of the tool routes.
    pub(super) api: Arc<ToolsApi>,
    /// Upload address and tokens of devices' cameras.
    pub(super) cameras: Cameras,
}

impl<'a> Parts<'a> {
    /// Builds them from the configuration.
    pub(super) fn build(config: &'a Config, process: CancellationToken) -> anyhow::Result<Self> {
        let metrics = telemetry::metrics()?;
        let store = data_folder::open_store(config)?;
        let cluster = Cluster::start(&config.redis, &process)?;
        let tooling = Tooling::build(config, &store, &process)?;
        let models = Models::new(CallLog::new(config.journal.words));
        let embedder = engines::speaker_embedder(config)?;
        let people = People::new(Arc::clone(&store) as _, embedder, config.speakers.clone());
        let model_ends = models.ends(config);
        let today = Timestamp::now().to_zoned(config.time_zone()).date();
        model_ends.get().iter().for_each(|end| end.warn(today));
        let tts = hearken_providers::tts(&config.tts, models.calls())?;
        let ports = Ports {
            asr: models.calls().asr(hearken_providers::asr(&config.asr)?),
            llm: rules::before(
                models.spoken(config, DEVICE_FRONTEND, llm)?,
                config,
                Frontend::Devices,
            )?,
            tts: Arc::clone(&tts) as _,
            turn_detector: engines::turn_detector(config)?,
            // Without a speaker embedder, people are not recognised.
            people: people.recognises().then(|| people.clone()),
            tools: tooling.sources.lookup(),
            vision: Some(tooling.cameras.lookup()),
            style: tooling.sources.styles(),
            roles: tooling.sources.roles(),
            now: local_time(config),
            describer: tooling.api.describer(),
        };
        let records = Records::build(config, &store, &cluster, models.calls().clone());
        // At shutdown, they get as much time as other requests.
        let grace = Duration::from_millis(config.server.shutdown_timeout_ms);
        let tasks = Tasks::new(MAX_TASKS, grace, process.clone());
        let audio_pool = AudioPool::new(threads(config).1, lower_priority);
        Ok(Self {
            config,
            process,
            metrics,
            store,
            cluster,
            tooling,
            models,
            model_ends,
            tasks,
            people,
            records,
            tts,
            rates: TurnRates::new(&config.admission),
            memory_pool: MemoryPool::default(),
            ports,
            audio_pool,
        })
    }

    /// Returns the services of devices' conversations.
    pub(super) fn services(&self) -> Services {
        let Ports { asr, llm, tts, .. } = self.ports.clone();
        Services { asr, llm, tts }
    }

    /// Builds the state of the health and metrics routes.
    pub(super) fn health(
        &self,
        states: EngineStates,
        chats: &ChatService,
        is_warm: Arc<AtomicBool>,
    ) -> Health {
        let dependencies = Dependencies::new(&self.ports, Arc::clone(&self.store) as _)
            .with_model_ends(self.model_ends.clone())
            .with_state_server(chats.state.clone())
            .with_warm_up(is_warm);
        let metrics = self.metrics.clone();
        Health::new(states, metrics, self.cluster.clone(), dependencies, self.process.clone())
    }
}

impl Records {
    fn build(config: &Config, store: &Arc<SqlStore>, cluster: &Cluster, calls: CallLog) -> Self {
        let turn_journal = TurnJournal::new(config.journal.clone());
        let recent_words = RecentWords::default();
        let history = History::new(
            Arc::clone(store) as _,
            config.history.clone(),
            turn_journal.clone(),
            calls,
        )
        .with_recent_words(recent_words.clone());
        let zone = config.time_zone();
        let of_day = zone.clone();
        let today = move || Timestamp::now().to_zoned(of_day.clone()).date();
        let meter = UsageMeter::new(config.usage.clone(), today);
        turn_journal.count_with(meter.clone());
        let usage = DailyUsage::new(meter, Arc::clone(store) as _, zone, cluster.is_shared());
        Self { turn_journal, history, recent_words, usage }
    }
}

impl Tooling {
    /// Builds the sources of tools outside devices, and connects to the configured servers.
    fn build(
        config: &Config,
        store: &Arc<SqlStore>,
        process: &CancellationToken,
    ) -> anyhow::Result<Self> {
        let secret = http::secret(&config.auth, &config.server.data_dir)?;
        let vision = Vision::new(&config.vision)?;
        let environment = env::for_tool_servers(&ProcessEnv);
        let remotes = Servers::start(&config.tools.servers, &environment, process)?;
        let builtin = Builtin::new(&config.tools.builtin, &config.time_zone())?;
        let sources = Sources::new(builtin, remotes, Endpoint::new(config.tools.endpoint_timeout));
        let agents = AgentTokens::new(&secret, &config.tools.revoked_tokens);
        let tokens = VisionTokens::new(&secret);
        let store = Arc::clone(store) as _;
        let registry = Registry::new(sources.clone(), store, config.tools.allow_commands_over_api);
        // Policies changed at run time are in the store, and may be stricter.
        let policies = ToolPolicies { awaits_store: true, ..config.tools.policies() };
        let api = ToolsApi::new(
            sources.clone(),
            registry.clone(),
            ToolTokens { agents, cameras: tokens.clone() },
            vision,
            policies,
            config.http.address_percent,
            process.clone(),
        );
        let api = Arc::new(api.offering(config.tools.max_tools));
        Ok(Self { sources, registry, api, cameras: Cameras::new(tokens) })
    }
}
