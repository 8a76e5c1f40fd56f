//! Built-in tools for LiteMCP clients, one address per tool: over WebSocket, and over HTTP with
//! `GET` for the description and `POST` for a call. Not for the contents of messages.

use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::http::header::UPGRADE;
use actix_web::web::{self, ServiceConfig};
use actix_web::{FromRequest, HttpRequest, HttpResponse};
use futures_util::future::LocalBoxFuture;
use hearken_base::slots::Slots;
use hearken_ports::{ToolError, ToolSource};
use hearken_proto::fault::Fault;
use hearken_proto::json;
use hearken_proto::litemcp::{TOKEN_HEADERS, ToolCall, VERSION};
use hearken_socket::SharedBudget;
use hearken_tool_sources::litemcp::{CallOutcome, LiteMcpServer};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::http::AccessControl;
use crate::http::extract::state;
use crate::http::fault::{Refusal, RouteResult, refusal};
use crate::http::lasting_access::LastingAccess;
use crate::http::middleware::{address_of, slot_of, too_often};
use crate::http::paths::LITEMCP;
use crate::http::request_identity::body;
use crate::http::route_table::RouteTable;
use crate::http::websocket_bridge::{MessageLimits, WebSocketBridge};

/// Maximum size of a client's message or body, in bytes.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Size of one WebSocket client's messages in calls or waiting above which its socket is not read, in bytes.
const CONNECTION_BYTES: usize = 2 << 20;
/// The same for all WebSocket clients together, in bytes.
const ALL_BYTES: usize = 32 << 20;
/// Maximum number of WebSocket clients.
const SOCKETS: usize = 64;
/// Maximum number of concurrent calls over HTTP.
const CALLS: usize = 64;
/// Maximum number of calls over HTTP that are in progress or wait.
const MAX_CALLS_BEGUN: usize = 2 * CALLS;
/// Maximum wait of an HTTP call for a free slot.
const PLACE_WITHIN: Duration = Duration::from_secs(1);

/// Service that offers tools to LiteMCP clients.
pub struct LiteMcp {
    sources: Vec<Arc<dyn ToolSource>>,
    sockets: Slots,
    budget: Arc<SharedBudget>,
    calls: Arc<Semaphore>,
    /// Calls over HTTP in progress or waiting; an address may have a share of them.
    shares: Slots,
    process: CancellationToken,
}

impl LiteMcp {
    /// Creates the service with all tools of these sources; of several tools with the same name,
    /// the first one is used. Ends when `process` is cancelled.
    pub fn new(
        sources: Vec<Arc<dyn ToolSource>>,
        address_percent: u8,
        process: CancellationToken,
    ) -> Self {
        Self {
            sources,
            sockets: Slots::with_share(SOCKETS, address_percent),
            budget: SharedBudget::new(ALL_BYTES),
            calls: Arc::new(Semaphore::new(CALLS)),
            shares: Slots::with_share(MAX_CALLS_BEGUN, address_percent),
            process,
        }
    }
}

impl LiteMcp {
    /// Counts a message over HTTP, in one rate per address with those over WebSocket.
    fn counted(&self, request: &HttpRequest) -> Result<(), Refusal> {
        let counted = self.budget.admit(&address_of(request), 0);
        counted.map_err(|wait| too_often(wait).into())
    }
}

/// Tool named by the address, for a caller who may use it.
struct OfferedTool(LiteMcpServer);

impl FromRequest for OfferedTool {
    type Error = Refusal;
    type Future = LocalBoxFuture<'static, Result<Self, Refusal>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let request = request.clone();
        Box::pin(async move {
            let access = state::<AccessControl>(&request)?;
            access.tool_user(&request, &TOKEN_HEADERS).await?;
            let name = request.match_info().query("tool");
            let found = LiteMcpServer::find(&state::<LiteMcp>(&request)?.sources, name);
            found.map(Self).ok_or_else(|| refusal(Fault::NotFound, "there is no tool of this name"))
        })
    }
}

