//! Lifetime of a message in progress: whether a client waits for it, what it has started, and its
//! time limit. Not for answering it.
//!
//! - Before its first tool call a message may be dropped: it has had no effect. If its client
//!   leaves, it is not answered. Exception: a request with an idempotency key, which the client may
//!   repeat.
//! - From its first tool call on, and while it is stored and published, it runs to its end, even if
//!   the client leaves. A server that stops gives it the grace period.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hearken_base::tasks::Tasks;
use hearken_ports::{ChatStore, RequestKey, SessionLock, StoreOutcome};
use hearken_proto::ids::SessionId;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::ChatError;

/// Message in progress.
pub(super) struct RunningMessage {
    tasks: Tasks,
    /// Cancelled when no client waits for the answer any more.
    client_left: CancellationToken,
    /// Set if the client may request the answer again.
    repeatable: bool,
    /// Set when tools were called or are about to be, or the turn is stored.
    begun: AtomicBool,
    /// Set if something outside the state server may have changed.
    acted: AtomicBool,
}

impl RunningMessage {
    pub(super) fn new(tasks: Tasks, client_left: CancellationToken, repeatable: bool) -> Self {
        let begun = AtomicBool::new(false);
        let acted = AtomicBool::new(false);
        Self { tasks, client_left, repeatable, begun, acted }
    }

    /// Waits until the message may be dropped, which is possible until it is marked as begun. Must
    /// be polled by the same task as the work.
    pub(super) async fn may_be_dropped(&self) {
        let client_left = async {
            if self.repeatable {
                std::future::pending::<()>().await;
            }
            self.client_left.cancelled().await;
        };
        tokio::select! {
            () = client_left => {}
            () = self.tasks.process().cancelled() => {}
        }
        // A message that was marked as begun meanwhile runs to its end.
        if self.begun.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the message must end, whatever it has started. Returns the reason.
    pub(super) async fn must_end(&self, lock: &SessionLock, limit: Duration) -> ChatError {
        tokio::select! {
            biased;
            () = lock.lost.cancelled() => ChatError::Overtaken,
            () = self.tasks.deadline() => ChatError::GoingAway,
            () = sleep(limit) => ChatError::TooLong(limit),
        }
    }

    /// Marks the message as begun, because tools are about to be called or the turn to be stored.
    /// After that it is not dropped. Returns true if it was begun before.
    pub(super) fn mark_begun(&self) -> bool {
        self.begun.swap(true, Ordering::Relaxed)
    }

    /// Records the call of a tool that does not belong to the state server.
    pub(super) fn mark_acted(&self) {
        self.acted.store(true, Ordering::Relaxed);
    }

    /// Reports whether something outside the state server may have changed.
    pub(super) fn has_acted(&self) -> bool {
        self.acted.load(Ordering::Relaxed)
    }
}

/// Data that must be on disk before the first call of a turn.
#[derive(Clone, Copy)]
pub(super) struct RequestRecord<'a> {
    pub(super) store: &'a dyn ChatStore,
    pub(super) running: &'a RunningMessage,
    pub(super) session: &'a SessionId,
    pub(super) key: Option<&'a RequestKey>,
    pub(super) fence: i64,
}

impl RequestRecord<'_> {
    /// Prepares the first tool call of the turn. Records the idempotency key as begun: a repeated
    /// request then does not repeat the calls, however this one ends.
    pub(super) async fn begin(&self) -> Result<(), ChatError> {
        // After this the message is not dropped. If the key cannot be recorded, the message ends
        // with an error.
        if self.running.mark_begun() {
            return Ok(());
        }
        let Some(key) = self.key else { return Ok(()) };
        check_stored(self.store.begin_request(self.session, key, self.fence).await?)
    }

    /// Handles a turn without an answer. If nothing has changed, its request may be repeated.
    pub(super) async fn failed(&self, changed: bool) {
        let Some(key) = self.key.filter(|_| self.running.begun.load(Ordering::Relaxed)) else {
            return;
        };
        if changed {
            tracing::warn!(
                session = self.session.short(),
                "a request with an idempotency key failed after it had called tools"
            );
            return;
        }
        if let Err(error) = self.store.forget_request(self.session, &key.name, self.fence).await {
            tracing::warn!(
                error,
                session = self.session.short(),
                "cannot delete the record of a failed request"
            );
        }
    }
}

/// Converts the outcome of storing a turn.
pub(super) fn check_stored(outcome: StoreOutcome) -> Result<(), ChatError> {
    match outcome {
        StoreOutcome::Kept => Ok(()),
        StoreOutcome::Overtaken => Err(ChatError::Overtaken),
        StoreOutcome::Closed => {
            Err(ChatError::Status("the session was archived or deleted meanwhile".into()))
        }
    }
}
