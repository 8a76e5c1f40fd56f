//! Health check of the server and its engines, and the metrics.

use actix_web::{HttpResponse, web};
use hearken_cluster::Cluster;
use hearken_engines::supervise::EngineStates;
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::extract::Near;

/// The content type of Prometheus's text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// State of the health check.
#[derive(Clone)]
pub struct Health {
    engines: EngineStates,
    metrics: PrometheusHandle,
    /// Connection to the other instances.
    pub(crate) cluster: Cluster,
    process: CancellationToken,
}

impl Health {
    /// Creates the state from the engines, the process's metrics, the other instances, and the
    /// token that is cancelled at shutdown.
    pub fn new(
        engines: EngineStates,
        metrics: PrometheusHandle,
        cluster: Cluster,
        process: CancellationToken,
    ) -> Self {
        Self { engines, metrics, cluster, process }
    }
}

/// Returns 200 and `"status": "ok"` when everything is ready, 503 and `"starting"` while an engine
/// is not ready, 503 and `"stopping"` at shutdown. Always includes each engine's state, the
/// server's version, and, if a Redis is configured, the state of its connection.
#[utoipa::path(get, path = "/healthz", tag = "server",
    responses((status = 200, body = Object), (status = 503, body = Object)))]
pub(super) async fn healthz(health: web::Data<Health>) -> HttpResponse {
    let ready = health.engines.all_ready();
    let stopping = health.process.is_cancelled();
    let status = match (stopping, ready) {
        (true, _) => "stopping",
        (false, true) => "ok",
        (false, false) => "starting",
    };
    let mut body = json!({
        "status": status,
        "version": env!("CARGO_PKG_VERSION"),
        "engines": health.engines.snapshot(),
    });
    if let Some(standing) = health.cluster.redis_state() {
        body["redis"] = json!(standing);
    }
    if ready && !stopping {
        HttpResponse::Ok().json(body)
    } else {
        HttpResponse::ServiceUnavailable().json(body)
    }
}

/// Returns every metric of the process in Prometheus's text format; contains nothing that users
/// said.
#[utoipa::path(get, path = "/metrics", tag = "server", responses((status = 200, body = String, content_type = "text/plain")))]
pub(super) async fn metrics(_: Near, health: web::Data<Health>) -> HttpResponse {
    HttpResponse::Ok().content_type(EXPOSITION).body(health.metrics.render())
}
