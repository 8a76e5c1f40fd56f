//! Middleware in front of every route, from the outside in: copies the headers, counts requests in
//! progress, rewrites `/api/v1` to `/api`, assigns the request an id, logs it, checks its host and
//! origin, applies CORS, recovers from panics, applies the limits per address, runs requests with
//! side effects to their end, notes changes of administration in the audit log, and answers HEAD
//! like GET. Authorisation is in the routes.

pub mod limits;
mod origin;
mod outliving;
pub mod traffic;

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use actix_cors::Cors;
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse, Url};
use actix_web::http::header::{
    self, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::http::uri::PathAndQuery;
use actix_web::http::{StatusCode, Uri};
use actix_web::middleware::{Condition, Next, from_fn};
use actix_web::{App, Error, HttpMessage as _, HttpRequest, HttpResponse, ResponseError, web};
use futures_util::FutureExt as _;
use hearken_base::Secret;
use hearken_base::paced_log::PacedLog;
use hearken_base::slots::{NoSlot, Slot, Slots};
use hearken_cluster::Cluster;
use hearken_proto::fault::Fault;
use serde_json::json;
use tracing::Instrument as _;

use self::limits::{Limits, OverLimit};
use self::origin::OriginRules;
use self::traffic::Traffic;
use crate::config::{HttpConfig, TrustedProxies};
use crate::http::audit::{NotedRefusals, audited};
use crate::http::fault::answer;
use crate::http::held_body::hold;
use crate::http::kept_connections::counted;
use crate::http::paths::{is_docs, rest_after};
use crate::http::peer;
use crate::http::route_table::head_and_old_clients;

/// Header of a request's id, in both directions.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Header with the id of a turn's trace.
pub(crate) const TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");
/// Maximum length of a request id accepted from a client, in characters.
const MAX_REQUEST_ID_CHARS: usize = 64;
/// Maximum length of a path in a log line, in characters, for requests without a route.
const MAX_PATH_CHARS: usize = 120;
/// Maximum number of log lines per minute of requests without a route, and of requests over a limit.
const MAX_REFUSED_LINES: u32 = 60;
/// Seconds for which a browser caches a CORS preflight response.
const PREFLIGHT_SECONDS: usize = 3_600;

/// State of the middleware.
pub struct MiddlewareState {
    origins: OriginRules,
    limits: Limits,
    traffic: Arc<Traffic>,
    refusals: Arc<NotedRefusals>,
    /// Log lines of requests without a route, and of requests over a limit: anyone can cause them.
    unrouted: PacedLog,
    over_limit: PacedLog,
}

impl MiddlewareState {
    /// Creates the state from the configuration. `names` are further names of this server, `tokens`
    /// those of administrators and applications. Behind one of the proxies, client addresses are
    /// taken from its header. All instances of the server share the rate limits.
    pub fn new(
        config: &HttpConfig,
        names: impl IntoIterator<Item = String>,
        tokens: Vec<Secret>,
        proxies: TrustedProxies,
        cluster: &Cluster,
    ) -> Self {
        let names: Vec<String> = config.host_names.iter().cloned().chain(names).collect();
        Self {
            origins: OriginRules::new(&names, &config.cors_origins),
            limits: Limits::new(config, tokens, proxies, cluster),
            traffic: Arc::default(),
            refusals: Arc::default(),
            unrouted: PacedLog::with_limit(MAX_REFUSED_LINES),
            over_limit: PacedLog::with_limit(MAX_REFUSED_LINES),
        }
    }

    /// Returns the request statistics.
    pub fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// Returns the limit of the log lines of a kind of request; `None` if there is none.
    fn limit_of_lines(&self, status: u16, has_route: bool) -> Option<&PacedLog> {
        match status {
            429 => Some(&self.over_limit),
            _ if !has_route => Some(&self.unrouted),
            _ => None,
        }
    }

    /// Returns the address of a client, as a key for rate limits.
    pub(crate) fn address_of(&self, request: &HttpRequest) -> String {
        self.limits.address_of(request)
    }

    /// Returns true if a client is exempt from the limits per address.
    pub(crate) fn is_trusted(&self, request: &HttpRequest) -> bool {
        self.limits.is_trusted(request)
    }

    fn cors(&self) -> Condition<Cors> {
        let methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"];
        let mut cors = Cors::default()
            .allowed_methods(methods)
            .allow_any_header()
            .expose_headers([REQUEST_ID, TRACE_ID, header::RETRY_AFTER])
            .max_age(PREFLIGHT_SECONDS);
        for origin in self.origins.origins() {
            cors = match origin.as_str() {
                "*" => cors.allow_any_origin().send_wildcard(),
                origin => cors.allowed_origin(origin),
            };
        }
        Condition::new(!self.origins.origins().is_empty(), cors)
    }
}

/// Returns the middleware state of a request.
pub(crate) fn middleware_state(request: &HttpRequest) -> Option<&MiddlewareState> {
    request.app_data::<web::Data<MiddlewareState>>().map(|state| state.get_ref())
}

/// Takes one of these slots for the client of a request; its address is limited to a share of them.
///
/// # Errors
/// No slot is free for the client.
pub(crate) fn slot_of(request: &HttpRequest, slots: &Slots) -> Result<Slot, NoSlot> {
    let state = middleware_state(request);
    let is_limited = state.is_some_and(|state| !state.is_trusted(request));
    slots.take_at(&address_of(request), is_limited)
}

/// Returns the address of a request's client, as a key for counting it.
pub(crate) fn address_of(request: &HttpRequest) -> String {
    middleware_state(request).map(|state| state.address_of(request)).unwrap_or_default()
}

/// Returns the name under which a client without a credential owns what it creates.
pub(crate) fn owner_of(request: &HttpRequest) -> String {
    peer::owner_of(request, proxies_of(request))
}

/// Returns true if a trusted proxy sent the request: its headers are valid.
pub(crate) fn is_from_trusted_proxy(request: &HttpRequest) -> bool {
    peer::is_from_trusted_proxy(request, proxies_of(request))
}

fn proxies_of(request: &HttpRequest) -> &TrustedProxies {
    middleware_state(request).map_or(&TrustedProxies::None, |state| state.limits.proxies())
}

/// Wraps an application in this middleware.
pub fn behind<T>(
    app: App<T>,
    state: Arc<MiddlewareState>,
) -> App<
    impl ServiceFactory<
        ServiceRequest,
        Config = (),
        Response = ServiceResponse<BoxBody>,
        Error = Error,
        InitError = (),
    >,
>
where
    T: ServiceFactory<
            ServiceRequest,
            Config = (),
            Response = ServiceResponse<BoxBody>,
            Error = Error,
            InitError = (),
        > + 'static,
{
    let cors = state.cors();
    app.app_data(web::Data::from(Arc::clone(&state.refusals)))
        .app_data(web::Data::from(state))
        .wrap(from_fn(head_and_old_clients))
        .wrap(from_fn(audited))
        .wrap(from_fn(outliving::outliving))
        .wrap(from_fn(limited))
        .wrap(from_fn(recovered))
        .wrap(cors)
        .wrap(from_fn(from_known_origin))
        .wrap(from_fn(logged))
        .wrap(from_fn(named))
        .wrap(from_fn(aliased))
        .wrap(from_fn(counted))
        .wrap(from_fn(own_headers))
}

/// Copies the values of the headers. Otherwise they would reference the buffer that was read from
/// the connection, body included: actix-http retains the heads of hundreds of past requests for
/// reuse, each with its buffer of up to 128 KiB.
async fn own_headers(
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    // A client may send thousands of requests without waiting for responses: other connections of
    // the thread are served between them.
    tokio::task::yield_now().await;
    request.headers_mut().retain(|_, value| {
        if let Ok(copy) = HeaderValue::from_bytes(value.as_bytes()) {
            *value = copy;
        }
        true
    });
    next.call(request).await
}

/// Rewrites `/api/v1/...` to `/api/...`.
async fn aliased(
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    if let Some(uri) = without_version(request.uri()) {
        request.match_info_mut().set(Url::new(uri.clone()));
        request.head_mut().uri = uri;
    }
    next.call(request).await
}

/// Returns the address without its API version, if it has one.
fn without_version(uri: &Uri) -> Option<Uri> {
    let rest = rest_after(uri.path(), "/api/v1")?;
    if !rest.is_empty() && !rest.starts_with('/') {
        return None;
    }
    let path = match uri.query() {
        Some(query) => format!("/api{rest}?{query}"),
        None => format!("/api{rest}"),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
    Uri::from_parts(parts).ok()
}

/// Id of a request, in logs and in responses.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(String);

impl RequestId {
    /// Takes the client's id if it is safe for logs, else creates one.
    fn from_headers(headers: &HeaderMap) -> Self {
        let given = headers.get(REQUEST_ID).and_then(|v| v.to_str().ok());
        let sane = |id: &&str| {
            (1..=MAX_REQUEST_ID_CHARS).contains(&id.len())
                && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b))
        };
        let new = || uuid::Uuid::new_v4().to_string();
        Self(given.filter(sane).map_or_else(new, str::to_owned))
    }

    fn header(&self) -> HeaderValue {
        // Never fails: the characters were checked.
        HeaderValue::from_str(&self.0).unwrap_or(HeaderValue::from_static(""))
    }
}

