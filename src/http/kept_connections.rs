//! Idle timer of HTTP connections: closes one on which no request has started or ended for too
//! long. actix-http has timers for the first request of a connection and for the silence after a
//! response, but not for a later request that arrives byte by byte. Not for WebSockets, which have
//! their own timers, nor for requests in progress.

use std::net::Shutdown;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_web::body::BoxBody;
use actix_web::dev::{Extensions, ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::middleware::Next;
use actix_web::rt::net::TcpStream;
use actix_web::{Error, HttpRequest};
use hearken_base::slots::Slot;
use socket2::{SockRef, Socket};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::http::held_body::hold;

/// Watched connection.
#[derive(Clone)]
struct KeptConnection(Arc<Watched>);

struct Watched {
    state: Mutex<WatchedState>,
    take_idle: TakeIdleSlot,
    /// Ends the watch with the connection.
    _ended: DropGuard,
}

struct WatchedState {
    /// Second handle of the socket; `None` once the connection is no longer watched.
    socket: Option<Socket>,
    /// Number of requests in progress.
    requests: usize,
    /// Time at which the last request ended, or at which the connection was opened.
    idle_since: Instant,
    /// Slot among the connections without a request in progress.
    idle: Option<Slot>,
}

/// Takes a slot among the connections without a request in progress, for the peer of one
/// connection. `None` if its address, or all addresses together, have too many; each may buffer
/// part of a request head.
pub type TakeIdleSlot = Box<dyn Fn() -> Option<Slot> + Send + Sync>;

impl Watched {
    fn lock(&self) -> MutexGuard<'_, WatchedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when to check the connection again. Closes it if no request was in progress for
    /// `limit`. `None` once it is no longer watched.
    fn check(&self, limit: Duration) -> Option<Instant> {
        let mut state = self.lock();
        let socket = state.socket.as_ref()?;
        let now = Instant::now();
        if state.requests > 0 {
            return Some(now + limit);
        }
        let due = state.idle_since + limit;
        if now < due {
            return Some(due);
        }
        close(socket);
        state.socket = None;
        None
    }
}

/// Shuts down the reading half of a connection; a response in progress is still written.
fn close(socket: &Socket) {
    if let Err(error) = socket.shutdown(Shutdown::Read) {
        tracing::debug!(%error, "cannot close a connection");
    }
}

/// Returns a further handle of the connection of a request; `None` if the connection is not watched.
pub(crate) fn handle_of(request: &HttpRequest) -> Option<Socket> {
    let connection = request.conn_data::<KeptConnection>()?;
    let state = connection.0.lock();
    let handle = state.socket.as_ref()?.try_clone();
    handle
        .inspect_err(|error| tracing::debug!(%error, "cannot copy the handle of a connection"))
        .ok()
}

/// Breaks a connection off. What its peer has not received yet is dropped.
pub(crate) fn break_off(socket: &Socket) {
    let broken = socket.set_linger(Some(Duration::ZERO));
    if let Err(error) = broken.and_then(|()| socket.shutdown(Shutdown::Both)) {
        tracing::debug!(%error, "cannot break a connection off");
    }
}

/// Watches a new connection: `limit` is the maximum time before its first request and between
/// requests. Closes it at once if there are too many connections without a request in progress.
pub fn watch(
    stream: &TcpStream,
    extensions: &mut Extensions,
    limit: Duration,
    take_idle: TakeIdleSlot,
) {
    let socket = match SockRef::from(stream).try_clone() {
        Ok(socket) => Some(socket),
        Err(error) => {
            tracing::debug!(%error, "cannot watch a connection");
            return;
        }
    };
    let idle = take_idle();
    if idle.is_none() {
        tracing::debug!("closing a connection: too many have no request in progress");
        return socket.iter().for_each(close);
    }
    let ended = CancellationToken::new();
    let state = WatchedState { socket, requests: 0, idle_since: Instant::now(), idle };
    let state = Mutex::new(state);
    let watched = Arc::new(Watched { state, take_idle, _ended: ended.clone().drop_guard() });
    let weak = Arc::downgrade(&watched);
    extensions.insert(KeptConnection(watched));
    actix_web::rt::spawn(ended.run_until_cancelled_owned(async move {
        while let Some(due) = weak.upgrade().and_then(|watched| watched.check(limit)) {
            tokio::time::sleep_until(due).await;
        }
    }));
}

/// Counts a request of a watched connection until its response is written. A connection that
/// becomes a WebSocket is no longer watched.
pub(crate) async fn counted(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let Some(connection) = request.conn_data::<KeptConnection>().cloned() else {
        return next.call(request).await;
    };
    let progress = RequestInProgress::begin(connection);
    let response = next.call(request).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        progress.0.0.lock().socket = None;
        return Ok(response);
    }
    Ok(hold(response, progress))
}

struct RequestInProgress(KeptConnection);

impl RequestInProgress {
    fn begin(connection: KeptConnection) -> Self {
        let mut state = connection.0.lock();
        state.requests += 1;
        let idle = state.idle.take();
        drop(state);
        drop(idle);
        Self(connection)
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.requests -= 1;
        state.idle_since = Instant::now();
        if state.requests > 0 || state.socket.is_none() {
            return;
        }
        state.idle = (self.0.0.take_idle)();
        if state.idle.is_none() {
            tracing::debug!("closing a connection: too many have no request in progress");
            state.socket.take().iter().for_each(close);
        }
    }
}

#[cfg(test)]
mod tests {
    use hearken_base::slots::Slots;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// A connection, as both of its ends.
    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, served) = tokio::join!(client, listener.accept());
        (client.unwrap(), served.unwrap().0)
    }

    /// Returns true if the server still reads from the connection.
    async fn is_read(served: &mut TcpStream) -> bool {
        let reading = tokio::time::timeout(Duration::from_millis(50), served.read_u8());
        reading.await.is_err()
    }

    #[actix_web::test]
    async fn an_address_has_a_limited_number_of_connections_without_a_request() {
        let slots = Slots::new(9, 2);
        let take = || -> TakeIdleSlot {
            let slots = slots.clone();
            Box::new(move || slots.take(Some("192.0.2.7")).ok())
        };
        let mut all = Vec::new();
        for _ in 0..3 {
            let (client, served) = connected().await;
            let mut extensions = Extensions::new();
            watch(&served, &mut extensions, Duration::from_secs(60), take());
            all.push((client, served, extensions));
        }
        let [one, two, three] = &mut all[..] else { panic!() };
        assert!(is_read(&mut one.1).await && is_read(&mut two.1).await);
        assert!(!is_read(&mut three.1).await, "it is over the limit");
        // A request in progress releases the slot, and takes one at its end if one is free.
        let first = one.2.get::<KeptConnection>().unwrap().clone();
        let progress = RequestInProgress::begin(first);
        let (_client, mut served) = connected().await;
        let mut extensions = Extensions::new();
        watch(&served, &mut extensions, Duration::from_secs(60), take());
        assert!(is_read(&mut served).await);
        drop(progress);
        assert!(!is_read(&mut one.1).await, "its slot is taken");
        assert!(is_read(&mut two.1).await);
    }
}
