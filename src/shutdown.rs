//! The signals that end the server: the first of them cancels one token, on which everything in the
//! server depends.

use std::io;

use hearken_base::stop_signal::stop_requested;
use tokio_util::sync::CancellationToken;

/// Cancels `token` when the process receives a stop signal. Returns when `token` is cancelled.
///
/// # Errors
/// The system refuses signal handlers.
pub async fn on_signal(token: CancellationToken) -> io::Result<()> {
    if let Some(told) = token.run_until_cancelled(stop_requested(false)).await {
        told?;
        token.cancel();
    }
    Ok(())
}
