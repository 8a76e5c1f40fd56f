//! The locks' port: one turn at a time in a session, whichever instance of the server has it. Not
//! for waiting in a fair order.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::BoxError;

/// Where sessions are locked.
pub trait SessionLocks: Send + Sync {
    /// Locks a session. None where somebody else held it for as long as one would wait.
    fn lock(
        &self,
        session: &str,
        wait: Duration,
    ) -> BoxFuture<'static, Result<Option<SessionLock>, BoxError>>;
}

/// A session's lock; given up when dropped.
pub struct SessionLock {
    /// Greater than that of every lock of this session before: the store refuses what was done
    /// under an earlier one.
    pub fence: i64,
    /// Cancelled when the lock was lost: what is done under it will not be kept.
    pub lost: CancellationToken,
    /// Gives it up.
    pub held: Box<dyn std::any::Any + Send + Sync>,
}
