//! Handshake of text clients at `/`, and their test page. Not for their messages, which the actor handles.

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse, web};
use hearken_base::slots::Slots;
use hearken_proto::fault::Fault;
use hearken_text_gateway::TextGateway;
use hearken_text_gateway::text_client::{MAX_MESSAGE_BYTES, TextClientActor};
use tokio_util::sync::CancellationToken;

use crate::http::AccessControl;
use crate::http::auth::AccessRule;
use crate::http::fault::answer;
use crate::http::lasting_access::LastingAccess;
use crate::http::middleware::slot_of;

/// Test page that connects to the gateway.
const PAGE: &str = include_str!("../../../web/test_client.html");

/// Path of the page.
pub const PAGE_PATH: &str = "/test_client.html";

/// State of the text clients' routes.
#[derive(Clone)]
pub struct TextClients {
    /// Service that the clients' actors share.
    pub service: TextGateway,
    /// Connection slots.
    pub connection_slots: Slots,
    /// Rule of access.
    pub access: AccessRule,
    /// Path to which browsers are redirected.
    pub page: &'static str,
    /// Token of the process; connections end when it is cancelled.
    pub process: CancellationToken,
}

/// Opens the WebSocket of a text client (`GET /`); redirects a browser to a page. Without a free
/// slot, the socket is opened and closed with 1013, as the gateway's document requires.
pub(crate) async fn connect(
    request: HttpRequest,
    payload: web::Payload,
    clients: web::Data<TextClients>,
    access: web::Data<AccessControl>,
) -> Result<HttpResponse, actix_web::Error> {
    if !request.headers().contains_key(header::UPGRADE) {
        return Ok(HttpResponse::SeeOther()
            // Relative: a proxy may serve the server below a path.
            .insert_header((header::LOCATION, clients.page.trim_start_matches('/')))
            .finish());
    }
    if let Err(missing) = access.auth.admit(&request, &clients.access) {
        return Ok(answer(Fault::Unauthorized, &missing));
    }
    let slot = slot_of(&request, &clients.connection_slots).ok();
    let admitted = slot.is_some();
    let actor = TextClientActor::new(clients.service.clone(), slot, clients.process.clone());
    // A client without a slot must not make the server buffer a long message.
    let longest = if admitted { MAX_MESSAGE_BYTES } else { hearken_socket::MAX_MESSAGE_BYTES };
    // Its token is a setting that does not change at run time, and a log-in does not open it.
    let access = LastingAccess::unending();
    match access.socket_with_limit(actor, &request, payload, longest) {
        Ok(response) => Ok(response),
        Err(_) => Ok(answer(Fault::BadRequest, "this is not a WebSocket handshake")),
    }
}

/// Content security policy of the test page: WebSocket connections, and no frames.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
    connect-src ws: wss:; base-uri 'none'; frame-ancestors 'none'";

/// Returns the test page (`GET /test_client.html`).
pub(crate) async fn page() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((header::CONTENT_SECURITY_POLICY, PAGE_POLICY))
        .body(PAGE)
}
