//! Signals that end a process: SIGTERM, Ctrl-C and, for a child, the end of its parent. Not for the
//! shutdown itself.

use std::io;
use std::os::fd::AsFd as _;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Waits for SIGTERM or SIGINT. With `with_parent`, also waits for the end of standard input: a
/// pipe that the parent holds open while it lives.
///
/// # Errors
/// The system refuses signal handlers, or standard input is not a pipe.
pub async fn stop_requested(with_parent: bool) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let why = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
        gone = parent_ended(), if with_parent => {
            gone?;
            "the parent process has ended"
        }
    };
    tracing::info!(why, "stopping");
    Ok(())
}

/// Cancels `token` when the process receives a stop signal. Returns when `token` is cancelled.
///
/// # Errors
/// The system refuses signal handlers.
pub async fn on_signal(token: CancellationToken) -> io::Result<()> {
    if let Some(outcome) = token.run_until_cancelled(stop_requested(false)).await {
        outcome?;
        token.cancel();
    }
    Ok(())
}

async fn parent_ended() -> io::Result<()> {
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    let mut pipe = pipe::Receiver::from_owned_fd(stdin)?;
    let mut ignored = [0; 256];
    while pipe.read(&mut ignored).await? > 0 {}
    Ok(())
}
