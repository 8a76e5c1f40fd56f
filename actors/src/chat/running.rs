//! A message that is being answered: whether anybody waits for it, what it has begun, and until
//! when it may go on. Not for answering it.
//!
//! - Before its first call of a tool a message may be dropped: nothing has happened. Who leaves is
//!   not answered, unless the request has a name and may be asked again.
//! - From its first call on, and while it is kept and told, it runs to its end, whoever leaves; a
//!   server that stops gives it its grace.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hearken_proto::ids::SessionId;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::ChatError;
use crate::ports::{ChatStore, RequestKey, SessionLock, TurnKept};
use crate::tasks::Tasks;

/// A message that is being answered.
pub(super) struct Running {
    tasks: Tasks,
    /// Nobody waits for the answer any more.
    left: CancellationToken,
    /// The client may ask for the answer again.
    repeatable: bool,
    /// A tool was called, or is about to be, or the turn is kept.
    begun: AtomicBool,
    /// Something outside the state server may have changed.
    acted: AtomicBool,
}

impl Running {
    pub(super) fn new(tasks: Tasks, left: CancellationToken, repeatable: bool) -> Self {
        let (begun, acted) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { tasks, left, repeatable, begun, acted }
    }

    /// Resolves when the message is to be dropped, which it may be as long as nothing has begun.
    /// To be polled by the same task as the work.
    pub(super) async fn dropped(&self) {
        let left = async {
            if self.repeatable {
                std::future::pending::<()>().await;
            }
            self.left.cancelled().await;
        };
        tokio::select! {
            () = left => {}
            () = self.tasks.process().cancelled() => {}
        }
        if self.begun.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    /// Resolves when the message must end, whatever it has begun, and why.
    pub(super) async fn ends(&self, lock: &SessionLock, limit: Duration) -> ChatError {
        tokio::select! {
            biased;
            () = lock.lost.cancelled() => ChatError::Overtaken,
            () = self.tasks.over() => ChatError::GoingAway,
            () = sleep(limit) => ChatError::TooLong(limit),
        }
    }

    /// Tools are about to be called, or the turn to be kept: from now on it is not dropped. True
    /// where that was so before.
    pub(super) fn begins(&self) -> bool {
        self.begun.swap(true, Ordering::Relaxed)
    }

    /// A tool was called that is not the state server's.
    pub(super) fn acts(&self) {
        self.acted.store(true, Ordering::Relaxed);
    }

    /// Something outside the state server may have changed.
    pub(super) fn has_acted(&self) -> bool {
        self.acted.load(Ordering::Relaxed)
    }
}

/// What must be on disk before the first call of a turn.
#[derive(Clone, Copy)]
pub(super) struct Beginning<'a> {
    pub(super) store: &'a dyn ChatStore,
    pub(super) running: &'a Running,
    pub(super) session: &'a SessionId,
    pub(super) key: Option<&'a RequestKey>,
    pub(super) fence: i64,
}

impl Beginning<'_> {
    /// The turn is about to call tools. A request with a name is noted as begun, so that a repeated
    /// one does not do it twice, whatever becomes of this one.
    pub(super) async fn begin(&self) -> Result<(), ChatError> {
        // From now on it is not dropped; where it cannot be noted, it ends by itself.
        if self.running.begins() {
            return Ok(());
        }
        let Some(key) = self.key else { return Ok(()) };
        kept(self.store.begin_request(self.session, key, self.fence).await?)
    }

    /// The turn brought no answer. Where nothing has changed, its request may be asked again.
    pub(super) async fn failed(&self, changed: bool) {
        let Some(key) = self.key.filter(|_| self.running.begun.load(Ordering::Relaxed)) else {
            return;
        };
        if changed {
            tracing::warn!(session = %self.session, "a request with a key failed after it had called tools");
            return;
        }
        if let Err(error) = self.store.forget_request(self.session, &key.name, self.fence).await {
            tracing::warn!(error, session = %self.session, "a request that failed cannot be forgotten");
        }
    }
}

/// What became of something that was to be kept.
pub(super) fn kept(outcome: TurnKept) -> Result<(), ChatError> {
    match outcome {
        TurnKept::Kept => Ok(()),
        TurnKept::Overtaken => Err(ChatError::Overtaken),
        TurnKept::Closed => {
            Err(ChatError::Status("the session was archived or deleted meanwhile".into()))
        }
    }
}
