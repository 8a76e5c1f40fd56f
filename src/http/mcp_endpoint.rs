//! WebSocket route to which tool clients connect: bare JSON-RPC text frames, on which the clients
//! are the MCP servers. Paths and query are those of the reference relay
//! (xinnan-tech/mcp-endpoint-server): its tool clients need only another host. Not for the protocol
//! on top.

use actix_web::{HttpRequest, HttpResponse, web};
use hearken_proto::fault::Fault;
use serde_json::json;

use super::fault::{Answer, Faults, refusal};
use super::request_identity::{bearer, query};
use super::tools_api::ToolsApi;
use super::websocket_bridge::{MessageLimits, WebSocketBridge};

/// Longest message of a tool client, in bytes.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Size of one client's messages that wait, above which it is not read, in bytes.
const CONNECTION_BYTES: usize = 4 << 20;
/// Size of all clients' messages that wait, in bytes.
pub(super) const ALL_BYTES: usize = 64 << 20;

/// Opens the WebSocket of a tool client (`GET /mcp_endpoint/mcp/?token=...`).
pub(super) async fn connect(
    request: HttpRequest,
    payload: web::Payload,
    api: web::Data<ToolsApi>,
) -> Answer {
    let token = query(&request, "token").unwrap_or_else(|| bearer(&request));
    // A `+` in a query means a space; our tokens contain neither.
    let agent = api.agents.agent(token.trim()).map_err(|error| {
        refusal(Fault::Unauthorized, &format!("{error}; `hearken tools token` makes one"))
    })?;
    let admitted = api
        .sources
        .endpoint()
        .admit(&agent)
        .map_err(|full| refusal(Fault::Busy, &full.to_string()))?;
    let limits = MessageLimits {
        message: MAX_MESSAGE_BYTES,
        connection: CONNECTION_BYTES,
        all: &api.endpoint_budget,
    };
    let socket = WebSocketBridge::new(&limits, api.process.clone(), |incoming, outgoing| {
        Box::pin(async move {
            let reason = admitted.serve(incoming, outgoing).await;
            tracing::info!(reason, "a tool client disconnected");
        })
    });
    socket.open(&request, payload, "this address speaks WebSocket only")
}

/// Returns the health of the endpoint and its number of clients (`GET /mcp_endpoint/health`).
#[utoipa::path(get, path = "/mcp_endpoint/health", tag = "tools", params(("token" = Option<String>, Query,)),
    responses((status = 200, body = Object), Faults))]
pub(super) async fn health(api: web::Data<ToolsApi>) -> HttpResponse {
    let (tool_clients, agents) = api.sources.endpoint().count();
    HttpResponse::Ok().json(json!({"status": "ok", "tool_clients": tool_clients, "agents": agents}))
}
