//! McpHostActor: asks one device for its tools and keeps them for the conversation. Not for when
//! a tool is called, which is the turn's part, nor for sources elsewhere.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use actix::fut::WrapFuture as _;
use actix::{Actor, AsyncContext as _, Context, Handler, Recipient, SpawnHandle};
use rmcp::service::{RoleClient, RunningService, serve_directly};
use serde_json::Value;
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::actors::messages::{DeviceOrder, DeviceSaid, ToolsKnown};
use crate::metrics::meters;
use crate::tools::device::{Caller, DeviceTools, introduction};
use crate::tools::iot::ThingTools;
use crate::tools::link::{DeviceLink, INBOUND, Inbound};
use crate::tools::repair::Extras;

/// Seconds after which a device gets a fresh token for its camera, drawn anew each time, so that
/// devices that came together are not told together. Tokens live an hour.
const VISION_RENEWED: Range<u64> = 20 * 60..40 * 60;

/// Wait before a device that had too much to do is given its token again.
const RENEWED_AGAIN: Duration = Duration::from_secs(60);

/// How long a line stays open after it was last used.
const LINGERS: Duration = Duration::from_secs(5);

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
            let host = Host {
                device,
                inbound: Arc::new(Mutex::new(messages)),
                next_id,
                extras: self.extras.clone(),
                tools: Arc::clone(&self.tools),
                session: self.session.clone(),
                timeout: self.timeout,
                changed: Arc::default(),
            };
            let work = ctx.spawn(host.keep_asking().into_actor(self));
            self.talk = Some(Talk { inbound, work });
        }
    }
}

/// A session that is too busy to hear it needs no help.
fn tell(session: &Recipient<ToolsKnown>) {
    session.try_send(ToolsKnown).ok();
}

fn next_renewal() -> Instant {
    Instant::now() + Duration::from_secs(fastrand::u64(VISION_RENEWED))
}

type Service = RunningService<RoleClient, Caller>;

/// The talk with one device since its hello. rmcp holds tens of KiB for each line that is open, so
/// that it is open only while somebody talks; the device notices nothing.
struct Host {
    device: Recipient<DeviceOrder>,
    inbound: Inbound,
    next_id: Arc<AtomicI64>,
    extras: Extras,
    tools: Arc<DeviceTools>,
    session: Recipient<ToolsKnown>,
    timeout: Duration,
    changed: Arc<Notify>,
}

impl Host {
    /// Introduces us, and asks for the device's tools now and whenever they change.
    async fn keep_asking(self) {
        // Boxed, so that what is needed once is not held for ever.
        let Some(mut service) = Box::pin(self.introduce()).await else { return };
        let Some(info) = service.peer().peer_info() else { return };
        Box::pin(self.refresh(&service)).await;
        let mut renewal = next_renewal();
        loop {
            Box::pin(self.talk(&service)).await;
            if service.cancel().await.is_err() {
                return tracing::error!("the talk with a device's tools broke");
            }
            let link = self.link().after(self.rest(&mut renewal).await);
            service = serve_directly(self.caller(), link, Some((*info).clone()));
            self.tools.open(service.peer());
        }
    }

    /// Until the line is to be taken up: by a call, or by what the device says of itself, which
    /// is returned. Meanwhile its camera gets fresh tokens, without a line.
    async fn rest(&self, renewal: &mut Instant) -> Option<Value> {
        loop {
            tokio::select! {
                () = self.tools.wanted() => return None,
                message = self.hear() => {
                    if message.get("method").is_some() {
                        return Some(message);
                    }
                    tracing::debug!("a device's answer that nobody waits for is dropped");
                }
                () = sleep_until(*renewal), if self.extras.vision.is_some() => {
                    *renewal = self.renew();
                }
            }
        }
    }

    /// The device's next message; never, where the talk is over.
    async fn hear(&self) -> Value {
        match self.inbound.lock().await.recv().await {
            Some(message) => message,
            None => std::future::pending().await,
        }
    }

    /// Gives the device's camera a fresh token; tells when to do so again.
    fn renew(&self) -> Instant {
        match self.link().ask(introduction()) {
            Ok(()) => next_renewal(),
            Err(error) => {
                tracing::warn!(%error, "a device's token for its camera is renewed later");
                Instant::now() + RENEWED_AGAIN
            }
        }
    }

    fn caller(&self) -> Caller {
        Caller { changed: Arc::clone(&self.changed) }
    }

    fn link(&self) -> DeviceLink {
        let (device, inbound) = (self.device.clone(), Arc::clone(&self.inbound));
        DeviceLink::new(device, inbound, Arc::clone(&self.next_id), self.extras.clone())
    }

    async fn introduce(&self) -> Option<Service> {
        match timeout(self.timeout, rmcp::serve_client(self.caller(), self.link())).await {
            Ok(Ok(service)) => return Some(service),
            Ok(Err(error)) => {
                tracing::warn!(%error, "a device offers tools and cannot be asked");
            }
            Err(_) => tracing::warn!("a device offers tools and does not answer"),
        }
        None
    }

    async fn refresh(&self, service: &Service) {
        self.tools.refresh(service.peer()).await;
        tell(&self.session);
    }

    /// As long as anybody talks on the line, and a while longer.
    async fn talk(&self, service: &Service) {
        loop {
            tokio::select! {
                biased;
                () = self.changed.notified() => self.refresh(service).await,
                () = self.tools.wanted() => {}
                () = sleep(LINGERS) => {
                    if self.tools.rest(service.peer()) {
                        return;
                    }
                }
            }
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
                    Some(Err(mpsc::error::TrySendError::Full(_))) => {
                        meters().drops.tools.increment(1);
                        tracing::debug!("an MCP message is dropped: too many wait");
                    }
                    Some(Err(mpsc::error::TrySendError::Closed(_))) => {
                        tracing::debug!("an MCP message of a device that was given up");
                    }
                    None => tracing::debug!("an MCP message of a device that offers no tools"),
                }
            }
        }
    }
}
