//! Questions and answers over a connection of frames: ids, who waits for which, and the end. What
//! nobody asked for is dropped: answers that are late, second, or of somebody else's id. Not for
//! what carries the frames.

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

/// Questions on their way to the peer.
const LANE: usize = 64;
/// Questions without an answer yet; the next one fails.
const MAX_WAITING: usize = 256;
/// Longest wait for the peer to take a frame.
const SEND_WITHIN: Duration = Duration::from_secs(10);
/// Longest wait for a connection to close in order.
const CLOSE_WITHIN: Duration = ws_link::CLOSE_WITHIN;
/// Frames that cannot be read, after which it is no LiteMCP.
const MAX_UNREADABLE: u32 = 100;

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unanswered {
    /// The connection had ended before it was asked.
    #[error("the connection was lost")]
    NeverLeft,
    /// The connection ended meanwhile.
    #[error("the connection was lost")]
    Lost,
    /// Too many others wait.
    #[error("too many calls wait for their results")]
    Full,
    /// The answer is of a version that we do not understand.
    #[error("it speaks LiteMCP {0}, and we speak {VERSION}")]
    Version(Version),
    /// The answer cannot be read, or answers another question.
    #[error("its answer cannot be read: {0}")]
    Unreadable(String),
}

type Answer = Result<Body, Unanswered>;

/// Who waits for which id.
struct Waiting {
    by_id: HashMap<i64, oneshot::Sender<Answer>>,
    ids: Ids,
}

/// A connection; ends when dropped.
pub(super) struct Exchange {
    outgoing: mpsc::Sender<String>,
    waiting: Arc<Mutex<Waiting>>,
    gone: CancellationToken,
    closing: CancellationToken,
}

impl Drop for Exchange {
    /// Its task closes in order, and takes no longer than that may.
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets who waited when the wait is given up.
struct Forgets<'a>(&'a Mutex<Waiting>, i64);

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        lock(self.0).by_id.remove(&self.1);
    }
}

impl Exchange {
    /// Talks over these frames, one a message; a stream's error is its end. Needs a running
    /// runtime.
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

    /// Asks, and waits for the answer. Who gives up the wait will not hear of the answer.
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

    /// Ends when the connection is gone.
    pub(super) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Closes in order, within bounds.
    pub(super) async fn close(&self) {
        self.closing.cancel();
        if timeout(CLOSE_WITHIN, self.gone.cancelled()).await.is_err() {
            tracing::debug!("a tool server's connection did not close in time");
        }
    }
}

/// Carries frames in both directions at once until one of them ends; `_gone` tells of the end.
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
        // A peer that is gone takes no end; what it still says is not listened to.
        sink.close().await.ok();
        while let Some(Ok(_)) = stream.next().await {}
    };
    if timeout(CLOSE_WITHIN, ending).await.is_err() {
        tracing::debug!("a LiteMCP peer does not take the end");
    }
}

/// Gives an answer to who waits for it; false where the frame is no message at all.
fn take(waiting: &Mutex<Waiting>, text: &str) -> bool {
    let Ok(envelope) = Envelope::decode(text) else {
        tracing::debug!(bytes = text.len(), "a LiteMCP peer sent what is no message");
        return false;
    };
    // A peer may ask us something by mistake, under an id of its own; only answers answer.
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
