//! Where tool clients dial in: a WebSocket with bare JSON-RPC text frames, on which they are the
//! MCP server. Paths and query as the reference relay has them (xinnan-tech/mcp-endpoint-server),
//! so that its tool clients need another host only. Not for the protocol on top.

use std::time::Duration;

use actix::fut::{ActorFutureExt as _, wrap_future};
use actix::{Actor, ActorContext as _, AsyncContext as _, StreamHandler};
use actix_web::{HttpRequest, HttpResponse, web};
use futures_util::StreamExt as _;
use hearken_actors::ws_link::{self, Inbound, Incoming, SocketContext, SocketFrame};
use hearken_proto::fault::Fault;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use super::caller::{bearer, query};
use super::fault::{Refusal, refusal};
use super::tool_desk::ToolDesk;
use crate::tools::Guest;

/// Largest message of a tool client.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Frames on their way in or out; a tool client that floods us is closed.
const LANE: usize = 64;
/// How often a tool client is pinged.
const PING_EVERY: Duration = Duration::from_secs(10);
/// A tool client that says nothing at all for this long is gone.
const DEAD_AFTER: Duration = Duration::from_secs(35);

/// `GET /mcp_endpoint/mcp/?token=...`: the WebSocket of a tool client.
pub(super) async fn connect(
    request: HttpRequest,
    payload: web::Payload,
    desk: web::Data<ToolDesk>,
) -> HttpResponse {
    connected(request, payload, desk).await.unwrap_or_else(|refused| *refused)
}

async fn connected(
    request: HttpRequest,
    payload: web::Payload,
    desk: web::Data<ToolDesk>,
) -> Result<HttpResponse, Refusal> {
    let token = query(&request, "token").unwrap_or_else(|| bearer(&request));
    // A `+` of a query stands for a space; no token of ours has either.
    let agent = desk.agents.agent(token.trim()).map_err(|error| {
        refusal(Fault::Unauthorized, &format!("{error}; `hearken tools token` makes one"))
    })?;
    let guest = desk
        .sources
        .endpoint()
        .admit(&agent)
        .map_err(|full| refusal(Fault::Busy, &full.to_string()))?;
    let socket = ToolClient {
        guest: Some(guest),
        inbound: Inbound::with_limit(MAX_MESSAGE_BYTES),
        to_client: None,
        last_heard: Instant::now(),
        process: desk.process.clone(),
    };
    ws_link::upgrade_with_limit(socket, &request, payload, MAX_MESSAGE_BYTES)
        .map_err(|_| refusal(Fault::BadRequest, "this address speaks WebSocket only"))
}

/// `GET /mcp_endpoint/health`: the endpoint is there, and how many use it.
pub(super) async fn health(desk: web::Data<ToolDesk>) -> HttpResponse {
    let (tool_clients, agents) = desk.sources.endpoint().count();
    HttpResponse::Ok().json(json!({"status": "ok", "tool_clients": tool_clients, "agents": agents}))
}

/// A text frame for the tool client.
struct Outgoing(String);

/// The socket of a tool client.
struct ToolClient {
    guest: Option<Guest>,
    inbound: Inbound,
    /// Frames from it to the protocol.
    to_client: Option<mpsc::Sender<String>>,
    last_heard: Instant,
    process: CancellationToken,
}

type Ctx = SocketContext<ToolClient>;

impl ToolClient {
    fn leave(&mut self, fault: Fault, ctx: &mut Ctx) {
        tracing::info!(fault = fault.code(), "closing a tool client");
        ws_link::close(ctx, fault);
        ctx.stop();
    }

    fn take(&mut self, text: String, ctx: &mut Ctx) {
        let Some(lane) = &self.to_client else { return };
        match lane.try_send(text) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => self.leave(Fault::Busy, ctx),
            Err(mpsc::error::TrySendError::Closed(_)) => ctx.stop(),
        }
    }
}

impl Actor for ToolClient {
    type Context = Ctx;

    fn started(&mut self, ctx: &mut Ctx) {
        let Some(guest) = self.guest.take() else { return ctx.stop() };
        let (to_client, incoming) = mpsc::channel(LANE);
        let (outgoing, from_client) = mpsc::channel(LANE);
        self.to_client = Some(to_client);
        ctx.add_stream(ReceiverStream::new(from_client).map(Outgoing));
        // Owned by this actor: dropped with it, and the protocol with both.
        let attending = wrap_future::<_, Self>(guest.attend(incoming, outgoing));
        ctx.spawn(attending.map(|reason, act, ctx| {
            tracing::info!(reason, "a tool client has gone");
            act.leave(Fault::Protocol, ctx);
        }));
        let ended = wrap_future::<_, Self>(self.process.clone().cancelled_owned());
        ctx.spawn(ended.map(|(), act, ctx| act.leave(Fault::GoingAway, ctx)));
        ctx.run_interval(PING_EVERY, |act, ctx| {
            if act.last_heard.elapsed() >= DEAD_AFTER {
                tracing::info!("a tool client is gone without a word");
                return ctx.stop();
            }
            ctx.ping(b"");
        });
    }
}

impl StreamHandler<SocketFrame> for ToolClient {
    fn handle(&mut self, frame: SocketFrame, ctx: &mut Ctx) {
        self.last_heard = Instant::now();
        match self.inbound.accept(frame, ctx) {
            Incoming::Text(text) => self.take(text, ctx),
            Incoming::Binary(bytes) => {
                self.take(String::from_utf8_lossy(&bytes).into_owned(), ctx);
            }
            Incoming::Alive => {}
            Incoming::Closed => ctx.stop(),
            Incoming::Broken(fault) => self.leave(fault, ctx),
        }
    }

    /// The peer dropped the connection.
    fn finished(&mut self, ctx: &mut Ctx) {
        ctx.stop();
    }
}

impl StreamHandler<Outgoing> for ToolClient {
    fn handle(&mut self, Outgoing(text): Outgoing, ctx: &mut Ctx) {
        ctx.text(text);
    }

    /// The protocol is done with it; why is told where it is attended.
    fn finished(&mut self, _: &mut Ctx) {}
}
