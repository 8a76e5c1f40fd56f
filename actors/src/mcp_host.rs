//! McpHostActor: lists the tools of one device and stores the list for the conversation. Not for
//! tool calls, which belong to the turn, nor for other tool sources.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use actix::fut::WrapFuture as _;
use actix::{Actor, AsyncContext as _, Context, Handler, Recipient, SpawnHandle};
use hearken_base::memory_pool::Reserved;
use hearken_dialogue::metrics::actor_metrics;
use rmcp::service::{RoleClient, RunningService, serve_directly};
use serde_json::Value;
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::device_tools::iot::ThingTools;
use crate::device_tools::link::{DeviceLink, INBOUND, Inbound};
use crate::device_tools::repair::Extras;
use crate::device_tools::{DeviceTools, McpClientHandler, initialize_request};
use crate::messages::{DeviceOrder, DeviceToolMessage, ToolsListed};

/// Seconds until a device gets a fresh token for its camera, drawn at random each time, so that
/// devices that connected together do not renew together. Tokens live an hour. Decision 0024.
const TOKEN_RENEWAL_S: Range<u64> = 20 * 60..40 * 60;

/// Delay before a device that was too busy is sent its token again.
const RENEWAL_RETRY: Duration = Duration::from_secs(60);

/// Delays before retries of listing the tools. After the last one, the tools are listed again only
/// when the device reports a change.
const LIST_RETRIES: [Duration; 5] = [
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
    Duration::from_secs(32),
];

/// Multiple of the usual timeout for the start of a device's MCP server.
const INITIALISES_WITHIN: u32 = 6;

/// First and maximum delay before the start of a device's MCP server is retried.
const FIRST_RETRY: Duration = Duration::from_secs(10);
const LONGEST_RETRY: Duration = Duration::from_secs(600);

/// Time without calls after which the MCP connection to a device is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Actor that holds the tools of one device's connection.
pub struct McpHostActor {
    connection: CancellationToken,
    device: Recipient<DeviceOrder>,
    session: Recipient<ToolsListed>,
    tools: Arc<DeviceTools>,
    things: Arc<ThingTools>,
    timeout: Duration,
    extras: Extras,
    next_id: Arc<AtomicI64>,
    exchange: Option<Exchange>,
}

/// Exchange with the device's MCP server since its last hello.
struct Exchange {
    inbound: mpsc::Sender<Reserved<Value>>,
    work: SpawnHandle,
}

impl McpHostActor {
    /// Creates a host that stores the device's tools in `tools`, or with old firmware in `things`,
    /// and notifies `session`. It waits for each answer for at most `timeout`.
    pub fn new(
        connection: CancellationToken,
        device: Recipient<DeviceOrder>,
        session: Recipient<ToolsListed>,
        tools: Arc<DeviceTools>,
        things: Arc<ThingTools>,
        timeout: Duration,
        extras: Extras,
    ) -> Self {
        let next_id = Arc::new(AtomicI64::new(1));
        Self {
            connection,
            device,
            session,
            tools,
            things,
            timeout,
            extras,
            next_id,
            exchange: None,
        }
    }

    /// Starts again after a hello: pending requests are cancelled, and late answers are dropped.
    fn hello(&mut self, speaks_mcp: bool, ctx: &mut Context<Self>) {
        if let Some(exchange) = self.exchange.take() {
            ctx.cancel_future(exchange.work);
        }
        self.tools.forget();
        self.things.forget();
        if speaks_mcp {
            let (inbound, messages) = mpsc::channel(INBOUND);
            let device = self.device.clone();
            let next_id = Arc::clone(&self.next_id);
            let exchange = ExchangeTask {
                device,
                inbound: Arc::new(Mutex::new(messages)),
                next_id,
                extras: self.extras.clone(),
                tools: Arc::clone(&self.tools),
                session: self.session.clone(),
                timeout: self.timeout,
                changed: Arc::default(),
            };
            let work = ctx.spawn(exchange.run().into_actor(self));
            self.exchange = Some(Exchange { inbound, work });
        }
    }
}

/// Notifies the session that the tools are known. A full mailbox is ignored: such a busy session
/// needs no prefetch.
fn notify(session: &Recipient<ToolsListed>) {
    session.try_send(ToolsListed).ok();
}

fn next_renewal() -> Instant {
    Instant::now() + Duration::from_secs(fastrand::u64(TOKEN_RENEWAL_S))
}

/// Schedule of retries after a failed listing.
struct ListRetry {
    at: Option<Instant>,
    waits: std::slice::Iter<'static, Duration>,
}

impl ListRetry {
    fn after(is_listed: bool) -> Self {
        let mut retry = Self { at: None, waits: LIST_RETRIES.iter() };
        retry.again(is_listed);
        retry
    }

    fn again(&mut self, is_listed: bool) {
        let wait = if is_listed { None } else { self.waits.next() };
        self.at = wait.map(|wait| Instant::now() + *wait);
    }

