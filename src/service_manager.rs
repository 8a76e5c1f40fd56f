//! Notifications to the service manager that started the server (`sd_notify(3)` of systemd): still
//! starting, ready, alive, stopping. Sends nothing without a manager. Not for other clients: see
//! `/healthz` and `/readyz`.

use std::pin::pin;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::liveness::Liveness;

/// Interval at which a long start is reported.
const STARTING_EVERY: Duration = Duration::from_secs(20);
/// Time that the manager allows from such a report on, in microseconds. It never shortens the time
/// that the manager allows without reports.
const STARTING_FOR_USEC: u32 = 90_000_000;

/// Does `work` before the server is ready, and asks the manager for more time while it continues.
pub async fn starting<T>(work: impl Future<Output = T>) -> T {
    repeated_during(work, || send(NotifyState::ExtendTimeoutUsec(STARTING_FOR_USEC))).await
}

/// Calls `report` at once and at every interval until `work` is done.
async fn repeated_during<T>(work: impl Future<Output = T>, mut report: impl FnMut()) -> T {
    report();
    let mut ticks = tokio::time::interval_at(Instant::now() + STARTING_EVERY, STARTING_EVERY);
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            _ = ticks.tick() => report(),
            done = &mut work => return done,
        }
    }
}

/// Notifies the manager that the server is ready, alive and stopping, until `process` is cancelled.
pub async fn tell(liveness: Liveness, process: CancellationToken) {
    send(NotifyState::Ready);
    if let Some(within) = sd_notify::watchdog_enabled() {
        process.run_until_cancelled(keep_alive(&liveness, within)).await;
    } else {
        process.cancelled().await;
    }
    send(NotifyState::Stopping);
}

/// Sends watchdog notifications while all threads run. Without one for `within`, the manager kills
/// and restarts the server.
async fn keep_alive(liveness: &Liveness, within: Duration) {
    let mut ticks = tokio::time::interval(within / 3);
    loop {
        ticks.tick().await;
        if liveness.all_marked() {
            send(NotifyState::Watchdog);
        } else {
            tracing::error!(
                "a thread has stopped responding: withholding the watchdog notification"
            );
        }
    }
}

fn send(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_start_is_reported_while_it_continues() {
        let mut reports = 0;
        let work = async {
            tokio::time::sleep(STARTING_EVERY * 3 + STARTING_EVERY / 2).await;
            "done"
        };
        assert_eq!(repeated_during(work, || reports += 1).await, "done");
        assert_eq!(reports, 4, "at once, and at each interval");
        let allowed = Duration::from_micros(STARTING_FOR_USEC.into());
        assert!(allowed > STARTING_EVERY * 3, "a report may be late on a busy machine");
    }
}
