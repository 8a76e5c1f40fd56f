//! Notifications to the service manager that started the server (`sd_notify(3)` of systemd): ready,
//! alive, stopping. Sends nothing without a manager. Not for other clients: see `/healthz` and
//! `/readyz`.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

use crate::liveness::Liveness;

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
