//! Pool of a provider's WebSocket connections. Not for the messages on them.
//!
//! - At most `max_connections` are in use, and at most `max_idle` are idle.
//! - Each unused connection has one small task that reads it (to notice a close at once), pings it
//!   (to notice a half-open connection at the second ping) and closes it after its time. The task
//!   ends when its claim is used or dropped: it never outlives the pool.
//! - A connection returns to the pool only by [`Lease::give_back`]. A dropped lease closes its
//!   connection in the background.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hearken_outbound::websocket;
use hearken_ports::{ProviderError, ProviderErrorKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::settings::{PoolSettings, ms};
use super::ws::{Endpoint, Incoming, Socket};

/// Maximum wait for a task to hand over its unused connection. After that, a new one is opened.
const HAND_OVER: Duration = Duration::from_millis(250);

/// Time limit for sending a ping.
const PING_TAKEN: Duration = Duration::from_secs(1);

/// Connections to one provider.
#[derive(Debug)]
pub(super) struct Pool {
    endpoint: Endpoint,
    settings: PoolSettings,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Claim>>,
}

/// Request to an unused connection's task for its connection.
type Claim = oneshot::Sender<oneshot::Sender<Socket>>;

/// Connection in use.
#[derive(Debug)]
pub(super) struct Lease {
    pool: Arc<Pool>,
    /// Taken when the lease ends.
    socket: Option<Socket>,
    reused: bool,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    /// Creates an empty pool without connecting yet.
    pub(super) fn new(endpoint: Endpoint, settings: PoolSettings) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(settings.max_connections));
        Arc::new(Self { endpoint, settings, permits, idle: Mutex::default() })
    }

    /// Returns an unused connection if there is one, else opens a new one.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease, ProviderError> {
        let waiting = timeout(self.endpoint.connect_timeout, self.permits.clone().acquire_owned());
        let busy = || {
            let most = self.settings.max_connections;
            let why = format!("all {most} connections are in use; raise pool.max_connections");
            self.endpoint.failed(ProviderErrorKind::Unavailable, why)
        };
        let permit = waiting.await.map_err(|_| busy())?.map_err(|_| busy())?;
        let (socket, reused) = match self.claim().await {
            Some(socket) => (socket, true),
            None => (self.endpoint.connect().await?, false),
        };
        Ok(Lease { pool: self.clone(), socket: Some(socket), reused, _permit: permit })
    }

    /// Checks that the provider is reachable over a new connection, which then joins the pool.
    pub(super) async fn probe(&self) -> Result<(), ProviderError> {
        let socket = self.endpoint.probe().await?;
        self.keep(socket);
        Ok(())
    }

    /// Returns the most recently used connection that is still alive.
    async fn claim(&self) -> Option<Socket> {
        loop {
            let claim = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            let (give, take) = oneshot::channel();
            if claim.send(give).is_ok()
                && let Ok(Ok(socket)) = timeout(HAND_OVER, take).await
            {
                return Some(socket);
            }
        }
    }

    /// Stores a connection for the next use, or closes it if enough are stored.
    fn keep(&self, socket: Socket) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|claim| !claim.is_closed());
        if idle.len() < self.settings.max_idle {
            let (claim, claimed) = oneshot::channel();
            idle.push(claim);
            runtime.spawn(rest(socket, claimed, self.settings.clone()));
        } else {
            websocket::end_behind(socket);
        }
    }
}

impl Lease {
    /// Returns true if the connection was used before: the other end may have closed it unnoticed.
    pub(super) fn is_reused(&self) -> bool {
        self.reused
    }

    /// Replaces the connection by a new one.
    pub(super) async fn renew(&mut self) -> Result<(), ProviderError> {
        let fresh = self.pool.endpoint.connect().await?;
        if let Some(lost) = self.socket.replace(fresh) {
            websocket::end_behind(lost);
        }
        self.reused = false;
        Ok(())
    }

    /// Returns the connection to the pool: no further message is expected on it.
    pub(super) fn give_back(mut self) {
        if let Some(socket) = self.socket.take() {
            self.pool.keep(socket);
        }
    }

    /// Sends one message.
    pub(super) async fn send(&mut self, message: Message) -> Result<(), ProviderError> {
        self.pool.endpoint.send(open(&mut self.socket), message).await
    }

    /// Waits for the next message until `deadline`; `missing` describes the missing message.
    pub(super) async fn receive(
        &mut self,
        deadline: Instant,
        missing: &'static str,
    ) -> Result<Incoming, ProviderError> {
        self.pool.endpoint.receive(open(&mut self.socket), deadline, missing).await
    }

    /// Returns a message that has already arrived, without waiting.
    pub(super) fn take_ready(&mut self) -> Result<Option<Incoming>, ProviderError> {
        self.pool.endpoint.take_ready(open(&mut self.socket))
    }

    /// Returns the endpoint of the connection, for errors.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.pool.endpoint
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take() {
            websocket::end_behind(socket);
        }
    }
}

fn open(socket: &mut Option<Socket>) -> &mut Socket {
    socket.as_mut().expect("a lease holds its connection until it ends")
}

/// Monitors an unused connection until it is claimed, dies or reaches its time limit.
async fn rest(
    mut socket: Socket,
    mut claimed: oneshot::Receiver<oneshot::Sender<Socket>>,
    settings: PoolSettings,
) {
    let now = Instant::now();
    let every = ms(settings.ping_every_ms);
    let mut ping = interval_at(now + every, every);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let end = now + ms(settings.idle_for_ms);
    let mut heard = true;
    loop {
        tokio::select! {
            biased;
            claim = &mut claimed => {
                let Ok(give) = claim else { break };
                match give.send(socket) {
                    Ok(()) => return,
                    // The claimant stopped waiting: the connection is closed.
                    Err(unclaimed) => socket = unclaimed,
                }
                break;
            }
            message = socket.next() => match message {
                Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                Some(Ok(_)) => heard = true,
            },
            () = sleep_until(end) => break,
            _ = ping.tick() => {
                let sent = timeout(PING_TAKEN, socket.send(Message::Ping(Bytes::new())));
                if !heard || !matches!(sent.await, Ok(Ok(()))) {
                    tracing::debug!("dropped an unused connection that no longer answers");
                    break;
                }
                heard = false;
            }
        }
    }
    websocket::end(socket, websocket::because(CloseCode::Normal, "")).await;
}
