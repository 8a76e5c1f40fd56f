//! What the service manager that started the server is told (`sd_notify(3)` of systemd): when it is
//! ready, that its threads still run, and when it stops. Says nothing where no manager listens. Not
//! for what others ask: that is `/healthz` and `/readyz`.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

use crate::liveness::Liveness;

/// Tells what happens to the server, from the time that it listens until `process` is cancelled.
pub async fn tell(liveness: Liveness, process: CancellationToken) {
    send(NotifyState::Ready);
    if let Some(within) = sd_notify::watchdog_enabled() {
        process.run_until_cancelled(keep_alive(&liveness, within)).await;
    } else {
        process.cancelled().await;
    }
    send(NotifyState::Stopping);
}

/// Tells that the server runs, as long as all of its threads do. The manager waits `within` for the
/// next word and then kills and restarts the server.
async fn keep_alive(liveness: &Liveness, within: Duration) {
    let mut ticks = tokio::time::interval(within / 3);
    loop {
        ticks.tick().await;
        if liveness.all_marked() {
            send(NotifyState::Watchdog);
        } else {
            tracing::error!(
                "a thread does not run any more; the service manager is not told that all is well"
            );
        }
    }
}

fn send(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "cannot tell the service manager");
    }
}
