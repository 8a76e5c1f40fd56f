//! WatchActor: the socket of somebody who watches a chat session. Writes what happens, as far as
//! the watcher wants it. Not for what happens.
//!
//! - Events come by a bounded lane that ends where the watcher is too slow; nobody waits for it.

use std::time::Duration;

use actix::fut::{ActorFutureExt as _, wrap_future};
use actix::{Actor, ActorContext as _, AsyncContext as _, StreamHandler};
use hearken_proto::chat::{Event, WatchRequest, WatchTold, matches};
use hearken_proto::fault::Fault;
use hearken_proto::ids::SessionId;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use crate::ports::Watch;
use crate::ws_link::{self, Inbound, Incoming, SocketContext, SocketFrame};

/// Most types of a filter, and the longest.
const MAX_TYPES: usize = 64;
const MAX_TYPE_BYTES: usize = 128;

/// Messages of a watcher that are not understood before it is closed.
const MAX_UNFIT: u32 = 100;

/// How a watcher is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchSettings {
    /// It is pinged this often.
    pub ping_every: Duration,
    /// One that sends nothing at all for this long is gone.
    pub dead_after: Duration,
}

/// The socket of one watcher.
pub struct WatchActor {
    session: SessionId,
    types: Vec<String>,
    watch: Option<Watch>,
    settings: WatchSettings,
    inbound: Inbound,
    unfit: u32,
    last_heard: Instant,
    process: CancellationToken,
    _place: OwnedSemaphorePermit,
    span: tracing::Span,
}

type Ctx = SocketContext<WatchActor>;

/// A filter that is not absurdly long.
pub fn fits(types: &[String]) -> bool {
    types.len() <= MAX_TYPES && types.iter().all(|t| !t.is_empty() && t.len() <= MAX_TYPE_BYTES)
}

impl WatchActor {
    /// A socket that tells what `watch` brings, of these types, and ends with `process`.
    pub fn new(
        session: SessionId,
        types: Vec<String>,
        watch: Watch,
        settings: WatchSettings,
        place: OwnedSemaphorePermit,
        process: CancellationToken,
    ) -> Self {
        let span = tracing::info_span!("watcher", session = %session);
        Self {
            session,
            types,
            watch: Some(watch),
            settings,
            inbound: Inbound::default(),
            unfit: 0,
            last_heard: Instant::now(),
            process,
            _place: place,
            span,
        }
    }

    fn tell(&self, event: &Event, ctx: &mut Ctx) {
        if matches(&self.types, &event.kind) {
            ctx.text(WatchTold::Event { event }.encode());
        }
    }

    fn leave(&mut self, fault: Fault, ctx: &mut Ctx) {
        tracing::info!(fault = fault.code(), "closing");
        ws_link::close(ctx, fault);
    }

    fn text(&mut self, text: &str, ctx: &mut Ctx) {
        match WatchRequest::decode(text) {
            Ok(WatchRequest::Subscribe { types }) if fits(&types) => {
                self.types = types;
                ctx.text(WatchTold::Subscribed { types: &self.types }.encode());
            }
            Ok(WatchRequest::Ping) => ctx.text(WatchTold::Pong.encode()),
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
        ctx.text(WatchTold::error(Fault::InvalidRequest.code(), about).encode());
    }
}

impl Actor for WatchActor {
    type Context = Ctx;

    fn started(&mut self, ctx: &mut Ctx) {
        let _in = self.span.clone().entered();
        let ended = wrap_future::<_, Self>(self.process.clone().cancelled_owned());
        ctx.spawn(ended.map(|(), act, ctx| act.leave(Fault::GoingAway, ctx)));
        let Some(Watch { complete, missed, events }) = self.watch.take() else { return };
        ctx.text(WatchTold::Connected { session_id: &self.session, complete }.encode());
        for event in &missed {
            self.tell(event, ctx);
        }
        ctx.add_stream(ReceiverStream::new(events));
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

    /// The peer dropped the connection.
    fn finished(&mut self, ctx: &mut Ctx) {
        ctx.stop();
    }
}

impl StreamHandler<Event> for WatchActor {
    fn handle(&mut self, event: Event, ctx: &mut Ctx) {
        self.tell(&event, ctx);
    }

    /// The watcher did not read as fast as things happened.
    fn finished(&mut self, ctx: &mut Ctx) {
        let _in = self.span.clone().entered();
        self.leave(Fault::Lagging, ctx);
    }
}