    /// Resolves when a retry is due; never if the tools are listed or all retries are used up.
    async fn is_due(&self) {
        match self.at {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}

type Service = RunningService<RoleClient, McpClientHandler>;

/// Exchange with one device since its hello. rmcp holds tens of KiB for each open connection, so it
/// is open only while it is in use; the device notices nothing. Decision 0007.
struct ExchangeTask {
    device: Recipient<DeviceOrder>,
    inbound: Inbound,
    next_id: Arc<AtomicI64>,
    extras: Extras,
    tools: Arc<DeviceTools>,
    session: Recipient<ToolsListed>,
    timeout: Duration,
    changed: Arc<Notify>,
}

impl ExchangeTask {
    /// Initialises the MCP session, then lists the device's tools now and whenever they change.
    async fn run(self) {
        // Boxed, so that memory needed only once is freed afterwards.
        let mut wait = FIRST_RETRY;
        let mut service = loop {
            if let Some(service) = Box::pin(self.initialise()).await {
                break service;
            }
            sleep(wait).await;
            wait = (wait * 2).min(LONGEST_RETRY);
        };
        let Some(info) = service.peer().peer_info() else { return };
        let mut is_listed = Box::pin(self.refresh(&service)).await;
        let mut renewal = next_renewal();
        loop {
            Box::pin(self.serve(&service, is_listed)).await;
            is_listed = true;
            if service.cancel().await.is_err() {
                return tracing::error!("the MCP exchange with the device panicked");
            }
            let link = self.link().with_first_message(self.idle(&mut renewal).await);
            service = serve_directly(self.handler(), link, Some((*info).clone()));
            self.tools.mark_open(service.peer());
        }
    }

    /// Waits, with the MCP connection closed, until it is needed: by a call (returns `None`), or by
    /// a request or notification of the device, which is returned. Meanwhile the device's camera
    /// gets fresh tokens, without a connection.
    async fn idle(&self, renewal: &mut Instant) -> Option<Reserved<Value>> {
        loop {
            tokio::select! {
                () = self.tools.wait_until_needed() => return None,
                message = self.next_message() => {
                    if message.get("method").is_some() {
                        return Some(message);
                    }
                    tracing::debug!("dropped an MCP answer of the device: no request is pending");
                }
                () = sleep_until(*renewal), if self.extras.vision.is_some() => {
                    *renewal = self.renew();
                }
            }
        }
    }

    /// Returns the device's next message; never resolves once the exchange is over.
    async fn next_message(&self) -> Reserved<Value> {
        match self.inbound.lock().await.recv().await {
            Some(message) => message,
            None => std::future::pending().await,
        }
    }

    /// Sends the device's camera a fresh token. Returns the time of the next renewal.
    fn renew(&self) -> Instant {
        match self.link().send_request(initialize_request()) {
            Ok(()) => next_renewal(),
            Err(error) => {
                tracing::warn!(%error, "cannot renew the token of the device's camera; trying again later");
                Instant::now() + RENEWAL_RETRY
            }
        }
    }

    fn handler(&self) -> McpClientHandler {
        McpClientHandler { changed: Arc::clone(&self.changed) }
    }

    fn link(&self) -> DeviceLink {
        let device = self.device.clone();
        let inbound = Arc::clone(&self.inbound);
        DeviceLink::new(device, inbound, Arc::clone(&self.next_id), self.extras.clone())
    }

    async fn initialise(&self) -> Option<Service> {
        let within = self.timeout * INITIALISES_WITHIN;
        match timeout(within, rmcp::serve_client(self.handler(), self.link())).await {
            Ok(Ok(service)) => return Some(service),
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot initialise the device's MCP server; trying again later");
            }
            Err(_) => {
                tracing::warn!(
                    "the device's MCP server did not answer in time; trying again later"
                );
            }
        }
        None
    }

    /// Lists the tools. Returns false if the list is incomplete.
    async fn refresh(&self, service: &Service) -> bool {
        let is_listed = self.tools.refresh(service.peer()).await;
        notify(&self.session);
        is_listed
    }

    /// Serves the open MCP connection until no call has used it for `IDLE_TIMEOUT`, and the tools are listed.
    async fn serve(&self, service: &Service, is_listed: bool) {
        let mut retry = ListRetry::after(is_listed);
        loop {
            tokio::select! {
                biased;
                () = self.changed.notified() => retry = ListRetry::after(self.refresh(service).await),
                () = retry.is_due() => retry.again(self.refresh(service).await),
                () = self.tools.wait_until_needed() => {}
                () = sleep(IDLE_TIMEOUT), if retry.at.is_none() => {
                    if self.tools.mark_idle(service.peer()) {
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

    /// Drops the tools and cancels the connection, even after a panic: a connection without one of
    /// its actors must end.
    fn stopped(&mut self, _: &mut Self::Context) {
        self.tools.forget();
        self.things.forget();
        self.connection.cancel();
    }
}

impl Handler<DeviceToolMessage> for McpHostActor {
    type Result = ();

    fn handle(&mut self, message: DeviceToolMessage, ctx: &mut Self::Context) {
        match message {
            DeviceToolMessage::Hello(features) => self.hello(features.mcp, ctx),
            DeviceToolMessage::Iot(report) => {
                // States arrive with every listening period, descriptions once.
                let described = !report.things.is_empty();
                self.things.note(report.into_parts().0);
                if described {
                    notify(&self.session);
                }
            }
            DeviceToolMessage::Mcp(message) => {
                let taken =
                    self.exchange.as_ref().map(|exchange| exchange.inbound.try_send(message));
                match taken {
                    Some(Ok(())) => {}
                    Some(Err(mpsc::error::TrySendError::Full(_))) => {
                        actor_metrics().drops.tools.increment(1);
                        tracing::debug!("dropped an MCP message of the device: the queue is full");
                    }
                    Some(Err(mpsc::error::TrySendError::Closed(_))) => {
                        tracing::debug!(
                            "dropped an MCP message of the device: its MCP exchange has ended"
                        );
                    }
                    None => tracing::debug!(
                        "dropped an MCP message of a device that announced no tools"
                    ),
                }
            }
        }
    }
}
