//! TextClientActor: the socket of one text client. Reads the client's messages, executes its
//! requests one after the other, and sends the answers. Not for devices, nor for the memory of a
//! session: see [`crate::sessions`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actix::fut::{ActorFutureExt as _, WrapFuture as _, wrap_future};
use actix::{Actor, ActorContext as _, AsyncContext as _, Running, StreamHandler};
use hearken_base::paced_log::PacedLog;
use hearken_base::slots::Slot;
use hearken_dialogue::Turn;
use hearken_dialogue::metrics::actor_metrics;
use hearken_dialogue::turn_factory::TurnFactory;
use hearken_dialogue::turn_trace::ClientKind;
use hearken_proto::fault::Fault;
use hearken_proto::json::LONG_TEXT;
use hearken_proto::text_gateway::{
    ClientMessage, ErrorCode, ReadError, Registration, ServerMessage, Status,
};
use hearken_socket::{Inbound, Incoming, SocketContext, SocketFrame};
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use crate::client_tools::ClientTools;
use crate::conversation::{Conversation, LeftConversations};
use crate::outbox::Outbox;
use crate::requests::{Preferences, Request, RequestExecutor};
use crate::{InUse, TextGateway};

/// Maximum size of a client's message, in bytes (12.1 of the gateway's document).
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// Maximum number of waiting requests of one connection.
const MAX_WAITING: usize = 10;

/// Maximum number of frames read from one connection per second; above it, reading pauses until the
/// second is over: a flooding client must not block others on the same thread.
const MAX_FRAMES: u32 = 100;
const SECOND: Duration = Duration::from_secs(1);

/// WebSocket of one text client.
pub struct TextClientActor {
    turns: TurnFactory,
    inbound: Inbound,
    preferences: Preferences,
    executor: Arc<RequestExecutor>,
    conversation: Conversation,
    /// Waiting requests, each with the session that is held for it.
    waiting: VecDeque<(Request, Option<InUse>)>,
    running: Option<Turn>,
    last_heard: Instant,
    /// Start of the current counting interval, and number of frames in it.
    frames: (Instant, u32),
    /// Receiver of the outgoing messages, until the actor starts.
    messages: Option<mpsc::Receiver<ServerMessage>>,
    /// Connection slot, released when the connection and its last request have ended. `None` if no
    /// slot was free.
    slot: Option<Arc<Slot>>,
    span: tracing::Span,
}

type Ctx = SocketContext<TextClientActor>;

impl TextClientActor {
    /// Creates an actor that ends with `process`. Without a slot (`slot`), the connection is closed
    /// at once, and the client is asked to try again later.
    pub fn new(service: TextGateway, slot: Option<Slot>, process: CancellationToken) -> Self {
        let session = service.sessions.begin();
        let span = tracing::info_span!("text client", session = %session.id().short());
        let memory = slot.as_ref().map(|slot| slot.memory().clone()).unwrap_or_default();
        let client = session.id().to_string();
        let turns =
            TurnFactory::new(process).traced(&service.turn_journal, ClientKind::Text, &client);
        let roles = service.clone();
        let address = slot.as_ref().and_then(Slot::limited_address);
        let rate = service.rates.of(None, address);
        let turns = turns.in_role(Arc::new(move || roles.role())).at_rate(rate);
        let connection = turns.connection().clone();
        let (outbox, messages) = Outbox::new(connection.clone());
        let tools = ClientTools::new(service.settings.get(), outbox.clone(), memory);
        let executor = RequestExecutor {
            service,
            tools,
            left: LeftConversations::default(),
            outbox,
            connection,
            warnings: PacedLog::default(),
        };
        Self {
            turns,
            inbound: Inbound::with_limit(MAX_MESSAGE_BYTES),
            preferences: Preferences::default(),
            conversation: executor.conversation(Arc::clone(session.session())),
            executor: Arc::new(executor),
            waiting: VecDeque::new(),
            running: None,
            last_heard: Instant::now(),
            frames: (Instant::now(), 0),
            messages: Some(messages),
            slot: slot.map(Arc::new),
            span,
        }
    }

    fn send(&self, message: &ServerMessage, ctx: &mut Ctx) {
        ctx.text(message.encode(&format!("{:.3}", Timestamp::now())));
    }

