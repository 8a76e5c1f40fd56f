//! Tasks that outlive the request that started them: limits their number, and the time for which
//! they may go on after shutdown has started. Not for their work, nor for spawning them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Limits on tasks that run to their end even if their client disconnects. Clones share them.
#[derive(Clone)]
pub struct Tasks {
    places: Arc<Semaphore>,
    most: u32,
    grace: Duration,
    process: CancellationToken,
}

/// Permit to run one task, which holds it until its end.
pub struct Task {
    _place: OwnedSemaphorePermit,
}

/// Reason for which no task may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotBegun {
    /// The limit of running tasks is reached.
    #[error("too many requests are being carried out")]
    Full,
    /// The server is shutting down.
    #[error("the server is stopping")]
    Stopping,
}

impl Tasks {
    /// Creates limits of `most` concurrent tasks, which may go on for `grace` after `process` was
    /// cancelled.
    pub fn new(most: u32, grace: Duration, process: CancellationToken) -> Self {
        Self { places: Arc::new(Semaphore::new(most as usize)), most, grace, process }
    }

    /// Returns the token that is cancelled when the server shuts down.
    pub fn process(&self) -> &CancellationToken {
        &self.process
    }

    /// Takes a permit for a task that starts now.
    ///
    /// # Errors
    /// Fails if no permit is free, or if the server is shutting down.
    pub fn try_begin(&self) -> Result<Task, NotBegun> {
        if self.process.is_cancelled() {
            return Err(NotBegun::Stopping);
        }
        let permit = Arc::clone(&self.places).try_acquire_owned();
        permit.map(|permit| Task { _place: permit }).map_err(|_| NotBegun::Full)
    }

    /// Resolves when running tasks must end too: `grace` after the start of shutdown. Must be
    /// called before shutdown.
    pub async fn deadline(&self) {
        self.process.cancelled().await;
        sleep(self.grace).await;
    }

    /// Waits at most `grace` until all tasks have ended; returns false if some are still running.
    /// No task can start meanwhile if the server is shutting down.
    pub async fn drain(&self) -> bool {
        timeout(self.grace, self.places.acquire_many(self.most)).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(8);

    #[test]
    fn running_tasks_are_limited_and_none_starts_during_shutdown() {
        let tasks = Tasks::new(2, GRACE, CancellationToken::new());
        let first = tasks.try_begin().unwrap();
        let second = tasks.try_begin().unwrap();
        assert_eq!(tasks.try_begin().err(), Some(NotBegun::Full));
        drop(first);
        let third = tasks.try_begin().unwrap();
        tasks.process().cancel();
        drop((second, third));
        assert_eq!(tasks.try_begin().err(), Some(NotBegun::Stopping));
    }

    #[tokio::test(start_paused = true)]
    async fn running_tasks_are_awaited_for_the_grace_period() {
        let tasks = Tasks::new(3, GRACE, CancellationToken::new());
        assert!(tasks.drain().await, "nothing runs");
        let permit = tasks.try_begin().unwrap();
        tasks.process().cancel();
        let begun = tokio::time::Instant::now();
        let (ended, ()) = tokio::join!(tasks.drain(), tasks.deadline());
        assert!(!ended && begun.elapsed() == GRACE);
        drop(permit);
        assert!(tasks.drain().await);
    }
}
