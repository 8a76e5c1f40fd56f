//! Background tasks: sweeping, purging, applying changes of other instances, and warming up the
//! engines. Not for ending them: the server aborts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_actors::settings::PipelineSettings;
use hearken_dialogue::tools::Toolbox;
use hearken_dialogue::{ConversationStyle, Dialogue, LocalTime};
use hearken_engines::supervise::EngineStates;
use hearken_ports::store::DeviceStore;
use hearken_ports::{Prompt, ToolSource};
use hearken_providers::tts::CachedTts;
use hearken_tool_sources::{Registry, Sources};
use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::frontends::Frontends;
use super::parts::{Parts, Records};
use super::{local_time, rules, settings};
use crate::admin::password::Credential;
use crate::config::Config;
use crate::http::{self, Admin};
use crate::tls::Certificate;
use crate::trace_export::TraceExporter;
use crate::{engines, telemetry};

/// Wait before the next attempt to synthesise the fixed phrases.
const WARM_UP_RETRY: Duration = Duration::from_secs(15);

/// Wait before the next attempt to read the store.
const STORE_RETRY: Duration = Duration::from_secs(5);

/// Polling interval for the readiness of engines.
const ENGINES_EVERY: Duration = Duration::from_millis(200);

/// Starts the background tasks, except the warm-up.
///
/// # Errors
/// `traces.otlp_url` cannot be used.
pub(super) fn start(
    parts: &Parts<'_>,
    frontends: &Frontends,
    certificate: Option<&Arc<Certificate>>,
) -> anyhow::Result<Vec<JoinHandle<()>>> {
    let Parts { config, process, records, tooling, cluster, .. } = parts;
    let traces = TraceExporter::new(&config.traces, &records.turn_journal)?;
    let pool = parts.audio_pool.clone();
    let admission = frontends.devices.pipeline.admission().clone();
    let mut tasks = periodic(config, frontends, certificate);
    tasks.push(follow_tool_servers(tooling.registry.clone(), cluster.is_shared()));
    tasks.push(tokio::spawn(telemetry::maintain(parts.metrics.clone())));
    tasks.push(tokio::spawn(admission.govern(cpu_time, move || pool.busy())));
    tasks.extend(keep_records(records, process));
    if parts.people.recognises() {
        // Also without other instances: a restored backup changes the people of a running server.
        tasks.push(tokio::spawn(parts.people.clone().follow_store()));
    }
    if cluster.is_shared() {
        tasks.push(tokio::spawn(records.history.clone().follow_deletions()));
        let devices = frontends.devices.pipeline.device_registry().clone();
        let store = Arc::clone(&parts.store) as _;
        tasks.push(tokio::spawn(http::follow_revocations(store, devices)));
    }
    if config.ota.binding {
        tasks.push(tokio::spawn(end_reviews(Arc::clone(&parts.store) as _)));
    }
    tasks.extend(traces.map(|traces| tokio::spawn(traces.run(process.clone()))));
    Ok(tasks)
}

/// Ends the review of devices that were stored before devices from other networks had to be bound.
/// While every device must be bound, these had no session, and get none if `ota.binding` is turned
/// off.
async fn end_reviews(store: Arc<dyn DeviceStore>) {
    loop {
        match store.end_reviews().await {
            Ok(0) => return,
            Ok(devices) => {
                tracing::info!(devices, "unbound devices no longer count as bound");
                return;
            }
            Err(error) => tracing::warn!(%error, "cannot end the review of devices; trying again"),
        }
        tokio::time::sleep(STORE_RETRY).await;
    }
}

/// Returns the CPU time of this process so far, for all its threads.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Starts the periodic tasks of the frontends: removes expired sessions, observes the stored fences
/// once, purges deleted chat sessions, publishes pending events, and applies changed settings from
/// the store. Also reloads the certificate when its files change, and logs the setup code.
fn periodic(
    config: &Config,
    frontends: &Frontends,
    certificate: Option<&Arc<Certificate>>,
) -> Vec<JoinHandle<()>> {
    let texts = &frontends.clients.service;
    let sessions = Arc::clone(&texts.sessions);
    let every = texts.settings.get().sweep_every;
    let chats = frontends.chats.service.clone();
    let events = frontends.chats.service.clone();
    let museum = Arc::clone(&frontends.museum.museum);
    let settings = Arc::clone(&frontends.admin.settings);
    let mut tasks = vec![
        tokio::spawn(async move { sessions.keep_sweeping(every).await }),
        tokio::spawn(async move {
            chats.observe_fences().await;
            chats.keep_purging().await;
        }),
        tokio::spawn(async move { events.keep_publishing().await }),
        tokio::spawn(async move { museum.keep_sweeping().await }),
        tokio::spawn(async move { settings.follow_store().await }),
    ];
    tasks.extend(certificate.cloned().map(|c| tokio::spawn(c.reload_loop())));
    if config.admin.enabled && config.console.enabled {
        tasks.push(tokio::spawn(offer_setup(Arc::clone(&frontends.admin))));
    }
    tasks
}

