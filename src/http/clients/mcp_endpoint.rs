//! WebSocket route of tool clients: bare JSON-RPC text frames; the clients are the MCP servers.
//! Paths and query are those of the reference relay (xinnan-tech/mcp-endpoint-server), so its tool
//! clients need only another host. Not for the protocol on top.

use std::fmt::Display;
use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};
use hearken_proto::fault::Fault;
use hearken_socket::SharedBudget;
use hearken_tool_sources::NotAdmitted;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::fault::{Faults, RouteResult, refusal};
use crate::http::lasting_access::LastingAccess;
use crate::http::middleware::address_of;
use crate::http::request_identity::{bearer, query};
use crate::http::tools::tools_api::ToolsApi;
use crate::http::websocket_bridge::{MessageLimits, WebSocketBridge};

/// Maximum size of a tool client's message, in bytes.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Size of one client's queued messages above which its socket is not read, in bytes.
const CONNECTION_BYTES: usize = 4 << 20;

/// Returns the limits of the messages of one tool client.
fn limits(address: String, all: &Arc<SharedBudget>) -> MessageLimits<'_> {
    MessageLimits { address, message: MAX_MESSAGE_BYTES, connection: CONNECTION_BYTES, all }
}

/// Opens the WebSocket of a tool client (`GET /mcp_endpoint/mcp/?token=...`).
pub(crate) async fn connect(
    request: HttpRequest,
    payload: web::Payload,
    api: web::Data<ToolsApi>,
) -> RouteResult {
    let token = query(&request, "token").unwrap_or_else(|| bearer(&request));
    // In a query, `+` means a space; our tokens contain neither.
    let bad = |about: &dyn Display| {
        refusal(Fault::Unauthorized, &format!("{about}; `hearken tools token` makes one"))
    };
    let client = api.agents.read(token.trim()).map_err(|error| bad(&error))?;
    let admitted = api.sources.endpoint().admit(&client).map_err(|error| match error {
        NotAdmitted::TooMany | NotAdmitted::TooManyOfToken => {
            refusal(Fault::Busy, &error.to_string())
        }
        NotAdmitted::Revoked => bad(&error),
    })?;
    let access = LastingAccess::until(&request, admitted.revoked());
    let limits = limits(address_of(&request), &api.endpoint_budget);
    let socket = WebSocketBridge::new(limits, api.process.clone(), |incoming, outgoing| {
        Box::pin(async move {
            let reason = admitted.serve(incoming, outgoing).await;
            tracing::info!(reason, "a tool client disconnected");
            Fault::Protocol
        })
    });
    socket.open(access, &request, payload, "this address accepts WebSocket connections only")
}

/// Health of the endpoint for tool clients.
#[derive(Serialize, ToSchema)]
struct EndpointHealth {
    /// Number of agents with tool clients.
    agents: usize,
    /// Always `ok`.
    status: &'static str,
    /// Number of connected tool clients.
    tool_clients: usize,
}

/// Returns the health of the endpoint for tool clients, and their number.
#[utoipa::path(get, path = "/mcp_endpoint/health", tag = "tools", params(("token" = Option<String>, Query,)),
    responses((status = 200, body = EndpointHealth), Faults))]
pub(crate) async fn health(api: web::Data<ToolsApi>) -> HttpResponse {
    let (tool_clients, agents) = api.sources.endpoint().count();
    HttpResponse::Ok().json(EndpointHealth { agents, status: "ok", tool_clients })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use actix_web::{App, HttpServer};
    use futures_util::SinkExt as _;
    use hearken_socket::HeldText;
    use hearken_test_support::eventually;
    use tokio::net::TcpStream;
    use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, unbounded_channel};
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::http::tools::tools_api::ENDPOINT_BYTES;

    /// Server side of a socket whose messages stay queued until the test receives them.
    type Held = (Receiver<HeldText>, Sender<String>);

    /// Serves sockets with the limits of tool clients, which share this budget, on one thread.
    fn serve(all: Arc<SharedBudget>) -> (SocketAddr, UnboundedReceiver<Held>) {
        let (opened, sockets) = unbounded_channel();
        let connect = move |request: HttpRequest, payload: web::Payload| {
            let opened = opened.clone();
            let never = CancellationToken::new();
            let limits = limits(address_of(&request), &all);
            let socket = WebSocketBridge::new(limits, never, move |incoming, outgoing| {
                opened.send((incoming, outgoing)).unwrap();
                Box::pin(std::future::pending())
            });
            let access = LastingAccess::unending();
            std::future::ready(socket.open(access, &request, payload, "no handshake"))
        };
        let app = move || App::new().route("/", web::get().to(connect.clone()));
        let server = HttpServer::new(app).workers(1).disable_signals();
        let server = server.bind(("127.0.0.1", 0)).unwrap();
        let address = server.addrs()[0];
        actix_web::rt::spawn(server.run());
        (address, sockets)
    }

    struct Client {
        socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
        held: Held,
    }

    impl Client {
        async fn connect(address: SocketAddr, sockets: &mut UnboundedReceiver<Held>) -> Self {
            let (socket, _) = connect_async(format!("ws://{address}/")).await.unwrap();
            Self { socket, held: sockets.recv().await.unwrap() }
        }

        async fn send(&mut self, text: impl Into<String>) {
            self.socket.send(Message::text(text.into())).await.unwrap();
        }

        /// Number of its messages that were read from the socket and are still queued.
        fn read(&self) -> usize {
            self.held.0.len()
        }

        async fn take(&mut self) -> HeldText {
            self.held.0.recv().await.unwrap()
        }
    }

    #[actix_web::test]
    async fn tool_clients_are_not_read_while_a_budget_is_used_up() {
        let (address, mut sockets) = serve(SharedBudget::new(ENDPOINT_BYTES));
        let large = "x".repeat(MAX_MESSAGE_BYTES);
        let mut holding = Vec::new();
        for _ in 0..ENDPOINT_BYTES / MAX_MESSAGE_BYTES {
            let mut client = Client::connect(address, &mut sockets).await;
            client.send(large.as_str()).await;
            client.send("later").await;
            let held = async || (client.read() == 1).then_some(());
            eventually("its message is read", held).await;
            holding.push(client);
        }
        let mut last = Client::connect(address, &mut sockets).await;
        for n in 0..5 {
            last.send(n.to_string()).await;
        }
        eventually("it may read one", async || (last.read() == 1).then_some(())).await;
        // Its thread serves others meanwhile, and would have read it by then.
        let mut other = Client::connect(address, &mut sockets).await;
        for _ in 0..50 {
            other.send("small").await;
            assert_eq!(&*other.take().await, "small");
        }
        assert_eq!(last.read(), 1, "the shared budget is used up");
        assert!(holding.iter().all(|client| client.read() == 1), "its own budget is used up");
        assert_eq!(holding[0].take().await.len(), MAX_MESSAGE_BYTES);
        for n in 0..5 {
            assert_eq!(*last.take().await, n.to_string());
        }
        assert_eq!(&*holding[0].take().await, "later");
    }
}
