//! McpHostActor: asks one device for its tools and keeps them for the conversation. Not for when
//! a tool is called, which is the turn's part, nor for sources elsewhere.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use actix::fut::WrapFuture as _;
use actix::{Actor, AsyncContext as _, Context, Handler, Recipient, SpawnHandle};
use rmcp::service::{Peer, RoleClient};
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::messages::{DeviceOrder, DeviceSaid, ToolsKnown};
use crate::tools::device::{Caller, DeviceTools, introduce_again};
use crate::tools::iot::ThingTools;
use crate::tools::link::{DeviceLink, INBOUND};
use crate::tools::repair::Extras;

/// How often a device gets a fresh token for its camera; tokens live an hour.
const VISION_RENEWED: Duration = Duration::from_secs(30 * 60);

/// The tools of one device's connection.
pub struct McpHostActor {
    connection: CancellationToken,
    device: Recipient<DeviceOrder>,
    session: Recipient<ToolsKnown>,
    tools: Arc<DeviceTools>,
    things: Arc<ThingTools>,
    timeout: Duration,
    extras: Extras,
    next_id: Arc<AtomicI64>,
    talk: Option<Talk>,
}

/// The talk with the device's MCP server since its last hello.
struct Talk {
    inbound: mpsc::Sender<Value>,
    work: SpawnHandle,
}

impl McpHostActor {
    /// A host that keeps what `device` tells in `tools`, or with old firmware in `things`, and lets
    /// `session` know; each answer is waited for by `timeout`.
    pub fn new(
        connection: CancellationToken,
        device: Recipient<DeviceOrder>,
        session: Recipient<ToolsKnown>,
        tools: Arc<DeviceTools>,
        things: Arc<ThingTools>,
        timeout: Duration,
        extras: Extras,
    ) -> Self {
        let next_id = Arc::new(AtomicI64::new(1));
        Self { connection, device, session, tools, things, timeout, extras, next_id, talk: None }
    }

    /// A hello begins anew: what was asked before is given up, and late answers are dropped.
    fn hello(&mut self, speaks_mcp: bool, ctx: &mut Context<Self>) {
        if let Some(talk) = self.talk.take() {
            ctx.cancel_future(talk.work);
        }
        self.tools.forget();
        self.things.forget();
        if speaks_mcp {
            let (inbound, messages) = mpsc::channel(INBOUND);
            let (device, next_id) = (self.device.clone(), Arc::clone(&self.next_id));
            let link = DeviceLink::new(device, messages, next_id, self.extras.clone());
            let known = Known { tools: Arc::clone(&self.tools), session: self.session.clone() };
            let work = keep_asking(link, known, self.timeout, self.extras.vision.is_some());
            let work = ctx.spawn(work.into_actor(self));
            self.talk = Some(Talk { inbound, work });
        }
    }
}

/// Where a device's tools are kept, and who is told of them.
struct Known {
    tools: Arc<DeviceTools>,
    session: Recipient<ToolsKnown>,
}

impl Known {
    async fn refresh(&self, peer: &Peer<RoleClient>) {
        self.tools.refresh(peer).await;
        tell(&self.session);
    }
}

/// A session that is too busy to hear it needs no help.
fn tell(session: &Recipient<ToolsKnown>) {
    session.try_send(ToolsKnown).ok();
}

/// Introduces us, and asks for the device's tools now and whenever they change.
async fn keep_asking(link: DeviceLink, known: Known, timeout: Duration, has_vision: bool) {
    let changed = Arc::new(Notify::new());
    let caller = Caller { changed: Arc::clone(&changed) };
    let service = match tokio::time::timeout(timeout, rmcp::serve_client(caller, link)).await {
        Ok(Ok(service)) => service,
        Ok(Err(error)) => {
            return tracing::warn!(%error, "a device offers tools and cannot be asked");
        }
        Err(_) => return tracing::warn!("a device offers tools and does not answer"),
    };
    known.refresh(service.peer()).await;
    let mut renewal = tokio::time::interval_at(Instant::now() + VISION_RENEWED, VISION_RENEWED);
    loop {
        tokio::select! {
            () = changed.notified() => known.refresh(service.peer()).await,
            _ = renewal.tick(), if has_vision => introduce_again(service.peer(), timeout).await,
        }
    }
}

impl Actor for McpHostActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        crate::lifetime::stop_with(&self.connection, ctx);
    }

    /// Also after a panic: a connection with a stage missing must end.
    fn stopped(&mut self, _: &mut Self::Context) {
        self.tools.forget();
        self.things.forget();
        self.connection.cancel();
    }
}

impl Handler<DeviceSaid> for McpHostActor {
    type Result = ();

    fn handle(&mut self, said: DeviceSaid, ctx: &mut Self::Context) {
        match said {
            DeviceSaid::Hello(features) => self.hello(features.mcp, ctx),
            DeviceSaid::Iot(report) => {
                // How things are comes with every listening; what there is, once.
                let described = !report.things.is_empty();
                self.things.note(report);
                if described {
                    tell(&self.session);
                }
            }
            DeviceSaid::Mcp(message) => {
                let taken = self.talk.as_ref().map(|talk| talk.inbound.try_send(message));
                match taken {
                    Some(Ok(())) => {}
                    Some(Err(_)) => tracing::debug!("an MCP message that nobody takes is dropped"),
                    None => tracing::debug!("an MCP message of a device that offers no tools"),
                }
            }
        }
    }
}
