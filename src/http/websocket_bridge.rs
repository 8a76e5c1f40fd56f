//! Bridge between a WebSocket of text messages and two bounded queues, one in and one out, for a
//! handler. A socket whose messages hold too many bytes is not read. Not for the contents of
//! messages.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use actix::fut::{ActorFutureExt as _, wrap_future};
use actix::{Actor, ActorContext as _, AsyncContext as _, StreamHandler};
use actix_web::{HttpRequest, web};
use futures_util::StreamExt as _;
use hearken_proto::fault::Fault;
use hearken_socket::{
    HeldText, Inbound, Incoming, SharedBudget, SocketBudget, SocketContext, SocketFrame,
};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::http::fault::{RouteResult, refusal};
use crate::http::lasting_access::LastingAccess;

/// Capacity of the inbound queue; a peer that floods it is disconnected.
const INCOMING: usize = 64;
/// Capacity of the outbound queue; the handler waits while it is full.
const OUTGOING: usize = 4;
/// Interval of pings to the peer.
const PING_EVERY: Duration = Duration::from_secs(10);
/// Idle time after which a peer without messages and pongs is disconnected.
const DEAD_AFTER: Duration = Duration::from_secs(35);

/// Handler that runs between the queues until it or the socket ends; dropped with the socket.
/// Returns the reason for closing the socket.
pub(crate) type Attending = Pin<Box<dyn Future<Output = Fault>>>;

/// Function that starts the handler on these queues.
type Begin = Box<dyn FnOnce(mpsc::Receiver<HeldText>, mpsc::Sender<String>) -> Attending>;

/// Limits of the messages of one socket, in bytes.
pub(crate) struct MessageLimits<'a> {
    /// Address of the peer.
    pub(crate) address: String,
    /// Maximum size of a message.
    pub(crate) message: usize,
    /// Size of the messages that a connection holds above which it is not read.
    pub(crate) connection: usize,
    /// Budget shared by all connections.
    pub(crate) all: &'a Arc<SharedBudget>,
}

/// Text message for the peer.
struct Outgoing(String);

/// Actor of the socket.
pub(crate) struct WebSocketBridge {
    begin: Option<Begin>,
    inbound: Inbound,
    /// Queue of messages from the peer.
    incoming: Option<mpsc::Sender<HeldText>>,
    max_message_bytes: usize,
    budget: SocketBudget,
    all: Arc<SharedBudget>,
    address: String,
    last_heard: Instant,
    process: CancellationToken,
    /// Resolves when the peer may no longer use the socket.
    unauthorized: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

type Ctx = SocketContext<WebSocketBridge>;

impl WebSocketBridge {
    /// Creates a bridge. It ends when `process` is cancelled.
    pub(crate) fn new(
        limits: MessageLimits<'_>,
        process: CancellationToken,
        begin: impl FnOnce(mpsc::Receiver<HeldText>, mpsc::Sender<String>) -> Attending + 'static,
    ) -> Self {
        Self {
            begin: Some(Box::new(begin)),
            inbound: Inbound::with_limit(limits.message),
            incoming: None,
            max_message_bytes: limits.message,
            budget: SocketBudget::new(limits.connection, limits.all),
            all: Arc::clone(limits.all),
            address: limits.address,
            last_heard: Instant::now(),
            process,
            unauthorized: None,
        }
    }

    /// Answers the handshake and starts the bridge, which ends with the access; refuses a request
    /// that is not a handshake with this text.
    pub(crate) fn open(
        mut self,
        access: LastingAccess,
        request: &HttpRequest,
        payload: web::Payload,
        no_handshake: &str,
    ) -> RouteResult {
        let max_bytes = self.max_message_bytes;
        let budget = self.budget.clone();
        self.unauthorized = Some(Box::pin(access.ended()));
        access
            .socket_with_budget(self, request, payload, max_bytes, budget)
            .map_err(|_| refusal(Fault::BadRequest, no_handshake))
    }

    fn leave(&mut self, fault: Fault, ctx: &mut Ctx) {
        tracing::info!(fault = fault.code(), "closing a WebSocket of tools");
        hearken_socket::close(ctx, fault);
    }

    fn take(&mut self, text: String, ctx: &mut Ctx) {
        let wait = self.all.pace(&self.address, text.len());
        if !wait.is_zero() {
            ctx.wait(wrap_future::<_, Self>(tokio::time::sleep(wait)));
        }
        let Some(lane) = &self.incoming else { return };
        match lane.try_send(self.budget.hold(text)) {
            // The queue is closed: the handler is about to end, which closes the socket.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(_)) => self.leave(Fault::Busy, ctx),
        }
    }
}

impl Actor for WebSocketBridge {
    type Context = Ctx;

    fn started(&mut self, ctx: &mut Ctx) {
        let Some(begin) = self.begin.take() else { return ctx.stop() };
        let (to_whom, incoming) = mpsc::channel(INCOMING);
        let (outgoing, from_whom) = mpsc::channel(OUTGOING);
        self.incoming = Some(to_whom);
        // Before the handler and its messages: neither goes on after the end of the access.
        if let Some(unauthorized) = self.unauthorized.take() {
            let ended = wrap_future::<_, Self>(unauthorized);
            ctx.spawn(ended.map(|(), act, ctx| act.leave(Fault::Unauthorized, ctx)));
        }
        ctx.add_stream(ReceiverStream::new(from_whom).map(Outgoing));
        // Owned by this actor: dropped with it.
        let attending = wrap_future::<_, Self>(begin(incoming, outgoing));
        ctx.spawn(attending.map(|fault, act, ctx| act.leave(fault, ctx)));
        let ended = wrap_future::<_, Self>(self.process.clone().cancelled_owned());
        ctx.spawn(ended.map(|(), act, ctx| act.leave(Fault::GoingAway, ctx)));
        ctx.run_interval(PING_EVERY, |act, ctx| {
            if act.budget.is_used_up() {
                // Its pongs are not read meanwhile.
                act.last_heard = Instant::now();
            }
            if act.last_heard.elapsed() >= DEAD_AFTER {
                tracing::info!(
                    "the peer of a WebSocket of tools disconnected without a Close frame"
                );
                return act.leave(Fault::Idle, ctx);
            }
            ctx.ping();
        });
    }
}

impl StreamHandler<SocketFrame> for WebSocketBridge {
    fn handle(&mut self, frame: SocketFrame, ctx: &mut Ctx) {
        self.last_heard = Instant::now();
        match self.inbound.accept(frame, ctx) {
            Incoming::Text(text) => self.take(text, ctx),
            Incoming::Binary(bytes) => {
                self.take(String::from_utf8_lossy(&bytes).into_owned(), ctx);
            }
            Incoming::Alive | Incoming::Closed => {}
            Incoming::Broken(fault) => self.leave(fault, ctx),
        }
    }

    /// Stops the actor after the peer dropped the connection.
    fn finished(&mut self, ctx: &mut Ctx) {
        ctx.stop();
    }
}

impl StreamHandler<Outgoing> for WebSocketBridge {
    fn handle(&mut self, Outgoing(text): Outgoing, ctx: &mut Ctx) {
        ctx.text(text);
    }

    /// Does nothing: the end of the handler closes the socket with its reason.
    fn finished(&mut self, _: &mut Ctx) {}
}
