//! Timer of kept HTTP connections: closes one on which no request has been answered, or begun, for
//! too long. actix-http times the first request of a connection and the silence after an answer,
//! but not a later request that arrives byte by byte. Not for WebSockets, which have timers of
//! their own, nor for requests in progress.

use std::net::Shutdown;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_web::Error;
use actix_web::body::BoxBody;
use actix_web::dev::{Extensions, ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::middleware::Next;
use actix_web::rt::net::TcpStream;
use socket2::{SockRef, Socket};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::http::held_body::hold;

/// Connection that is watched.
#[derive(Clone)]
struct KeptConnection(Arc<Watched>);

struct Watched {
    state: Mutex<WatchedState>,
    /// Ends the watch with the connection.
    _ended: DropGuard,
}

struct WatchedState {
    /// Second handle of the connection. `None` once it is not watched any more.
    socket: Option<Socket>,
    /// Number of requests in progress.
    requests: usize,
    /// Time at which the last one ended, or of the connection's begin.
    idle_since: Instant,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, WatchedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time at which the connection is to be looked at again. Closes it if no request
    /// was in progress for `limit`. `None` if it is not watched any more.
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
        // Only the reading half: an answer that is still being written is written to its end.
        if let Err(error) = socket.shutdown(Shutdown::Read) {
            tracing::debug!(%error, "cannot close a connection whose next request is too slow");
        }
        state.socket = None;
        None
    }
}

/// Watches a new connection: `limit` is the longest time between its requests, or before the first.
pub fn watch(stream: &TcpStream, extensions: &mut Extensions, limit: Duration) {
    let socket = match SockRef::from(stream).try_clone() {
        Ok(socket) => Some(socket),
        Err(error) => {
            tracing::debug!(%error, "cannot watch a connection");
            return;
        }
    };
    let ended = CancellationToken::new();
    let state = Mutex::new(WatchedState { socket, requests: 0, idle_since: Instant::now() });
    let watched = Arc::new(Watched { state, _ended: ended.clone().drop_guard() });
    let weak = Arc::downgrade(&watched);
    extensions.insert(KeptConnection(watched));
    actix_web::rt::spawn(ended.run_until_cancelled_owned(async move {
        while let Some(due) = weak.upgrade().and_then(|watched| watched.check(limit)) {
            tokio::time::sleep_until(due).await;
        }
    }));
}

/// Counts a request of a watched connection until its answer is written. A connection that becomes
/// a WebSocket is not watched any more.
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
        connection.0.lock().requests += 1;
        Self(connection)
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.requests -= 1;
        state.idle_since = Instant::now();
    }
}