/// Content security policy of the API documentation: no access to other servers, and no frames.
const DOCS_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Assigns the request its id.
async fn named(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let id = RequestId::from_headers(request.headers());
    request.extensions_mut().insert(id.clone());
    let span = tracing::info_span!("request", id = %id.0);
    let is_docs = is_docs(request.request());
    let mut response = next.call(request).instrument(span).await?;
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.header());
    if is_docs {
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(DOCS_POLICY));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    Ok(response)
}

/// Logs and counts the request, without its query and its body. `left_out` is the number of similar
/// requests that were not logged.
async fn logged(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let begun = Instant::now();
    let method = request.method().clone();
    let path: String = request.path().chars().take(MAX_PATH_CHARS).collect();
    let state = request.app_data::<web::Data<MiddlewareState>>().cloned();
    let outcome = next.call(request).await;
    let took = begun.elapsed();
    let (status, route) = match &outcome {
        Ok(response) => (response.status(), response.request().match_pattern()),
        Err(error) => (error.as_response_error().status_code(), None),
    };
    if let Some(state) = &state {
        state.traffic.count(&method, route.as_deref(), status, took);
    }
    let has_route = route.is_some();
    let path = route.map_or(Cow::Owned(path), Cow::Owned);
    let status = status.as_u16();
    let ms = took.as_millis();
    match &*path {
        "/healthz" | "/readyz" | "/metrics" => {
            tracing::debug!(%method, %path, status, ms, "answered")
        }
        _ if status >= 500 => tracing::warn!(%method, %path, status, ms, "answered"),
        _ => {
            let log = |left_out: Option<u64>| {
                tracing::info!(%method, %path, status, ms, left_out, "answered");
            };
            match state.as_ref().and_then(|state| state.limit_of_lines(status, has_route)) {
                Some(limit) => limit.log(log),
                None => log(None),
            }
        }
    }
    outcome.map(ServiceResponse::map_into_boxed_body)
}

