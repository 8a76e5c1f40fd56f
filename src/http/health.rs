//! Health check of the server and its engines, readiness with each dependency, and the metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix_web::http::header::{Accept, Quality};
use actix_web::mime::{self, Mime};
use actix_web::{HttpResponse, HttpResponseBuilder, web};
use hearken_actors::pipeline::Ports;
use hearken_base::reloadable::Reloadable;
use hearken_cluster::{Cluster, RedisState};
use hearken_dialogue::metrics::exemplars::exemplars;
use hearken_engines::supervise::{EngineReport, EngineState, EngineStates};
use hearken_ports::store::DeviceStore;
use hearken_ports::{Asr, Llm, ServiceState, StateServer, Tts};
use hearken_providers::ModelEnd;
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use crate::http::extract::Near;
use crate::telemetry::open_metrics;
use crate::words;

/// The content type of Prometheus's text format.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The content type of the OpenMetrics text format, and what a scraper that reads it accepts.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const OPEN_METRICS_TYPE: &str = "application/openmetrics-text";
/// Longest wait for the store.
const STORE_WITHIN: Duration = Duration::from_secs(2);
/// Time for which the store's state is reported without asking again: anybody may ask for it.
const STORE_KEPT: Duration = Duration::from_secs(1);

/// Engine that the server runs.
#[derive(Serialize, ToSchema)]
struct EngineShown {
    /// Its process id.
    #[schema(required)]
    pid: Option<u32>,
    /// Number of restarts.
    restarts: u32,
    #[schema(value_type = words::EngineState)]
    state: EngineState,
}

impl From<EngineReport> for EngineShown {
    fn from(EngineReport { state, pid, restarts }: EngineReport) -> Self {
        Self { pid, restarts, state }
    }
}

/// What keeps the server from serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unready {
    Starting,
    Stopping,
}

/// Whether everything is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum HealthStatus {
    Ok,
    Starting,
    Stopping,
}

/// Health of the server and its engines.
#[derive(Serialize, ToSchema)]
struct Healthy {
    /// Engines by their names.
    #[schema(value_type = BTreeMap<String, EngineShown>)]
    engines: BTreeMap<&'static str, EngineShown>,
    /// State of the connection, if a Redis is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::RedisState>, nullable = false)]
    redis: Option<RedisState>,
    status: HealthStatus,
    /// Version of the server.
    version: &'static str,
}

/// Whether the server serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ReadyStatus {
    Ready,
    Degraded,
    Down,
    Starting,
    Stopping,
}

/// Readiness of the server, and what it depends on.
#[derive(Serialize, ToSchema)]
struct Ready {
    /// States by the names of services.
    #[schema(value_type = BTreeMap<String, words::ServiceState>)]
    dependencies: BTreeMap<&'static str, ServiceState>,
    /// Why a recogniser, model or synthesiser does not work, by the names of the services.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    failures: BTreeMap<&'static str, words::ServiceFailure>,
    /// Models in use whose vendor has announced their end.
    #[serde(skip_serializing_if = "none_ends")]
    #[schema(value_type = Option<Vec<ModelEnd>>, nullable = false)]
    model_ends: Arc<Vec<ModelEnd>>,
    /// Engines by their names, if the server runs any.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, EngineShown>)]
    engines: BTreeMap<&'static str, EngineShown>,
    status: ReadyStatus,
}

fn none_ends(model_ends: &Arc<Vec<ModelEnd>>) -> bool {
    model_ends.is_empty()
}

/// What the server depends on besides its engines and Redis.
#[derive(Clone)]
pub struct Dependencies {
    /// The store.
    pub store: Arc<dyn DeviceStore>,
    /// The recogniser of devices.
    pub asr: Arc<dyn Asr>,
    /// The language model of devices.
    pub llm: Arc<dyn Llm>,
    /// The synthesiser of devices.
    pub tts: Arc<dyn Tts>,
    /// The state server of chat sessions, if there is one.
    pub state_server: Option<Arc<dyn StateServer>>,
    /// False while a model of our own would answer late, because it has not read its instructions.
    pub is_warm: Arc<AtomicBool>,
    /// Models in use whose vendor has announced their end.
    pub model_ends: Reloadable<Vec<ModelEnd>>,
}

impl Dependencies {
    /// Collects the store and the services of devices' conversations.
    pub fn new(ports: &Ports, store: Arc<dyn DeviceStore>) -> Self {
        let Ports { asr, llm, tts, .. } = ports.clone();
        let is_warm = Arc::new(true.into());
        let model_ends = Reloadable::new(Vec::new());
        Self { store, asr, llm, tts, state_server: None, is_warm, model_ends }
    }

