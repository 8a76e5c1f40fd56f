//! Runs requests with side effects to their end, even if their client disconnects. Not for chat
//! messages, which end by their effects so far.

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::{Error, HttpResponse, web};
use hearken_base::tasks::{NotBegun, Tasks};
use hearken_proto::fault::Fault;
use tracing::Instrument as _;

use crate::http::audit::CHANGING;
use crate::http::fault::answer;
use crate::http::paths::routed;

/// Routes that end with their client: a chat message is dropped while it has had no effect, and the
/// others have no effect before their end.
const ENDING_WITH_CLIENT: [&str; 4] = [
    "/api/sessions/{id}/chat",
    "/api/agent/parse",
    crate::http::paths::LITEMCP,
    crate::http::paths::VISION,
];

/// Returns true if the request may have side effects.
fn has_effects(request: &ServiceRequest) -> bool {
    let pattern = request.resource_map().match_pattern(routed(request.request()));
    CHANGING.contains(request.method())
        && pattern.is_some_and(|pattern| !ENDING_WITH_CLIENT.contains(&pattern.as_str()))
}

/// Runs a request with side effects in a task that is independent of its connection.
pub(super) async fn outliving(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let tasks = request.app_data::<web::Data<Tasks>>().cloned();
    let Some(tasks) = tasks.filter(|_| has_effects(&request)) else {
        return next.call(request).await;
    };
    let place = match tasks.try_begin() {
        Ok(place) => place,
        Err(error) => return Ok(request.into_response(refusal_of(error))),
    };
    let work = async move {
        let _place = place;
        next.call(request).await
    };
    match actix_web::rt::spawn(work.in_current_span()).await {
        Ok(answered) => answered,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The task's thread has ended because the server is stopping.
        Err(_) => Err(actix_web::error::ErrorServiceUnavailable("the server is stopping")),
    }
}

fn refusal_of(error: NotBegun) -> HttpResponse {
    let fault = match error {
        NotBegun::Full => Fault::Busy,
        NotBegun::Stopping => Fault::GoingAway,
    };
    answer(fault, &error.to_string())
}
