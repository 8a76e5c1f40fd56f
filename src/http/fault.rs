//! Faults as HTTP answers: the status of the table, and `{"error": {"code", "message"}}`.

use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, RETRY_AFTER};
use actix_web::{HttpRequest, HttpResponse};
use hearken_proto::fault::Fault;
use serde_json::json;

/// Seconds after which a client may try again.
const RETRY_AFTER_SECONDS: &str = "5";

/// The answer to a request that cannot be served, with what it was about.
pub(super) fn answer(fault: Fault, about: &str) -> HttpResponse {
    let row = fault.row();
    let status = StatusCode::from_u16(row.http_status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(status);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.insert_header((RETRY_AFTER, RETRY_AFTER_SECONDS));
    }
    let message = format!("{}: {about}", row.meaning);
    response.json(json!({"error": {"code": row.code, "message": message}}))
}

/// Any address that has no route.
pub(super) async fn not_found(request: HttpRequest) -> HttpResponse {
    let known = ["/xiaozhi/v1", "/xiaozhi/v1/", "/healthz"].contains(&request.path());
    if known {
        let about = format!("{} is not allowed here, use GET", request.method());
        let mut refused = answer(Fault::BadRequest, &about);
        *refused.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        let allow = actix_web::http::header::HeaderValue::from_static("GET");
        refused.headers_mut().insert(ALLOW, allow);
        return refused;
    }
    answer(Fault::NotFound, request.path())
}