    /// Adds the state server of chat sessions.
    pub fn with_state_server(self, state_server: Option<Arc<dyn StateServer>>) -> Self {
        Self { state_server, ..self }
    }

    /// Adds the models in use whose vendor has announced their end.
    pub fn with_model_ends(self, model_ends: Reloadable<Vec<ModelEnd>>) -> Self {
        Self { model_ends, ..self }
    }

    /// Adds what tells that the model has been warmed up.
    pub fn with_warm_up(self, is_warm: Arc<AtomicBool>) -> Self {
        Self { is_warm, ..self }
    }
}

/// State of the health check and of readiness.
#[derive(Clone)]
pub struct Health {
    engines: EngineStates,
    metrics: PrometheusHandle,
    /// Connection to the other instances.
    pub(crate) cluster: Cluster,
    dependencies: Dependencies,
    store_state: Arc<StoreCheck>,
    process: CancellationToken,
}

impl Health {
    /// Creates the state from the engines, the process's metrics, the other instances, the other
    /// dependencies, and the token that is cancelled at shutdown.
    pub fn new(
        engines: EngineStates,
        metrics: PrometheusHandle,
        cluster: Cluster,
        dependencies: Dependencies,
        process: CancellationToken,
    ) -> Self {
        let store_state = Arc::default();
        Self { engines, metrics, cluster, dependencies, store_state, process }
    }

    /// Returns what keeps the server from serving, if anything does.
    fn unready(&self) -> Option<Unready> {
        let is_warm = self.dependencies.is_warm.load(Ordering::Relaxed);
        match (self.process.is_cancelled(), self.engines.all_ready() && is_warm) {
            (true, _) => Some(Unready::Stopping),
            (false, false) => Some(Unready::Starting),
            (false, true) => None,
        }
    }

    /// Returns a report on each engine.
    fn engines(&self) -> BTreeMap<&'static str, EngineShown> {
        self.engines.snapshot().into_iter().map(|(name, report)| (name, report.into())).collect()
    }

    /// Returns the state of each dependency.
    async fn states(&self) -> BTreeMap<&'static str, ServiceState> {
        let Dependencies { store, asr, llm, tts, state_server, .. } = &self.dependencies;
        let redis = self.cluster.redis_state().map(|state| match state {
            RedisState::Ok => ServiceState::Ready,
            RedisState::Lost => ServiceState::Down,
        });
        let states = [
            ("store", Some(self.store_state.of(&**store).await)),
            ("redis", redis),
            ("asr", Some(asr.health().state)),
            ("llm", Some(llm.health().state)),
            ("tts", Some(tts.health().state)),
            ("state_server", state_server.as_ref().map(|server| server.service_state())),
        ];
        states.into_iter().filter_map(|(name, state)| Some((name, state?))).collect()
    }

    /// Returns why services do not work.
    fn failures(&self) -> BTreeMap<&'static str, words::ServiceFailure> {
        let Dependencies { asr, llm, tts, .. } = &self.dependencies;
        let all = [("asr", asr.health()), ("llm", llm.health()), ("tts", tts.health())];
        all.into_iter().filter_map(|(name, health)| Some((name, health.failure?.into()))).collect()
    }
}

/// Last check of the store.
#[derive(Default)]
struct StoreCheck(Mutex<Option<(Instant, ServiceState)>>);

impl StoreCheck {
    /// Returns the state of the store, which is at most [`STORE_KEPT`] old. One check runs at a
    /// time; who asks meanwhile waits for it.
    async fn of(&self, store: &dyn DeviceStore) -> ServiceState {
        let mut last = self.0.lock().await;
        if let Some((at, state)) = *last
            && at.elapsed() < STORE_KEPT
        {
            return state;
        }
        let before = last.map(|(_, state)| state);
        let state = match timeout(STORE_WITHIN, store.check_usable()).await {
            Ok(Ok(())) => {
                if before == Some(ServiceState::Down) {
                    tracing::info!("the store can be used again");
                }
                ServiceState::Ready
            }
            // It is told once: it is asked every second.
            _ if before == Some(ServiceState::Down) => ServiceState::Down,
            Ok(Err(error)) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, cause, "the store cannot be used");
                ServiceState::Down
            }
            Err(_) => {
                tracing::warn!(within = ?STORE_WITHIN, "the store does not answer");
                ServiceState::Down
            }
        };
        *last = Some((Instant::now(), state));
        state
    }
}