    fn refuse(&self, code: ErrorCode, message: impl Into<String>, ctx: &mut Ctx) {
        self.send(&ServerMessage::error(code, message), ctx);
    }

    fn leave(&mut self, fault: Fault, ctx: &mut Ctx) {
        tracing::info!(fault = fault.code(), "closing");
        hearken_socket::close(ctx, fault);
    }

    /// Decodes a message and executes it. The next ones wait.
    fn on_text(&mut self, text: String, ctx: &mut Ctx) {
        let wait = self.slot.as_ref().map(|slot| slot.pace(text.len())).unwrap_or_default();
        if !wait.is_zero() {
            ctx.wait(wrap_future::<_, Self>(tokio::time::sleep(wait)));
        }
        let streams = self.preferences.stream;
        if text.len() < LONG_TEXT {
            return self.on_message(ClientMessage::decode(&text, streams), ctx);
        }
        let decoding = tokio::task::spawn_blocking(move || ClientMessage::decode(&text, streams))
            .into_actor(self);
        ctx.wait(decoding.map(|decoded, actor, ctx| match decoded {
            Ok(message) => actor.on_message(message, ctx),
            // The runtime is shutting down.
            Err(_) => actor.leave(Fault::Internal, ctx),
        }));
    }

    fn on_message(&mut self, message: Result<ClientMessage, ReadError>, ctx: &mut Ctx) {
        let message = match message {
            Ok(message) => message,
            Err(error) => return self.refuse(error.code(), error.to_string(), ctx),
        };
        match message {
            ClientMessage::TextInput { text, session_id } => {
                let preferences = self.preferences;
                self.queue(Request::Answer { text, session_id, preferences }, ctx);
            }
            ClientMessage::Configure(wanted) => {
                self.preferences.change(&wanted);
                if let Some(system_prompt) = wanted.system_prompt {
                    self.queue(Request::Instruct { system_prompt }, ctx);
                }
            }
            ClientMessage::StartSession { session_id } => {
                self.queue(Request::Start { session_id }, ctx);
            }
            ClientMessage::EndSession => self.queue(Request::End, ctx),
            ClientMessage::RegisterTools { tools } => {
                let registering = self.executor.tools.clone().register(tools).into_actor(self);
                // The next messages may name these tools, so they wait.
                ctx.wait(registering.map(|registered, actor, ctx| {
                    actor.send(&registration(registered), ctx);
                }));
            }
            ClientMessage::ToolResult(result) => {
                let call_id: String = result.call_id.chars().take(64).collect();
                if !self.executor.tools.answer(result) {
                    let message = format!("Invalid or expired call_id: {call_id}");
                    self.refuse(ErrorCode::InvalidMessage, message, ctx);
                }
            }
            ClientMessage::Ping => self.send(&ServerMessage::Pong, ctx),
            ClientMessage::Cancel => {
                if let Some(turn) = &self.running {
                    turn.cut();
                }
            }
        }
    }

    fn queue(&mut self, request: Request, ctx: &mut Ctx) {
        if self.waiting.len() >= MAX_WAITING {
            let message = format!("Too many requests: {MAX_WAITING} are waiting already");
            return self.refuse(ErrorCode::SessionError, message, ctx);
        }
        // From its arrival, the request counts as a use of the session that it names.
        let held = request.named().and_then(|id| self.executor.service.sessions.find_in_memory(id));
        self.waiting.push_back((request, held));
        self.start_next(ctx);
    }

    /// Starts the next request, unless one is running.
    fn start_next(&mut self, ctx: &mut Ctx) {
        if self.running.is_some() {
            return;
        }
        let Some((request, held)) = self.waiting.pop_front() else { return };
        let is_turn = matches!(request, Request::Answer { .. });
        let turn = if is_turn { self.turns.next() } else { self.turns.next_untraced() };
        self.running = Some(turn.clone());
        let executor = Arc::clone(&self.executor);
        let own = self.conversation.clone();
        let slot = self.slot.clone();
        let (done, conversation) = oneshot::channel();
        self.executor.service.sessions.spawn(async move {
            let conversation = executor.serve(own, &turn, request).await;
            drop((held, slot));
            // A client that has left starts no further request.
            drop(done.send(conversation));
        });
        ctx.spawn(conversation.into_actor(self).map(|conversation, act, ctx| {
            act.conversation = conversation.unwrap_or_else(|_| act.conversation.clone());
            act.running = None;
            act.start_next(ctx);
        }));
    }