/// Error for a route that panicked; renders the client's response.
#[derive(Debug, thiserror::Error)]
#[error("a request panicked")]
struct Panicked(Option<RequestId>);

impl ResponseError for Panicked {
    fn status_code(&self) -> StatusCode {
        StatusCode::INTERNAL_SERVER_ERROR
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::InternalServerError();
        if let Some(id) = &self.0 {
            response.insert_header((REQUEST_ID, id.header()));
        }
        let message = "internal error: see the server's log";
        response.json(json!({"error": {"code": "INTERNAL_ERROR", "message": message}}))
    }
}

/// Converts a panic of a route to an error response; the connection and the server continue.
async fn recovered(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let id = request.extensions().get::<RequestId>().cloned();
    let answering = AssertUnwindSafe(async move { next.call(request).await });
    answering.catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("a request panicked");
        Err(Panicked(id).into())
    })
}

/// Refuses requests for host names of others, and requests from pages of other sites.
async fn from_known_origin(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let state = request.app_data::<web::Data<MiddlewareState>>().cloned();
    if let Some(state) = &state
        && let Err(error) = state.origins.check(request.request())
    {
        tracing::debug!(%error, "refused a request");
        return Ok(request.into_response(answer(Fault::Forbidden, &error.to_string())));
    }
    next.call(request).await.map(ServiceResponse::map_into_boxed_body)
}

/// Refuses requests of an address over its limits. The slot of a request in progress is held until
/// its response is written and its work has ended.
async fn limited(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let state = request.app_data::<web::Data<MiddlewareState>>().cloned();
    let Some(state) = state else { return next.call(request).await };
    match state.limits.admit(request.request()).await {
        Ok(None) => next.call(request).await,
        Ok(Some(slot)) => {
            let slot = Arc::new(slot);
            request.extensions_mut().insert(Arc::clone(&slot));
            Ok(hold(next.call(request).await?, slot))
        }
        Err(OverLimit::TooOften(wait)) => Ok(request.into_response(too_often(wait))),
        Err(OverLimit::TooManyAtOnce) => Ok(request.into_response(too_many_at_once())),
    }
}

/// Builds the response for an address with too many requests in progress.
fn too_many_at_once() -> HttpResponse {
    let mut response = answer(Fault::RateLimited, "too many concurrent requests from this address");
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Builds the response for a client that exceeds its rate limit.
pub(crate) fn too_often(wait: std::time::Duration) -> HttpResponse {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let about = format!("try again in {seconds} s");
    let mut response = answer(Fault::RateLimited, &about);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    response
}

#[cfg(test)]
mod tests;
