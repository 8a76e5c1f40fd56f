//! `WatchActor`: the WebSocket of a client that watches a chat session. Sends the events that match
//! the watcher's filter. Not for producing events.
//!
//! - Events arrive through a bounded queue. It is closed if the watcher is too slow: publishing
//!   never waits for a watcher.

use std::time::Duration;

use actix::fut::{ActorFutureExt as _, wrap_future};
use actix::{Actor, ActorContext as _, AsyncContext as _, StreamHandler};
use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use hearken_base::slots::Slot;
use hearken_ports::Watch;
use hearken_proto::chat::{Event, WatchMessage, WatchRequest, matches};
use hearken_proto::fault::Fault;
use hearken_proto::ids::SessionId;
use hearken_socket::{Inbound, Incoming, SocketContext, SocketFrame};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

/// Maximum number of types in a filter, and maximum length of a type.
const MAX_TYPES: usize = 64;
const MAX_TYPE_BYTES: usize = 128;

/// Maximum number of invalid messages from a watcher before it is closed.
const MAX_UNFIT: u32 = 100;

/// Settings of watchers' connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchSettings {
    /// Interval between pings.
    pub ping_every: Duration,
    /// Maximum time without any message from a watcher. After that it is considered gone.
    pub dead_after: Duration,
}

/// WebSocket of one watcher.
pub struct WatchActor {
    session: SessionId,
    types: Vec<String>,
    watch: Option<Watch>,
    settings: WatchSettings,
    inbound: Inbound,
    unfit: u32,
    last_heard: Instant,
    /// Resolves with the reason why the connection ends: the server stops, or the client's right
    /// has ended.
    ended: Option<LocalBoxFuture<'static, Fault>>,
    _slot: Slot,
    span: tracing::Span,
}

type Ctx = SocketContext<WatchActor>;

/// Reports whether a filter is within the limits.
pub fn fits(types: &[String]) -> bool {
    types.len() <= MAX_TYPES && types.iter().all(|t| !t.is_empty() && t.len() <= MAX_TYPE_BYTES)
}

impl WatchActor {
    /// Creates a watcher that sends the events of `watch` with these types. It ends when `ended`
    /// resolves.
    pub fn new(
        session: SessionId,
        types: Vec<String>,
        watch: Watch,
        settings: WatchSettings,
        slot: Slot,
        ended: LocalBoxFuture<'static, Fault>,
    ) -> Self {
        let span = tracing::info_span!("watcher", session = session.short());
        Self {
            session,
            types,
            watch: Some(watch),
            settings,
            inbound: Inbound::default(),
            unfit: 0,
            last_heard: Instant::now(),
            ended: Some(ended),
            _slot: slot,
            span,
        }
    }

    fn send_event(&self, event: &Event, ctx: &mut Ctx) {
        if matches(&self.types, &event.kind) {
            ctx.text(WatchMessage::Event { event }.encode());
        }
    }

    fn leave(&mut self, fault: Fault, ctx: &mut Ctx) {
        tracing::info!(fault = fault.code(), "closing");
        hearken_socket::close(ctx, fault);
    }

    fn text(&mut self, text: &str, ctx: &mut Ctx) {
        match WatchRequest::decode(text) {
            Ok(WatchRequest::Subscribe { types }) if fits(&types) => {
                self.types = types;
                ctx.text(WatchMessage::Subscribed { types: &self.types }.encode());
            }
            Ok(WatchRequest::Ping) => ctx.text(WatchMessage::Pong.encode()),
            Ok(WatchRequest::Subscribe { .. }) => {
                let about = format!(
                    "`types` has at most {MAX_TYPES} entries of 1 to {MAX_TYPE_BYTES} bytes"
                );
                self.refuse(&about, ctx);
            }
            Err(error) => {
                let known = r#"say {"type": "subscribe", "types": [..]} or {"type": "ping"}"#;
                self.refuse(&format!("{error}: {known}"), ctx);
            }
        }
    }

    fn refuse(&mut self, about: &str, ctx: &mut Ctx) {
        self.unfit += 1;
        if self.unfit > MAX_UNFIT {
            return self.leave(Fault::Protocol, ctx);
        }
        ctx.text(WatchMessage::error(Fault::InvalidRequest.code(), about).encode());
    }
}

impl Actor for WatchActor {
    type Context = Ctx;

    fn started(&mut self, ctx: &mut Ctx) {
        let _in = self.span.clone().entered();
        if let Some(ended) = self.ended.take() {
            let ended = wrap_future::<_, Self>(ended);
            ctx.spawn(ended.map(|fault, act, ctx| act.leave(fault, ctx)));
        }
        let Some(Watch { complete, missed, events }) = self.watch.take() else { return };
        ctx.text(WatchMessage::Connected { session_id: &self.session, complete }.encode());
        // As a stream: a few events at a time, and only while the watcher reads.
        let missed = futures_util::stream::iter(missed);
        ctx.add_stream(missed.chain(ReceiverStream::new(events)));
        ctx.run_interval(self.settings.ping_every, |act, ctx| {
            let _in = act.span.clone().entered();
            if act.last_heard.elapsed() >= act.settings.dead_after {
                return act.leave(Fault::Idle, ctx);
            }
            ctx.ping();
        });
        tracing::debug!("watching");
    }
}

impl StreamHandler<SocketFrame> for WatchActor {
    fn handle(&mut self, frame: SocketFrame, ctx: &mut Ctx) {
        let _in = self.span.clone().entered();
        self.last_heard = Instant::now();
        match self.inbound.accept(frame, ctx) {
            Incoming::Text(text) => self.text(&text, ctx),
            Incoming::Binary(_) => self.refuse("binary messages are not understood", ctx),
            Incoming::Alive | Incoming::Closed => {}
            Incoming::Broken(fault) => self.leave(fault, ctx),
        }
    }

    /// Stops the actor, because the peer dropped the connection.
    fn finished(&mut self, ctx: &mut Ctx) {
        ctx.stop();
    }
}

impl StreamHandler<Event> for WatchActor {
    fn handle(&mut self, event: Event, ctx: &mut Ctx) {
        self.send_event(&event, ctx);
    }

    /// Closes the connection, because the watcher read too slowly.
    fn finished(&mut self, ctx: &mut Ctx) {
        let _in = self.span.clone().entered();
        self.leave(Fault::Lagging, ctx);
    }
}
