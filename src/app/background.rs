//! Tasks beside serving: sweeping, purging, following what other instances change, and making the
//! engines warm. Not for when they end: the server aborts them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_actors::actors::pipeline::Ports;
use hearken_actors::dialogue::{ConversationStyle, Dialogue, LocalTime};
use hearken_actors::ports::{Prompt, ToolSource};
use hearken_actors::settings::PipelineSettings;
use hearken_actors::tools::Toolbox;
use hearken_engines::supervise::EngineStates;
use hearken_providers::tts::CachedTts;
use hearken_tool_sources::{Registry, Sources};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Services, local_time, settings};
use crate::config::Config;
use crate::telemetry;

/// Wait before the fixed phrases are asked for again.
const WARM_AGAIN: Duration = Duration::from_secs(15);

/// How often it is looked whether the engines are ready.
const ENGINES_EVERY: Duration = Duration::from_millis(200);

/// Starts what the frontends need done now and again: sessions that are over are cleared away, chat
/// sessions that were deleted long ago are forgotten, settings are kept in step with the store.
pub(super) fn of_services(services: &Services) -> Vec<JoinHandle<()>> {
    let texts = &services.clients.desk;
    let (sessions, every) = (Arc::clone(&texts.sessions), texts.settings.get().sweep_every);
    let chats = services.chats.desk.clone();
    let museum = Arc::clone(&services.museum.museum);
    let settings = Arc::clone(&services.admin.settings);
    vec![
        tokio::spawn(async move { sessions.keep_sweeping(every).await }),
        tokio::spawn(async move { chats.keep_purging().await }),
        tokio::spawn(async move { museum.keep_sweeping().await }),
        tokio::spawn(async move { settings.keep_in_step().await }),
    ]
}

/// Takes over the tool servers that are stored; where other instances may change them, again and
/// again.
pub(super) fn follow_tool_servers(registry: Registry, others: bool) -> JoinHandle<()> {
    tokio::spawn(async move {
        if others { registry.keep_in_step().await } else { registry.load().await }
    })
}

/// Sorts what was counted into its buckets, now and again.
pub(super) fn tidy_metrics(metrics: PrometheusHandle) -> JoinHandle<()> {
    tokio::spawn(telemetry::tidy(metrics))
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

/// What is done once the engines are ready: the audio of the fixed phrases is made, so that an
/// apology is heard even when the synthesiser is down, and the model reads ahead.
pub(super) struct WarmUp {
    tts: Arc<CachedTts>,
    phrases: Vec<String>,
    read_ahead: BoxFuture<'static, ()>,
}

impl WarmUp {
    /// Plans it for the phrases and the opening prompt of this configuration.
    pub(super) fn new(
        config: &Config,
        tts: Arc<CachedTts>,
        ports: &Ports,
        tools: &Sources,
    ) -> Self {
        let settings = settings(config);
        let phrases = settings.phrases.all();
        let read_ahead = ports.llm.read_ahead(opening(&settings, tools, local_time(config)));
        Self { tts, phrases, read_ahead }
    }

    /// Does it, unless `process` ends before.
    pub(super) fn spawn(self, engines: EngineStates, process: CancellationToken) -> JoinHandle<()> {
        let Self { tts, phrases, read_ahead } = self;
        tokio::spawn(async move {
            let work = async {
                while !engines.all_ready() {
                    tokio::time::sleep(ENGINES_EVERY).await;
                }
                let phrases = async {
                    while let Err(error) = tts.warm(&phrases).await {
                        tracing::warn!(%error, "cannot make the fixed phrases yet");
                        tokio::time::sleep(WARM_AGAIN).await;
                    }
                };
                tokio::join!(phrases, read_ahead);
            };
            if process.run_until_cancelled(work).await.is_some() {
                tracing::debug!("the fixed phrases are ready");
            }
        })
    }
}
