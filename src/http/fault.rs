//! Rendering of faults as HTTP responses: the status of the fault table, and `{"error": {"code",
//! "message"}}`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use actix_web::error::InternalError;
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::{HttpRequest, HttpResponse};
use hearken_base::paced_log::PacedLog;
use hearken_ports::store::{StoreError, StoreErrorKind};
use hearken_proto::fault::Fault;
use serde::Serialize;
use utoipa::openapi::{Content, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

/// Seconds after which a client may retry.
const RETRY_AFTER_SECONDS: &str = "5";

/// Seconds after which a client may retry after too many wrong codes.
const GUESS_AGAIN_SECONDS: &str = "60";

/// Response that refuses a request; boxed, because responses are large and this is the error type
/// of results.
#[derive(Debug)]
pub(crate) struct Refusal(Box<HttpResponse>);

impl From<HttpResponse> for Refusal {
    fn from(response: HttpResponse) -> Self {
        Self(Box::new(response))
    }
}

impl From<Refusal> for HttpResponse {
    fn from(refusal: Refusal) -> Self {
        *refusal.0
    }
}

impl From<Refusal> for actix_web::Error {
    fn from(refusal: Refusal) -> Self {
        InternalError::from_response("the request is refused", *refusal.0).into()
    }
}

impl Refusal {
    /// Returns the HTTP status of the response.
    pub(crate) fn status(&self) -> StatusCode {
        self.0.status()
    }
}

/// Result of a route that may refuse a request.
pub(crate) type RouteResult = Result<HttpResponse, Refusal>;

/// Body of an error response.
#[derive(Serialize, ToSchema)]
pub(crate) struct FaultBody {
    /// The error.
    error: FaultTold,
}

/// Error as returned to clients.
#[derive(Serialize, ToSchema)]
struct FaultTold {
    /// Code of the error, from the fault table.
    code: &'static str,
    /// Human-readable message.
    message: String,
}

impl FaultBody {
    /// Creates the body from a fault and its details.
    pub(crate) fn new(fault: Fault, about: &str) -> Self {
        let row = fault.row();
        let message = format!("{}: {about}", row.meaning);
        Self { error: FaultTold { code: row.code, message } }
    }
}

/// All error responses, for the API description.
pub(crate) struct Faults;

impl IntoResponses for Faults {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals("FaultBody", "error.code")
    }
}

/// Describes all error responses with a body of this schema; `field` contains the reason.
pub(crate) fn refusals(schema: &str, field: &str) -> BTreeMap<String, RefOr<Response>> {
    let of = |status: &str, what: &str| {
        let content = Content::new(Some(Ref::from_schema_name(schema)));
        let response = ResponseBuilder::new()
            .description(format!("the request {what}: see `{field}`"))
            .content("application/json", content)
            .build();
        (status.to_owned(), RefOr::T(response))
    };
    BTreeMap::from([of("4XX", "was refused"), of("5XX", "failed")])
}

/// Builds the error response of a fault and its details.
pub(crate) fn answer(fault: Fault, about: &str) -> HttpResponse {
    let row = fault.row();
    let status = StatusCode::from_u16(row.http_status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(status);
    match status {
        StatusCode::SERVICE_UNAVAILABLE => {
            response.insert_header((RETRY_AFTER, RETRY_AFTER_SECONDS));
        }
        StatusCode::TOO_MANY_REQUESTS => {
            response.insert_header((RETRY_AFTER, GUESS_AGAIN_SECONDS));
        }
        StatusCode::UNAUTHORIZED => {
            // RFC 6750, section 3: the reason is in quotes.
            let reason: String = about.chars().filter(|c| !matches!(c, '"' | '\\')).collect();
            let challenge = format!(
                "Bearer realm=\"hearken\", error=\"invalid_token\", error_description=\"{reason}\""
            );
            let challenge = HeaderValue::from_str(&challenge);
            let bare = HeaderValue::from_static("Bearer realm=\"hearken\"");
            response.insert_header((WWW_AUTHENTICATE, challenge.unwrap_or(bare)));
        }
        _ => {}
    }
    response.json(FaultBody::new(fault, about))
}

/// Builds the error response as the error of a result.
pub(crate) fn refusal(fault: Fault, about: &str) -> Refusal {
    answer(fault, about).into()
}

/// Rate-limited warnings about requests that failed because a part of the server is down; they are all the same.
static OUTAGES: LazyLock<PacedLog> = LazyLock::new(PacedLog::default);

/// Logs that a request failed because a part of the server is down.
pub(crate) fn log_outage(error: &dyn std::error::Error) {
    OUTAGES.log(|left_out| {
        let causes = std::iter::successors(error.source(), |cause| cause.source());
        let cause = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        tracing::warn!(%error, cause, left_out, "cannot serve a request");
    });
}

/// Builds the client's response to an error of the store, and logs its cause.
pub(crate) fn store_failed(error: &StoreError) -> Refusal {
    log_outage(error);
    let fault = match error.kind {
        StoreErrorKind::Full => Fault::Busy,
        _ => Fault::Unavailable,
    };
    refusal(fault, &error.kind.to_string())
}

/// Answers requests to unknown paths.
pub(crate) async fn not_found(request: HttpRequest) -> HttpResponse {
    answer(Fault::NotFound, request.path())
}