/// Returns 200 and `"status": "ok"` when everything is ready, 503 and `"starting"` while an engine
/// is not ready, 503 and `"stopping"` at shutdown. Always includes each engine's state, the
/// server's version, and, if a Redis is configured, the state of its connection.
#[utoipa::path(get, path = "/healthz", tag = "server",
    responses((status = 200, body = Healthy), (status = 503, body = Healthy)))]
pub(crate) async fn healthz(health: web::Data<Health>) -> HttpResponse {
    let unready = health.unready();
    let status = match unready {
        Some(Unready::Starting) => HealthStatus::Starting,
        Some(Unready::Stopping) => HealthStatus::Stopping,
        None => HealthStatus::Ok,
    };
    answer(unready.is_none()).json(Healthy {
        engines: health.engines(),
        redis: health.cluster.redis_state(),
        status,
        version: env!("CARGO_PKG_VERSION"),
    })
}

/// Returns the state of each dependency (`store`, `redis` if one is configured, `asr`, `llm`,
/// `tts`, `state_server` if one is configured): `ready`, `degraded` or `down`. The services' states
/// are those of their last requests and probes. 503 while an engine is not ready (`"status": "starting"`), at
/// shutdown (`"stopping"`), and while the store cannot be used (`"down"`); without the others the
/// server goes on, with 200 and `"degraded"`. If the server runs engines, includes the state of
/// each.
#[utoipa::path(get, path = "/readyz", tag = "server",
    responses((status = 200, body = Ready), (status = 503, body = Ready)))]
pub(crate) async fn readyz(health: web::Data<Health>) -> HttpResponse {
    let dependencies = health.states().await;
    let status = match health.unready() {
        Some(Unready::Starting) => ReadyStatus::Starting,
        Some(Unready::Stopping) => ReadyStatus::Stopping,
        // Only the store counts: the other services are the same for all instances, and 503 would take all of these out
        // of the load balancer. Decision 0051.
        None if dependencies.get("store") == Some(&ServiceState::Down) => ReadyStatus::Down,
        None if dependencies.values().any(|state| *state != ServiceState::Ready) => {
            ReadyStatus::Degraded
        }
        None => ReadyStatus::Ready,
    };
    let serves = matches!(status, ReadyStatus::Ready | ReadyStatus::Degraded);
    answer(serves).json(Ready {
        dependencies,
        failures: health.failures(),
        model_ends: health.dependencies.model_ends.get(),
        engines: health.engines(),
        status,
    })
}

fn answer(ready: bool) -> HttpResponseBuilder {
    if ready { HttpResponse::Ok() } else { HttpResponse::ServiceUnavailable() }
}

/// Returns every metric of the process; contains nothing that users said. In Prometheus's text format, or in the OpenMetrics
/// text format for who prefers that in `Accept`: there, the buckets of the times of turns name the trace of their last turn.
#[utoipa::path(get, path = "/metrics", tag = "server", responses((status = 200, content(
    (String = "text/plain"), (String = "application/openmetrics-text")))))]
pub(crate) async fn metrics(
    _: Near,
    health: web::Data<Health>,
    accept: Option<web::Header<Accept>>,
) -> HttpResponse {
    let text = health.metrics.render();
    if accept.is_some_and(|accept| prefers_open_metrics(&accept)) {
        return HttpResponse::Ok()
            .content_type(OPEN_METRICS)
            .body(open_metrics(&text, &exemplars()));
    }
    HttpResponse::Ok().content_type(PROMETHEUS).body(text)
}

/// Returns true if the OpenMetrics text format is accepted at least as gladly as Prometheus's.
fn prefers_open_metrics(accept: &Accept) -> bool {
    let best = |fits: fn(&Mime) -> bool| {
        let qualities = accept.iter().filter(|one| fits(&one.item)).map(|one| one.quality);
        qualities.max().unwrap_or(Quality::ZERO)
    };
    let wanted = best(|one| one.essence_str() == OPEN_METRICS_TYPE);
    let other = best(|one| one.type_() == mime::TEXT || one.type_() == mime::STAR);
    wanted > Quality::ZERO && wanted >= other
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use actix_web::http::header::Header as _;
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn who_prefers_open_metrics_gets_it() {
        for (accept, expected) in [
            ("application/openmetrics-text", true),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
                true,
            ),
            ("text/plain, application/openmetrics-text;q=0.5", false),
            ("application/openmetrics-text;q=0", false),
            ("text/plain;version=0.0.4", false),
            ("*/*", false),
            ("application/json", false),
            ("", false),
        ] {
            let request =
                TestRequest::default().insert_header(("accept", accept)).to_http_request();
            let prefers = Accept::parse(&request).is_ok_and(|accept| prefers_open_metrics(&accept));
            assert_eq!(prefers, expected, "{accept}");
        }
    }
}
