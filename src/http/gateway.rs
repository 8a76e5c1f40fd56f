//! The text clients' handshake at `/`, and the page by which people try it. Not for what clients
//! say, which is the actor's.

use std::sync::Arc;

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse, web};
use hearken_actors::actors::text_client::{MAX_MESSAGE_BYTES, TextClientActor};
use hearken_actors::gateway::GatewayService;
use hearken_actors::ws_link;
use hearken_base::Secret;
use hearken_proto::fault::Fault;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::fault::answer;
use super::request_identity::shows;

/// The page that talks to the gateway.
const PAGE: &str = include_str!("../../web/test_client.html");

/// Where the page is.
pub(super) const PAGE_PATH: &str = "/test_client.html";

/// Lets text clients in.
#[derive(Clone)]
pub struct TextClients {
    /// What their actors share.
    pub desk: GatewayService,
    /// One place a connection.
    pub places: Arc<Semaphore>,
    /// What they show; empty lets everybody in.
    pub token: Secret,
    /// Their connections end with it.
    pub process: CancellationToken,
}

/// `GET /`: the WebSocket of a text client; a browser is sent to the page. Where there is no room
/// the socket is opened and closed with 1013, as the gateway's document says.
pub(super) async fn connect(
    request: HttpRequest,
    payload: web::Payload,
    clients: web::Data<TextClients>,
) -> Result<HttpResponse, actix_web::Error> {
    if !request.headers().contains_key(header::UPGRADE) {
        return Ok(HttpResponse::SeeOther().insert_header((header::LOCATION, PAGE_PATH)).finish());
    }
    if !shows(&request, &clients.token) {
        return Ok(answer(Fault::Unauthorized, "text clients show `gateway.token`"));
    }
    let place = Arc::clone(&clients.places).try_acquire_owned().ok();
    let actor = TextClientActor::new(clients.desk.clone(), place, clients.process.clone());
    match ws_link::upgrade_with_limit(actor, &request, payload, MAX_MESSAGE_BYTES) {
        Ok(response) => Ok(response),
        Err(_) => Ok(answer(Fault::BadRequest, "this is no WebSocket handshake")),
    }
}

/// `GET /test_client.html`: the page.
pub(super) async fn page() -> HttpResponse {
    HttpResponse::Ok().content_type("text/html; charset=utf-8").body(PAGE)
}