/// Logs the code for setting the first password, if no password is set.
async fn offer_setup(admin: Arc<Admin>) {
    let credential = loop {
        match admin.admin_sessions.passwords().credential().await {
            Ok(credential) => break credential,
            Err(_) => tokio::time::sleep(STORE_RETRY).await,
        }
    };
    if !matches!(credential, Credential::Token(_)) {
        return;
    }
    // The code is in the log: access to the log implies control of the machine. Without a code, the
    // setup page would belong to the first visitor. Decision 0073.
    match admin.setup_code.renew() {
        Ok(code) => tracing::info!(
            code,
            "no password is set: open /console/ and set one with this code, valid for one hour"
        ),
        Err(error) => tracing::warn!(%error, "cannot create a code for the first password"),
    }
}

/// Loads the stored tool servers and the pins of tools; periodically if other instances may change them.
fn follow_tool_servers(registry: Registry, others: bool) -> JoinHandle<()> {
    tokio::spawn(async move {
        let servers =
            async { if others { registry.follow_store().await } else { registry.load().await } };
        tokio::join!(servers, registry.keep_pins(others));
    })
}

/// Stores ended turns and usage, and deletes old records.
fn keep_records(records: &Records, process: &CancellationToken) -> [JoinHandle<()>; 3] {
    let storing = records.history.clone();
    let trimming = records.history.clone();
    [
        tokio::spawn(storing.run(process.clone())),
        tokio::spawn(trimming.keep_trimming()),
        tokio::spawn(records.usage.clone().keep_saving()),
    ]
}

/// Returns the common prefix of prompts: the tools of all devices, and the instructions.
fn opening(settings: &PipelineSettings, tools: &Sources, now: LocalTime) -> Prompt {
    let all: Vec<Arc<dyn ToolSource>> = vec![Arc::new(tools.builtin().clone())];
    let toolbox = Toolbox::new(all, Arc::new(Vec::new), settings.tools.clone());
    let tools = Arc::clone(toolbox.offer().tools());
    let dialogue =
        Dialogue::new(settings.dialogue.clone(), Arc::new(ConversationStyle::default), now);
    Prompt { tools, ..dialogue.opening() }
}

/// Warm-up, once the engines are ready: synthesises the fixed phrases, so that an apology can be
/// spoken even while the synthesiser is down, and lets the model prefetch the common prefix of
/// prompts.
pub(super) struct WarmUp {
    tts: Arc<CachedTts>,
    phrases: Vec<String>,
    prefetch: BoxFuture<'static, ()>,
    /// True once the model has processed the prefix of prompts. Before that, an embedded model would answer late.
    done: Arc<AtomicBool>,
}

impl WarmUp {
    /// Prepares the warm-up with the phrases and the opening prompt of this configuration.
    pub(super) fn new(parts: &Parts<'_>) -> Self {
        let Parts { config, ports, .. } = parts;
        let tools = &parts.tooling.sources;
        let tts = Arc::clone(&parts.tts);
        let settings = settings(config);
        let mut phrases = settings.phrases.all();
        phrases.extend(rules::fixed_sentences(config));
        let prefetch = ports.llm.prefetch(opening(&settings, tools, local_time(config)));
        let done = Arc::new(AtomicBool::new(!engines::uses_embedded_llm(config)));
        Self { tts, phrases, prefetch, done }
    }

    /// Returns a flag that is true once the model can answer without delay.
    pub(super) fn is_done(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.done)
    }

    /// Starts the warm-up; it ends with `process`.
    pub(super) fn spawn(self, states: EngineStates, process: CancellationToken) -> JoinHandle<()> {
        let Self { tts, phrases, prefetch, done } = self;
        tokio::spawn(async move {
            let work = async {
                while !states.all_ready() {
                    tokio::time::sleep(ENGINES_EVERY).await;
                }
                let phrases = async {
                    while let Err(error) = tts.warm(&phrases).await {
                        tracing::warn!(%error, "cannot synthesise the fixed phrases; trying again later");
                        tokio::time::sleep(WARM_UP_RETRY).await;
                    }
                };
                let prefetch = async {
                    prefetch.await;
                    done.store(true, Ordering::Relaxed);
                };
                tokio::join!(phrases, prefetch);
            };
            if process.run_until_cancelled(work).await.is_some() {
                tracing::debug!("synthesised the fixed phrases");
            }
        })
    }
}
