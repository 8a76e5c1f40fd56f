//! McpHostActor: lists the tools of one device and keeps the list for the conversation. Not for
//! tool calls, which belong to the turn, nor for other tool sources.

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

/// Seconds until a device gets a fresh token for its camera, drawn anew each time, so that devices
/// that connected together do not renew together. Tokens live an hour.
const VISION_RENEWED: Range<u64> = 20 * 60..40 * 60;

/// Delay before a device that was too busy is sent its token again.
const RENEWED_AGAIN: Duration = Duration::from_secs(60);

/// Time without calls after which the MCP connection to a device is closed.
const LINGERS: Duration = Duration::from_secs(5);

/// Actor that keeps the tools of one device's connection.
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

/// Exchange with the device's MCP server since its last hello.
struct Talk {
    inbound: mpsc::Sender<Value>,
    work: SpawnHandle,
}

impl McpHostActor {
    /// Creates a host that stores the device's tools in `tools`, or with old firmware in `things`,
    /// and notifies `session`. It waits for each answer for at most `timeout`.
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

    /// Starts again after a hello: pending requests are cancelled, and late answers are dropped.
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

/// Notifies the session that the tools are known. A full mailbox is ignored: a session that is so
/// busy needs no prefetch.
fn tell(session: &Recipient<ToolsKnown>) {
    session.try_send(ToolsKnown).ok();
}

fn next_renewal() -> Instant {
    Instant::now() + Duration::from_secs(fastrand::u64(VISION_RENEWED))
}

type Service = RunningService<RoleClient, Caller>;

/// Exchange with one device since its hello. rmcp holds tens of KiB for each open connection, so it
/// is open only while it is in use; the device notices nothing.
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
    /// Initialises the MCP session, then lists the device's tools now and whenever they change.
    async fn keep_asking(self) {
        // Boxed, so that memory needed only once is freed afterwards.
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

    /// Waits, with the MCP connection closed, until it is needed: by a call (returns `None`), or by
    /// a request or notification of the device, which is returned. Meanwhile the device's camera
    /// gets fresh tokens, without a connection.
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

    /// Returns the device's next message; never resolves once the exchange is over.
    async fn hear(&self) -> Value {
        match self.inbound.lock().await.recv().await {
            Some(message) => message,
            None => std::future::pending().await,
        }
    }

    /// Sends the device's camera a fresh token. Returns the time of the next renewal.
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

    /// Serves the open MCP connection until no call has used it for `LINGERS`.
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

    /// Forgets the tools and cancels the connection, also after a panic: a connection without one
    /// of its actors must end.
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
                // States come with every listening period; descriptions come once.
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
