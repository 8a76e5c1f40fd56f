//! Health of the server and its engines, readiness with each dependency, and the metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use actix_web::http::header::{Accept, Quality};
use actix_web::mime::{self, Mime};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, web};
use bytes::Bytes;
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
use crate::http::middleware::middleware_state;
use crate::telemetry::open_metrics;
use crate::words;

/// Content type of Prometheus's text format.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Content type of the OpenMetrics text format, and the media type in `Accept` that requests it.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const OPEN_METRICS_TYPE: &str = "application/openmetrics-text";
/// Maximum wait for the store.
const STORE_WITHIN: Duration = Duration::from_secs(2);
/// Time for which the store's state is cached: any client may request it.
const STORE_KEPT: Duration = Duration::from_secs(1);
/// Time for which rendered metrics are cached: any client in a private network may request them.
const METRICS_KEPT: Duration = Duration::from_secs(1);

/// Engine that the server runs.
#[derive(Serialize, ToSchema)]
struct EngineShown {
    /// Process id; null while the engine is not running.
    #[schema(required)]
    pid: Option<u32>,
    /// Number of restarts.
    restarts: u32,
    /// State of the engine.
    #[schema(value_type = words::EngineState)]
    state: EngineState,
}

impl From<EngineReport> for EngineShown {
    fn from(EngineReport { state, pid, restarts }: EngineReport) -> Self {
        Self { pid, restarts, state }
    }
}

/// Reason why the server does not serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unready {
    Starting,
    Stopping,
}

/// Health of the server.
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
    /// Engines by name.
    #[schema(value_type = BTreeMap<String, EngineShown>)]
    engines: BTreeMap<&'static str, EngineShown>,
    /// State of the connection to Redis; omitted if none is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::RedisState>, nullable = false)]
    redis: Option<RedisState>,
    /// Health of the server.
    status: HealthStatus,
    /// Version of the server.
    version: &'static str,
}

/// Readiness of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ReadyStatus {
    Ready,
    Degraded,
    Down,
    Starting,
    Stopping,
}

/// Readiness of the server and its dependencies.
#[derive(Serialize, ToSchema)]
struct Ready {
    /// States of the dependencies, by name.
    #[schema(value_type = BTreeMap<String, words::ServiceState>)]
    dependencies: BTreeMap<&'static str, ServiceState>,
    /// Reasons why the recogniser, the model or the synthesiser does not work, by name of the
    /// service; omitted if empty.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    failures: BTreeMap<&'static str, words::ServiceFailure>,
    /// Models in use whose vendor has announced their end of life; omitted if there are none.
    #[serde(skip_serializing_if = "none_ends")]
    #[schema(value_type = Option<Vec<ModelEnd>>, nullable = false)]
    model_ends: Arc<Vec<ModelEnd>>,
    /// Engines by name; omitted if the server runs none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, EngineShown>)]
    engines: BTreeMap<&'static str, EngineShown>,
    /// Readiness of the server.
    status: ReadyStatus,
}

fn none_ends(model_ends: &Arc<Vec<ModelEnd>>) -> bool {
    model_ends.is_empty()
}

/// Dependencies of the server besides its engines and Redis.
#[derive(Clone)]
pub struct Dependencies {
    /// Store.
    pub store: Arc<dyn DeviceStore>,
    /// Recogniser of devices.
    pub asr: Arc<dyn Asr>,
    /// Language model of devices.
    pub llm: Arc<dyn Llm>,
    /// Synthesiser of devices.
    pub tts: Arc<dyn Tts>,
    /// State server of chat sessions, if one is configured.
    pub state_server: Option<Arc<dyn StateServer>>,
    /// False while an embedded model would answer late, because it has not processed its instructions.
    pub is_warm: Arc<AtomicBool>,
    /// Models in use whose vendor has announced their end of life.
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

    /// Adds the models in use whose vendor has announced their end of life.
    pub fn with_model_ends(self, model_ends: Reloadable<Vec<ModelEnd>>) -> Self {
        Self { model_ends, ..self }
    }

    /// Adds the flag that is true once the model has been warmed up.
    pub fn with_warm_up(self, is_warm: Arc<AtomicBool>) -> Self {
        Self { is_warm, ..self }
    }
}

/// State of the health check and of readiness.
#[derive(Clone)]
pub struct Health {
    engines: EngineStates,
    metrics: PrometheusHandle,
    rendered: Arc<RenderedMetrics>,
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
        let rendered = Arc::default();
        let store_state = Arc::default();
        Self { engines, metrics, rendered, cluster, dependencies, store_state, process }
    }

    /// Returns the reason why the server does not serve, if there is one.
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

    /// Returns the reasons why services do not work.
    fn failures(&self) -> BTreeMap<&'static str, words::ServiceFailure> {
        let Dependencies { asr, llm, tts, .. } = &self.dependencies;
        let all = [("asr", asr.health()), ("llm", llm.health()), ("tts", tts.health())];
        all.into_iter().filter_map(|(name, health)| Some((name, health.failure?.into()))).collect()
    }
}

