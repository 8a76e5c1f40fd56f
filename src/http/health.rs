//! Whether the server and its engines are ready, and what it has counted.

use actix_web::{HttpResponse, web};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::json;

use crate::supervise::EngineStates;

/// The content type of Prometheus's text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What `/healthz` tells.
#[derive(Clone)]
pub struct Health {
    /// The engines that run beside the server.
    pub engines: EngineStates,
    /// What the process has counted.
    pub metrics: PrometheusHandle,
}

/// 200 and `"status": "ok"` when everything is ready, 503 and `"starting"` while an engine is
/// not; either way each engine's state and the server's version.
#[utoipa::path(get, path = "/healthz", tag = "server",
    responses((status = 200, body = Object), (status = 503, body = Object)))]
pub(super) async fn healthz(health: web::Data<Health>) -> HttpResponse {
    let ready = health.engines.all_ready();
    let body = json!({
        "status": if ready { "ok" } else { "starting" },
        "version": env!("CARGO_PKG_VERSION"),
        "engines": health.engines.snapshot(),
    });
    if ready {
        HttpResponse::Ok().json(body)
    } else {
        HttpResponse::ServiceUnavailable().json(body)
    }
}

/// Every metric of the process in Prometheus's text format; nothing of what people said.
#[utoipa::path(get, path = "/metrics", tag = "server", responses((status = 200, body = String, content_type = "text/plain")))]
pub(super) async fn metrics(health: web::Data<Health>) -> HttpResponse {
    HttpResponse::Ok().content_type(EXPOSITION).body(health.metrics.render())
}
