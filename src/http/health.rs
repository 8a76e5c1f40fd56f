//! Whether the server and its engines are ready.

use actix_web::{HttpResponse, web};
use serde_json::json;

use crate::supervise::EngineStates;

/// What `/healthz` tells.
#[derive(Clone)]
pub struct Health {
    /// The engines that run beside the server.
    pub engines: EngineStates,
}

/// 200 and `"status": "ok"` when everything is ready, 503 and `"starting"` while an engine is
/// not; either way each engine's state and the server's version.
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
