//! Port of session locks: one turn at a time in a session, across all instances. Waiting is not
//! fair.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::BoxError;

/// Locks of sessions.
pub trait SessionLocks: Send + Sync {
    /// Locks a session. `None` if other holders had it during the whole `wait`.
    fn lock(
        &self,
        session: &str,
        wait: Duration,
    ) -> BoxFuture<'static, Result<Option<SessionLock>, BoxError>>;

    /// Makes later fences of this instance greater than `fence`, which the store has recorded.
    /// Fences follow the time of day: without this, a clock that was set back would issue fences
    /// that the store refuses.
    fn observe(&self, fence: i64);
}

/// Lock of a session, released when dropped.
pub struct SessionLock {
    /// Fencing number, greater than that of every earlier lock of this session. The store refuses
    /// writes under an earlier one.
    pub fence: i64,
    /// Cancelled when the lock was lost. Work under it will not be stored.
    pub lost: CancellationToken,
    /// Releases the lock when dropped.
    pub held: Box<dyn std::any::Any + Send + Sync>,
}