    /// Counts a frame. Pauses reading after too many frames.
    fn pace(&mut self, ctx: &mut Ctx) {
        let (since, frames) = &mut self.frames;
        if since.elapsed() >= SECOND {
            (*since, *frames) = (Instant::now(), 0);
        }
        *frames += 1;
        if *frames == MAX_FRAMES {
            let over = *since + SECOND;
            ctx.wait(wrap_future::<_, Self>(tokio::time::sleep_until(over)));
        }
    }

    fn check_timeouts(&mut self, ctx: &mut Ctx) {
        if self.last_heard.elapsed() >= self.executor.service.settings.get().dead_after {
            return self.leave(Fault::Idle, ctx);
        }
        ctx.ping();
    }
}

/// Returns the response to a registration of tools.
fn registration(tools: Vec<Registration>) -> ServerMessage {
    if tools.is_empty() || tools.iter().any(|tool| tool.error.is_none()) {
        return ServerMessage::ToolsRegistered { tools };
    }
    let reason = |tool: &Registration| {
        let code = tool.code.and_then(|code| serde_json::to_value(code).ok()).unwrap_or_default();
        let code = code.as_str().unwrap_or_default();
        format!("{}: {code}: {}", tool.name, tool.error.as_deref().unwrap_or_default())
    };
    ServerMessage::Error {
        code: ErrorCode::ToolRegistrationFailed,
        message: "No tool was registered".into(),
        details: tools.iter().map(reason).collect::<Vec<_>>().join("; "),
    }
}

impl Actor for TextClientActor {
    type Context = Ctx;

    fn started(&mut self, ctx: &mut Ctx) {
        let _in = self.span.clone().entered();
        if self.slot.is_none() {
            return self.leave(Fault::Busy, ctx);
        }
        actor_metrics().text_clients.increment(1);
        let ended = wrap_future::<_, Self>(self.turns.connection().clone().cancelled_owned());
        ctx.spawn(ended.map(|(), act, ctx| {
            let is_stalled = act.executor.outbox.is_stalled();
            let fault = if is_stalled { Fault::Lagging } else { act.turns.fault() };
            act.leave(fault, ctx);
        }));
        if let Some(messages) = self.messages.take() {
            ctx.add_stream(ReceiverStream::new(messages));
        }
        self.send(&ServerMessage::Status(Status::Connected(self.conversation.session_id())), ctx);
        tracing::info!("connected");
        ctx.run_interval(self.executor.service.settings.get().ping_every, |act, ctx| {
            let _in = act.span.clone().entered();
            act.check_timeouts(ctx);
        });
    }

    fn stopping(&mut self, _: &mut Ctx) -> Running {
        self.turns.connection().cancel();
        Running::Stop
    }

    fn stopped(&mut self, _: &mut Ctx) {
        if self.slot.is_some() {
            actor_metrics().text_clients.decrement(1);
        }
        self.turns.connection().cancel();
        tracing::info!(parent: &self.span, "disconnected");
    }
}

impl StreamHandler<SocketFrame> for TextClientActor {
    fn handle(&mut self, frame: SocketFrame, ctx: &mut Ctx) {
        let _in = self.span.clone().entered();
        self.last_heard = Instant::now();
        self.pace(ctx);
        match self.inbound.accept(frame, ctx) {
            Incoming::Text(text) => self.on_text(text, ctx),
            Incoming::Binary(_) => {
                let message = "Binary messages are not understood: send JSON as text";
                self.refuse(ErrorCode::InvalidMessage, message, ctx);
            }
            Incoming::Alive | Incoming::Closed => {}
            Incoming::Broken(fault) => self.leave(fault, ctx),
        }
    }

    /// Stops the actor, because the peer dropped the connection.
    fn finished(&mut self, ctx: &mut Ctx) {
        ctx.stop();
    }
}

impl StreamHandler<ServerMessage> for TextClientActor {
    fn handle(&mut self, message: ServerMessage, ctx: &mut Ctx) {
        self.send(&message, ctx);
    }

    /// Does nothing: the outbox lives as long as the actor.
    fn finished(&mut self, _: &mut Ctx) {}
}
