//! The route table. Each route parses a request, calls one thing and renders; no dialogue, no
//! SQL, no retries here.

mod device;
mod fault;
mod health;

use actix_web::web::{self, ServiceConfig};

pub use device::Doorman;
pub use health::Health;

/// Puts every route on an application; `main` and the tests use the same.
pub fn routes(services: &mut ServiceConfig, doorman: Doorman, health: Health) {
    services
        .app_data(web::Data::new(doorman))
        .app_data(web::Data::new(health))
        .route("/xiaozhi/v1", web::get().to(device::connect))
        .route("/xiaozhi/v1/", web::get().to(device::connect))
        .route("/healthz", web::get().to(health::healthz))
        .route("/metrics", web::get().to(health::metrics))
        .default_service(web::to(fault::not_found));
}
