//! From a signal to the end: SIGTERM and Ctrl-C cancel one token, and everything hangs on it.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels `token` at the first SIGTERM or SIGINT; ends when the token does.
///
/// # Errors
/// The system refuses to tell of signals.
pub async fn on_signal(token: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let name = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
        () = token.cancelled() => return Ok(()),
    };
    tracing::info!(signal = name, "stopping");
    token.cancel();
    Ok(())
}
