//! One open connection to a server, the same for both protocols: the wait until it is open, and its
//! monitoring. Not for reconnecting.

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::connected_source::ConnectedSource;
use super::link::Link;
use super::refresh_loop;
use super::settings::Server;

/// Reason of the end of a connection that was closed by this server.
pub(super) const ENDED: &str = "it is no longer connected to";

/// Waits for the opening connection, unless that takes too long or the token is cancelled.
pub(super) async fn within<T, E>(
    server: &Server,
    token: &CancellationToken,
    opening: impl Future<Output = Result<T, E>>,
) -> Result<T, E>
where
    E: From<String>,
{
    let limit = server.start_timeout;
    match token.run_until_cancelled(timeout(limit, opening)).await {
        None => Err(ENDED.to_owned().into()),
        Some(Err(_)) => Err(format!("no handshake within {} s", limit.as_secs_f32()).into()),
        Some(Ok(opened)) => opened,
    }
}

/// Monitors the connection until it ends, then closes it.
pub(super) async fn serve(
    name: &str,
    source: &ConnectedSource,
    connection: Link,
    token: &CancellationToken,
) -> String {
    let protocol = connection.protocol();
    tracing::info!(source = name, protocol, "connected to a tool server");
    let ended = token.run_until_cancelled(refresh_loop::run(source, &connection)).await;
    let reason = ended.unwrap_or_else(|| ENDED.into());
    // Before the slow close: callers that wait for this connection continue at once.
    source.set_lost(reason.clone());
    connection.close().await;
    reason
}
