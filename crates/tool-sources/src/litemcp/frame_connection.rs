//! Requests and responses over a connection of frames: ids, pending requests, and the end.
//! Unsolicited responses are dropped: late ones, duplicates, and unknown ids. Not for the transport
//! of frames.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use hearken_base::CLOSE_WITHIN;
use hearken_proto::litemcp::{Body, Envelope, Ids, VERSION, Version};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Capacity of the queue of outgoing requests.
const QUEUE: usize = 64;
/// Maximum number of pending requests; further ones fail.
const MAX_PENDING: usize = 64;
/// Maximum wait for the peer to accept a frame.
const SEND_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of unreadable frames; then the peer does not speak LiteMCP.
const MAX_UNREADABLE: u32 = 100;

/// Reason why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RequestError {
    /// The connection was closed before the request was sent.
    #[error("the connection was lost")]
    NeverLeft,
    /// The connection was lost while waiting.
    #[error("the connection was lost")]
    Lost,
    /// Too many other requests are pending.
    #[error("too many calls wait for their results")]
    Full,
    /// The response has an unsupported protocol version.
    #[error("incompatible LiteMCP version {0}: this server supports {VERSION}")]
    Version(Version),
    /// The response cannot be read, or belongs to another request.
    #[error("cannot read the tool's answer: {0}")]
    Unreadable(String),
}

pub(super) type ResponseBody = Result<Body, RequestError>;

/// Pending requests by id.
pub(super) struct PendingRequests {
    pub(super) by_id: HashMap<i64, oneshot::Sender<ResponseBody>>,
    pub(super) ids: Ids,
}

/// Connection; closed when dropped.
pub(super) struct FrameConnection {
    outgoing: mpsc::Sender<String>,
    pending: Arc<Mutex<PendingRequests>>,
    gone: CancellationToken,
    closing: CancellationToken,
}

impl Drop for FrameConnection {
    /// Signals the task to close gracefully, within the time limit of closing.
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

fn lock(pending: &Mutex<PendingRequests>) -> MutexGuard<'_, PendingRequests> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Guard that removes a pending request when its wait is abandoned.
struct PendingGuard<'a>(&'a Mutex<PendingRequests>, i64);

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        lock(self.0).by_id.remove(&self.1);
    }
}

impl FrameConnection {
    /// Creates a connection over these frames, one message per frame; an error of the stream ends
    /// it. Needs a running runtime.
    pub(super) fn new<S, R>(sink: S, stream: R) -> Self
    where
        S: Sink<String, Error: Display> + Unpin + Send + 'static,
        R: Stream<Item = Result<String, String>> + Unpin + Send + 'static,
    {
        let (outgoing, to_send) = mpsc::channel(QUEUE);
        let seed = uuid::Uuid::new_v4().as_fields().0;
        let pending = PendingRequests { by_id: HashMap::new(), ids: Ids::new(seed) };
        let pending = Arc::new(Mutex::new(pending));
        let gone = CancellationToken::new();
        let closing = CancellationToken::new();
        let guard = gone.clone().drop_guard();
        let working = transfer(sink, stream, to_send, Arc::clone(&pending), closing.clone(), guard);
        tokio::spawn(working);
        Self { outgoing, pending, gone, closing }
    }

    /// Sends a request and waits for the response. After the future is dropped, the response is
    /// ignored.
    pub(super) async fn request(&self, question: &Body) -> ResponseBody {
        if self.gone.is_cancelled() {
            return Err(RequestError::NeverLeft);
        }
        let (tell, told) = oneshot::channel();
        let id = {
            let mut pending = lock(&self.pending);
            if pending.by_id.len() >= MAX_PENDING {
                return Err(RequestError::Full);
            }
            let id = pending.ids.draw();
            pending.by_id.insert(id, tell);
            id
        };
        let _forgets = PendingGuard(&self.pending, id);
        if self.outgoing.send(question.encode(id)).await.is_err() {
            return Err(RequestError::NeverLeft);
        }
        tokio::select! {
            biased;
            answer = told => answer.unwrap_or(Err(RequestError::Lost)),
            () = self.gone.cancelled() => Err(RequestError::Lost),
        }
    }

    /// Waits until the connection is closed.
    pub(super) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Closes the connection gracefully, within a time limit.
    pub(super) async fn close(&self) {
        self.closing.cancel();
        if timeout(CLOSE_WITHIN, self.gone.cancelled()).await.is_err() {
            tracing::debug!("the connection to a tool server did not close in time");
        }
    }
}

/// Transfers frames in both directions until one of them ends. Dropping `_gone` signals the end.
async fn transfer<S, R>(
    mut sink: S,
    mut stream: R,
    mut to_send: mpsc::Receiver<String>,
    pending: Arc<Mutex<PendingRequests>>,
    closing: CancellationToken,
    _gone: DropGuard,
) where
    S: Sink<String, Error: Display> + Unpin,
    R: Stream<Item = Result<String, String>> + Unpin,
{
    let sending = async {
        while let Some(text) = to_send.recv().await {
            match timeout(SEND_WITHIN, sink.send(text)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return error.to_string(),
                Err(_) => return "the peer accepts no more data".into(),
            }
        }
        "it is closed".to_owned()
    };
    let receiving = async {
        let mut unreadable = 0;
        while let Some(frame) = stream.next().await {
            match frame {
                Ok(text) if deliver(&pending, &text) => {}
                Ok(_) if unreadable < MAX_UNREADABLE => unreadable += 1,
                Ok(_) => return "it does not speak LiteMCP".into(),
                Err(reason) => return reason,
            }
        }
        "it closed".to_owned()
    };
    let reason = tokio::select! {
        reason = sending => reason,
        reason = receiving => reason,
        () = closing.cancelled() => "it is closed".into(),
    };
    tracing::debug!(reason, "closing a LiteMCP connection");
    let ending = async {
        // A peer that is gone accepts no close; its remaining frames are ignored.
        sink.close().await.ok();
        while let Some(Ok(_)) = stream.next().await {}
    };
    if timeout(CLOSE_WITHIN, ending).await.is_err() {
        tracing::debug!("cannot close a LiteMCP connection: the peer accepts no data");
    }
}

/// Passes a response to its pending request. Returns false if the frame is not a message at all.
pub(super) fn deliver(pending: &Mutex<PendingRequests>, text: &str) -> bool {
    let Ok(envelope) = Envelope::decode(text) else {
        tracing::debug!(bytes = text.len(), "ignored a frame of a LiteMCP peer: not a message");
        return false;
    };
    // A peer may send a request by mistake, with its own id; only responses are accepted.
    if !matches!(envelope.kind.as_str(), "info" | "result") {
        tracing::debug!("ignored a message of a LiteMCP peer: not an answer");
        return true;
    }
    let Some(asker) = lock(pending).by_id.remove(&envelope.id) else {
        tracing::debug!("ignored an answer of a LiteMCP peer: no request waits for it");
        return true;
    };
    let answer = if envelope.version.is_ours() {
        envelope.body().map_err(|error| RequestError::Unreadable(error.to_string()))
    } else {
        Err(RequestError::Version(envelope.version))
    };
    if asker.send(answer).is_err() {
        tracing::debug!("ignored an answer of a LiteMCP peer: it came too late");
    }
    true
}