/// Adds the routes of these tools to an application, which must also have an [`AccessControl`].
pub fn litemcp_routes(services: &mut ServiceConfig, tools: Arc<LiteMcp>) {
    services.app_data(web::Data::from(tools));
    RouteTable::default().get(LITEMCP, get).post(LITEMCP, call).register(services);
}

/// Returns the description of the tool, or opens a WebSocket to it (`GET /litemcp/{tool}`).
async fn get(
    tool: OfferedTool,
    request: HttpRequest,
    payload: web::Payload,
    tools: web::Data<LiteMcp>,
) -> RouteResult {
    if request.headers().contains_key(UPGRADE) {
        return connected(tool.0, &request, payload, &tools);
    }
    tools.counted(&request)?;
    let gone = || refusal(Fault::NotFound, "the tool is no longer there");
    Ok(HttpResponse::Ok().json(tool.0.to_wire().ok_or_else(gone)?))
}

fn connected(
    tool: LiteMcpServer,
    request: &HttpRequest,
    payload: web::Payload,
    tools: &LiteMcp,
) -> RouteResult {
    let full = |full| refusal(Fault::Busy, &format!("sockets of LiteMCP: {full}"));
    let slot = slot_of(request, &tools.sockets).map_err(full)?;
    let process = tools.process.clone();
    let access = LastingAccess::of::<OfferedTool>(request);
    let limits = MessageLimits {
        address: address_of(request),
        message: MAX_MESSAGE_BYTES,
        connection: CONNECTION_BYTES,
        all: &tools.budget,
    };
    let socket = WebSocketBridge::new(limits, process, |questions, answers| {
        Box::pin(async move {
            let _slot = slot;
            tool.serve(questions, answers).await;
            Fault::Protocol
        })
    });
    socket.open(access, request, payload, "this is not a valid WebSocket handshake")
}

/// Calls the tool (`POST /litemcp/{tool}`).
async fn call(
    tool: OfferedTool,
    request: HttpRequest,
    payload: web::Payload,
    tools: web::Data<LiteMcp>,
) -> RouteResult {
    tools.counted(&request)?;
    let full = |full| refusal(Fault::Busy, &format!("calls of LiteMCP: {full}"));
    let _share = slot_of(&request, &tools.shares).map_err(full)?;
    let body = body(payload, MAX_MESSAGE_BYTES).await?;
    let call: ToolCall =
        json::read(&body).map_err(|error| refusal(Fault::BadRequest, &error.about("the body")))?;
    if !call.version.is_ours() {
        let about = format!("the call is of LiteMCP {}, and this is {VERSION}", call.version);
        return Err(refusal(Fault::BadRequest, &about));
    }
    let waiting = tokio::time::timeout(PLACE_WITHIN, tools.calls.acquire());
    let Ok(Ok(_slot)) = waiting.await else {
        return Err(refusal(Fault::Busy, "too many concurrent tool calls: try again later"));
    };
    let ended = tools.process.run_until_cancelled(tool.0.call(call)).await;
    let called = ended.ok_or_else(|| refusal(Fault::GoingAway, "the call was cancelled"))?;
    Ok(HttpResponse::build(status(&called)).json(called.result))
}

/// Returns the HTTP status of a call. A result of the tool is a success, even if it reports a failure.
fn status(called: &CallOutcome) -> StatusCode {
    match called.error {
        None => StatusCode::OK,
        Some(ToolError::Unknown(_)) => StatusCode::NOT_FOUND,
        Some(ToolError::Arguments(_)) => StatusCode::BAD_REQUEST,
        Some(ToolError::Timeout(_)) => StatusCode::GATEWAY_TIMEOUT,
        Some(ToolError::Unavailable(_)) => StatusCode::SERVICE_UNAVAILABLE,
        Some(ToolError::Failed(_)) => StatusCode::BAD_GATEWAY,
    }
}
