//! Work that outlives the request that began it: how much of it runs at once, and how long it may
//! go on after the server was told to stop. Not for what is done, nor for starting it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Work of requests that runs to its end whoever leaves; clones share it.
#[derive(Clone)]
pub struct Tasks {
    places: Arc<Semaphore>,
    most: u32,
    grace: Duration,
    process: CancellationToken,
}

/// The right to run one piece of work; its task holds it until its end.
pub struct Task {
    _place: OwnedSemaphorePermit,
}

/// Why no work begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotBegun {
    /// As much runs as may run.
    #[error("too many requests are being carried out")]
    Full,
    /// The server stops.
    #[error("the server is stopping")]
    Stopping,
}

impl Tasks {
    /// At most this many at once, which may go on for `grace` after `process` was cancelled.
    pub fn new(most: u32, grace: Duration, process: CancellationToken) -> Self {
        Self { places: Arc::new(Semaphore::new(most as usize)), most, grace, process }
    }

    /// The server's end.
    pub fn process(&self) -> &CancellationToken {
        &self.process
    }

    /// Takes a place for work that begins now.
    ///
    /// # Errors
    /// There is none, or the server stops.
    pub fn enter(&self) -> Result<Task, NotBegun> {
        if self.process.is_cancelled() {
            return Err(NotBegun::Stopping);
        }
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map(|place| Task { _place: place }).map_err(|_| NotBegun::Full)
    }

    /// Resolves when also work that has begun must end: the grace after the server was told to
    /// stop. To be called before that.
    pub async fn over(&self) {
        self.process.cancelled().await;
        sleep(self.grace).await;
    }

    /// Waits until all work has ended, at most as long as the grace; false where some goes on.
    /// None can begin meanwhile where the server stops.
    pub async fn ended(&self) -> bool {
        timeout(self.grace, self.places.acquire_many(self.most)).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(8);

    #[test]
    fn no_more_begins_than_may_run_and_none_once_the_server_stops() {
        let tasks = Tasks::new(2, GRACE, CancellationToken::new());
        let (first, second) = (tasks.enter().unwrap(), tasks.enter().unwrap());
        assert_eq!(tasks.enter().err(), Some(NotBegun::Full));
        drop(first);
        let third = tasks.enter().unwrap();
        tasks.process().cancel();
        drop((second, third));
        assert_eq!(tasks.enter().err(), Some(NotBegun::Stopping));
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_begun_is_waited_for_as_long_as_the_grace() {
        let tasks = Tasks::new(3, GRACE, CancellationToken::new());
        assert!(tasks.ended().await, "nothing runs");
        let place = tasks.enter().unwrap();
        tasks.process().cancel();
        let begun = tokio::time::Instant::now();
        let (ended, ()) = tokio::join!(tasks.ended(), tasks.over());
        assert!(!ended && begun.elapsed() == GRACE);
        drop(place);
        assert!(tasks.ended().await);
    }
}
