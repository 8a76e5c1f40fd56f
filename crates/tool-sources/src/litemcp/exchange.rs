//! Requests and responses over a connection of frames: ids, pending requests, and the end.
//! Unsolicited responses are dropped: late ones, duplicates, and unknown ids. Not for the transport
//! of frames.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use hearken_actors::ws_link;
use hearken_proto::litemcp::{Body, Envelope, Ids, VERSION, Version};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Capacity of the queue of outgoing requests.
const LANE: usize = 64;
/// Maximum number of pending requests; the next one fails.
const MAX_WAITING: usize = 256;
/// Longest wait for the peer to accept a frame.
const SEND_WITHIN: Duration = Duration::from_secs(10);
/// Longest wait for a connection to close gracefully.
const CLOSE_WITHIN: Duration = ws_link::CLOSE_WITHIN;
/// Maximum number of unreadable frames; then the peer does not speak LiteMCP.
const MAX_UNREADABLE: u32 = 100;

/// Reason why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unanswered {
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
    #[error("it speaks LiteMCP {0}, and we speak {VERSION}")]
    Version(Version),
    /// The response cannot be read, or belongs to another request.
    #[error("its answer cannot be read: {0}")]
    Unreadable(String),
}

type Answer = Result<Body, Unanswered>;

/// Pending requests by id.
struct Waiting {
    by_id: HashMap<i64, oneshot::Sender<Answer>>,
    ids: Ids,
}

/// Connection; closed when dropped.
pub(super) struct Exchange {
    outgoing: mpsc::Sender<String>,
    waiting: Arc<Mutex<Waiting>>,
    gone: CancellationToken,
    closing: CancellationToken,
}

impl Drop for Exchange {
    /// Signals the task to close gracefully, within the time limit of closing.
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Guard that removes a pending request when its wait is abandoned.
struct Forgets<'a>(&'a Mutex<Waiting>, i64);

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        lock(self.0).by_id.remove(&self.1);
    }
}

impl Exchange {
    /// Creates a connection over these frames, one message per frame; an error of the stream ends
    /// it. Needs a running runtime.
    pub(super) fn over<S, R>(sink: S, stream: R) -> Self
    where
        S: Sink<String, Error: Display> + Unpin + Send + 'static,
        R: Stream<Item = Result<String, String>> + Unpin + Send + 'static,
    {
        let (outgoing, to_send) = mpsc::channel(LANE);
        let seed = uuid::Uuid::new_v4().as_fields().0;
        let waiting = Waiting { by_id: HashMap::new(), ids: Ids::new(seed) };
        let waiting = Arc::new(Mutex::new(waiting));
        let (gone, closing) = (CancellationToken::new(), CancellationToken::new());
        let guard = gone.clone().drop_guard();
        let working = work(sink, stream, to_send, Arc::clone(&waiting), closing.clone(), guard);
        tokio::spawn(working);
        Self { outgoing, waiting, gone, closing }
    }

    /// Sends a request and waits for the response. After the future is dropped, the response is
    /// ignored.
    pub(super) async fn ask(&self, question: &Body) -> Answer {
        if self.gone.is_cancelled() {
            return Err(Unanswered::NeverLeft);
        }
        let (tell, told) = oneshot::channel();
        let id = {
            let mut waiting = lock(&self.waiting);
            if waiting.by_id.len() >= MAX_WAITING {
                return Err(Unanswered::Full);
            }
            let id = waiting.ids.draw();
            waiting.by_id.insert(id, tell);
            id
        };
        let _forgets = Forgets(&self.waiting, id);
        if self.outgoing.send(question.encode(id)).await.is_err() {
            return Err(Unanswered::NeverLeft);
        }
        tokio::select! {
            biased;
            answer = told => answer.unwrap_or(Err(Unanswered::Lost)),
            () = self.gone.cancelled() => Err(Unanswered::Lost),
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
            tracing::debug!("a tool server's connection did not close in time");
        }
    }
}

/// Transfers frames in both directions until one of them ends. Dropping `_gone` signals the end.
async fn work<S, R>(
    mut sink: S,
    mut stream: R,
    mut to_send: mpsc::Receiver<String>,
    waiting: Arc<Mutex<Waiting>>,
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
                Err(_) => return "it takes nothing any more".into(),
            }
        }
        "it is closed".to_owned()
    };
    let receiving = async {
        let mut unreadable = 0;
        while let Some(frame) = stream.next().await {
            match frame {
                Ok(text) if take(&waiting, &text) => {}
                Ok(_) if unreadable < MAX_UNREADABLE => unreadable += 1,
                Ok(_) => return "what it sends is no LiteMCP".into(),
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
    tracing::debug!(reason, "a LiteMCP connection ends");
    let ending = async {
        // A peer that is gone accepts no close; its remaining frames are ignored.
        sink.close().await.ok();
        while let Some(Ok(_)) = stream.next().await {}
    };
    if timeout(CLOSE_WITHIN, ending).await.is_err() {
        tracing::debug!("a LiteMCP peer does not take the end");
    }
}

/// Passes a response to its pending request. Returns false if the frame is not a message at all.
fn take(waiting: &Mutex<Waiting>, text: &str) -> bool {
    let Ok(envelope) = Envelope::decode(text) else {
        tracing::debug!(bytes = text.len(), "a LiteMCP peer sent what is no message");
        return false;
    };
    // A peer may send a request by mistake, under an id of its own; only responses are accepted.
    if !matches!(envelope.kind.as_str(), "info" | "result") {
        tracing::debug!("a LiteMCP peer sent what is no answer");
        return true;
    }
    let Some(asker) = lock(waiting).by_id.remove(&envelope.id) else {
        tracing::debug!("a LiteMCP peer sent an answer that nobody waits for");
        return true;
    };
    let answer = if envelope.version.is_ours() {
        envelope.body().map_err(|error| Unanswered::Unreadable(error.to_string()))
    } else {
        Err(Unanswered::Version(envelope.version))
    };
    if asker.send(answer).is_err() {
        tracing::debug!("a LiteMCP answer came too late");
    }
    true
}