/// Result of the last check of the store.
#[derive(Default)]
struct StoreCheck(Mutex<Option<(Instant, ServiceState)>>);

impl StoreCheck {
    /// Returns the state of the store, at most [`STORE_KEPT`] old. One check runs at a time;
    /// concurrent callers wait for it.
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
            // Logged once only, because the state is requested every second.
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

/// Metrics as last rendered, in each format.
#[derive(Default)]
struct RenderedMetrics {
    prometheus: RenderedText,
    open_metrics: RenderedText,
}

/// Text that is rendered again only if it is too old for its reader.
#[derive(Default)]
struct RenderedText(std::sync::Mutex<Option<(Instant, Bytes)>>);

impl RenderedText {
    /// Returns the text, younger than `max_age`. Concurrent callers wait for the one that renders
    /// it.
    fn get(&self, max_age: Duration, render: impl FnOnce() -> String) -> Bytes {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, text)) = &*last
            && at.elapsed() < max_age
        {
            return text.clone();
        }
        let text = Bytes::from(render());
        *last = Some((Instant::now(), text.clone()));
        text
    }
}

/// Returns 200 with `"status": "ok"` if everything is ready, else 503.
///
/// With 503, `status` is `starting` while an engine is not ready, and `stopping` at shutdown. The
/// response always contains the state of each engine, the version of the server and, if Redis is
/// configured, the state of its connection.
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

/// Returns 200 if the server can serve, else 503, with the state of each dependency.
///
/// The dependencies are `store`, `redis` if one is configured, `asr`, `llm`, `tts`, and
/// `state_server` if one is configured; each is `ready`, `degraded` or `down`. The states of
/// services are those of their last requests and probes. The status is 503 while an engine is not
/// ready (`"status": "starting"`), at shutdown (`"stopping"`), and while the store cannot be used
/// (`"down"`). Without the other dependencies the server continues, with 200 and `"degraded"`. If
/// the server runs engines, the response contains the state of each.
#[utoipa::path(get, path = "/readyz", tag = "server",
    responses((status = 200, body = Ready), (status = 503, body = Ready)))]
pub(crate) async fn readyz(health: web::Data<Health>) -> HttpResponse {
    let dependencies = health.states().await;
    let status = match health.unready() {
        Some(Unready::Starting) => ReadyStatus::Starting,
        Some(Unready::Stopping) => ReadyStatus::Stopping,
        // Only the store counts: the other services are the same for all instances, and 503 would
        // remove all of these from the load balancer. Decision 0051.
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

/// Returns all metrics of the process; they contain no words of users.
///
/// The format is Prometheus's text format, or the OpenMetrics text format for clients that prefer
/// it in `Accept`. In OpenMetrics, the buckets of turn durations have the trace of their last turn
/// as exemplar. The metrics may be one second old, except for programs on the same machine and
/// clients with a valid token.
#[utoipa::path(get, path = "/metrics", tag = "server", responses((status = 200, content(
    (String = "text/plain"), (String = "application/openmetrics-text")))))]
pub(crate) async fn metrics(
    _: Near,
    request: HttpRequest,
    health: web::Data<Health>,
    accept: Option<web::Header<Accept>>,
) -> HttpResponse {
    let Health { metrics, rendered, .. } = health.get_ref();
    // Exempt are those that are exempt from the limits per address.
    let is_limited = middleware_state(&request).is_some_and(|state| !state.is_trusted(&request));
    let max_age = if is_limited { METRICS_KEPT } else { Duration::ZERO };
    if accept.is_some_and(|accept| prefers_open_metrics(&accept)) {
        let render = || open_metrics(&metrics.render(), &exemplars());
        let text = rendered.open_metrics.get(max_age, render);
        return HttpResponse::Ok().content_type(OPEN_METRICS).body(text);
    }
    let text = rendered.prometheus.get(max_age, || metrics.render());
    HttpResponse::Ok().content_type(PROMETHEUS).body(text)
}

/// Returns true if the client accepts OpenMetrics with at least the quality of Prometheus's text format.
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

    #[tokio::test(start_paused = true)]
    async fn many_requests_for_a_text_render_it_once_a_second() {
        let text = RenderedText::default();
        let mut rendered = 0;
        let mut get = |max_age| {
            text.get(max_age, || {
                rendered += 1;
                rendered.to_string()
            })
        };
        for second in 1..=3 {
            for _ in 0..100 {
                assert_eq!(get(METRICS_KEPT), second.to_string());
            }
            tokio::time::advance(METRICS_KEPT).await;
        }
        for further in 4..=6 {
            assert_eq!(get(Duration::ZERO), further.to_string(), "a client without limits");
        }
        assert_eq!(get(METRICS_KEPT), "6");
    }

    #[test]
    fn clients_that_prefer_open_metrics_get_it() {
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
