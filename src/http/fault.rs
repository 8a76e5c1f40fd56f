//! Rendering of faults as HTTP responses: the status of the fault table, and `{"error": {"code",
//! "message"}}`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use actix_web::error::InternalError;
use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::{HttpRequest, HttpResponse};
use hearken_base::paced_log::PacedLog;
use hearken_ports::store::{StoreError, StoreErrorKind};
use hearken_proto::fault::Fault;
use serde::Serialize;
use utoipa::openapi::{Content, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

/// Seconds after which a client may retry.
const RETRY_AFTER_SECONDS: &str = "5";

/// Seconds after which wrong codes are forgotten; a little more than they are counted for.
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
    /// Description of the fault.
    error: FaultTold,
}

/// Fault as sent to clients.
#[derive(Serialize, ToSchema)]
struct FaultTold {
    /// Code in the fault table.
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

/// Description of every error response, for the API description.
pub(crate) struct Faults;

impl IntoResponses for Faults {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals("FaultBody", "error.code")
    }
}

/// Describes all error responses with a body of this schema, one field of which contains the
/// reason.
pub(crate) fn refusals(schema: &str, field: &str) -> BTreeMap<String, RefOr<Response>> {
    let of = |status: &str, what: &str| {
        let content = Content::new(Some(Ref::from_schema_name(schema)));
        let response = ResponseBuilder::new()
            .description(format!("the request {what}: `{field}` tells why"))
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
            // RFC 6750, section 3: the reason stands in quotes.
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

/// Warnings about requests that failed because a part of the server is down: each of them would say
/// the same.
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

/// Answers requests to unknown addresses, or with an unsupported method.
pub(crate) async fn not_found(request: HttpRequest) -> HttpResponse {
    let methods = methods_of(request.path());
    if methods.is_empty() {
        return answer(Fault::NotFound, request.path());
    }
    let named = methods.replace(", ", " or ");
    let about = format!("{} is not allowed here, use {named}", request.method());
    let mut refused = answer(Fault::BadRequest, &about);
    *refused.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    refused
}

/// Returns the allowed methods of an address; empty if the address is unknown.
fn methods_of(path: &str) -> &'static str {
    let mut parts = path.trim_matches('/').split('/');
    let parts: [Option<&str>; 6] = std::array::from_fn(|_| parts.next());
    match &parts[..] {
        [Some("api"), Some("tools"), Some("servers"), Some(_), Some("enabled"), None, ..] => "PUT",
        [Some("" | "test_client.html"), None, ..] => "GET",
        [Some("console"), ..] => "GET, HEAD",
        [Some("xiaozhi"), Some("v1"), None, ..]
        | [Some("healthz" | "readyz" | "metrics"), None, ..] => "GET",
        [Some("xiaozhi"), Some("ota"), None, ..] => "GET, POST",
        [Some("xiaozhi"), Some("ota"), Some("activate"), None, ..] => "POST",
        [Some("xiaozhi"), Some("ota"), Some("firmware"), Some(_), None, _] => "GET, HEAD",
        [Some("mcp_endpoint"), Some("mcp" | "health"), None, ..] => "GET",
        [Some("litemcp"), Some(_), None, ..] => "GET, POST",
        [Some("api"), Some("tools"), None, ..] => "GET",
        [Some("api"), Some("tools"), Some("call"), None, ..] => "POST",
        [Some("api"), Some("tools"), Some("servers"), None, ..] => "GET, POST",
        [Some("api"), Some("tools"), Some("servers"), Some(_), None, _] => "GET, DELETE",
        [Some("vision"), Some("explain"), None, ..] => "POST",
        [Some("api"), Some("devices"), None, ..] => "GET",
        [Some("api"), Some("devices"), Some("bind"), None, ..] => "POST",
        [Some("api"), Some("devices"), Some(_), None, ..] => "GET, PATCH, DELETE",
        [Some("api"), Some("devices" | "sessions"), Some(_), Some("tools"), None, _] => "GET, PUT",
        [Some("api"), Some("turns"), None | Some("live"), None, ..] => "GET",
        [Some("api"), Some("persons"), None, ..] => "GET, POST",
        [Some("api"), Some("persons"), Some(_), None, ..] => "GET, PATCH, DELETE",
        [Some("api"), Some("persons"), Some(_), Some("memories"), None, _] => "DELETE",
        [Some("api"), Some("session"), Some("register" | "heartbeat"), None, ..] => "POST",
        [Some("api"), Some("session"), Some("unregister"), None, ..] => "DELETE",
        [Some("api"), Some("session"), Some("info" | "stats"), None, ..] => "GET",
        [Some("api"), Some("admin"), Some("login" | "refresh" | "logout"), None, ..] => "POST",
        [Some("api"), Some("admin"), Some("config"), None, ..] => "GET, PUT, PATCH",
        [Some("api"), Some("admin"), Some("sessions" | "metrics" | "audit"), None, ..] => "GET",
        [Some("api"), Some("admin"), Some("sessions"), Some(_), None, _] => "DELETE",
        [Some("api"), Some("agent"), Some("parse"), None, ..] => "POST",
        [Some("api"), Some("sessions"), rest @ ..] => chat_methods(rest),
        [Some("api"), Some("devices"), Some(_), Some(_), None, _] => "POST",
        [Some("api"), Some("provisioning"), Some(_), None, ..] => "PUT, DELETE",
        _ => "",
    }
}

/// Returns the allowed methods of an address below `/api/sessions`.
fn chat_methods(rest: &[Option<&str>]) -> &'static str {
    match rest {
        [None, ..] => "GET, POST",
        [Some(_), None, ..] => "GET, DELETE",
        [Some(_), Some("archive" | "restore" | "chat"), None, ..] => "POST",
        [Some(_), Some("messages" | "state" | "characters" | "combat" | "ws"), None, ..] => "GET",
        [Some(_), Some("snapshots"), None, ..] => "GET, POST",
        [Some(_), Some("snapshots"), Some(_), Some("restore")] => "POST",
        _ => "",
    }
}
