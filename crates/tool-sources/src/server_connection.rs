//! Connection to one remote server: a task that connects, monitors, and reconnects with backoff. It
//! ends with its token, including a child process. Not for the list of servers.

use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::backoff::{Backoff, FIRST_WAIT};
use super::connected_source::ConnectedSource;
use super::connection::{Connection, NotOpened, ProtocolEra};
use super::http_client::{MAX_MESSAGE_BYTES, RepairingClient};
use super::link::Link;
use super::litemcp;
use super::paced_client::{PacedClient, retries};
use super::report::SourceKind;
use super::serving::{ENDED, serve, within};
use super::settings::{Server, ServerTransport, ToolProtocol};
use super::stdio_process::{Environment, ToolChild};
use super::stdio_transport::StdioTransport;

/// Reason that a server with the transport of 2024-11-05 is refused.
const OLD_SSE: &str = "it only speaks the old transport (HTTP with SSE, of 2024), which is not supported: update it, or put a \
                       bridge such as mcp-proxy before it";
/// Returns the source kind of a connection type.
pub(super) fn kind(transport: &ServerTransport) -> SourceKind {
    match transport {
        ServerTransport::Http { url, .. } if url.scheme().starts_with("ws") => {
            SourceKind::WebSocket
        }
        ServerTransport::Http { .. } => SourceKind::Http,
        ServerTransport::Stdio { .. } => SourceKind::Stdio,
    }
}

/// Maintains the connection of one server until the token is cancelled.
pub(super) async fn keep(
    server: Server,
    environment: Environment,
    source: ConnectedSource,
    token: CancellationToken,
) {
    let mut waits = Backoff::default();
    let mut era = ProtocolEra::Auto;
    loop {
        source.set_connecting();
        let begun = Instant::now();
        let (reason, opened) = match &server.transport {
            _ if server.protocol == ToolProtocol::LiteMcp => {
                litemcp::keep(&server, &environment, &source, &token).await
            }
            ServerTransport::Http { .. } => over_http(&server, &source, &token).await,
            ServerTransport::Stdio { .. } => {
                as_child(&server, &environment, era, &source, &token).await
            }
        };
        if token.is_cancelled() {
            break;
        }
        tracing::warn!(source = server.name, reason, "lost the connection to a tool server");
        if opened {
            source.set_lost(reason);
        } else {
            source.set_failed(reason);
            // Some programs exit on an unknown request: use the other handshake next time.
            era = if era == ProtocolEra::Auto { ProtocolEra::Handshake } else { ProtocolEra::Auto };
        }
        let wait = waits.next(begun.elapsed());
        // A call that needs the server does not shorten the first wait.
        let rest = async {
            sleep(FIRST_WAIT).await;
            tokio::select! {
                () = sleep(wait.saturating_sub(FIRST_WAIT)) => false,
                () = source.wait_until_needed() => true,
            }
        };
        match token.run_until_cancelled(rest).await {
            None => break,
            // Attempts triggered by calls do not lengthen the backoff of the others.
            Some(true) => waits = Backoff(wait),
            Some(false) => {}
        }
    }
    source.set_ended(ENDED.into());
}

/// Runs one connection over HTTP. Returns the reason of the end, and true if it was established.
async fn over_http(
    server: &Server,
    source: &ConnectedSource,
    token: &CancellationToken,
) -> (String, bool) {
    let ServerTransport::Http { url, .. } = &server.transport else {
        return ("it has no address".into(), false);
    };
    let builder = hearken_outbound::http::builder(url, server.start_timeout)
        .redirect(hearken_outbound::http::within_origin());
    let client = match builder.build() {
        Ok(client) => client,
        Err(error) => return (format!("no HTTP client: {error}"), false),
    };
    let mut opened = http_opened(server, client.clone(), ProtocolEra::Auto, token).await;
    if opened.as_ref().is_err_and(|failed| failed.misunderstood) {
        opened = http_opened(server, client.clone(), ProtocolEra::Handshake, token).await;
    }
    if let Err(failed) = &mut opened
        && within(server, token, async { Ok::<_, String>(is_old_sse(&client, server).await) })
            .await
            .unwrap_or(false)
    {
        failed.reason = OLD_SSE.into();
    }
    match opened {
        Ok(connection) => (serve(&server.name, source, Link::Mcp(connection), token).await, true),
        Err(failed) => (failed.reason, false),
    }
}

/// Reports whether this is the address of a server with the transport of 2024-11-05, which starts
/// with a stream that names another address.
async fn is_old_sse(client: &reqwest::Client, server: &Server) -> bool {
    let ServerTransport::Http { url, headers, bearer } = &server.transport else { return false };
    let mut request = client.get(url.clone()).header(reqwest::header::ACCEPT, "text/event-stream");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    if let Some(bearer) = bearer {
        request = request.bearer_auth(bearer.expose());
    }
    let Ok(mut response) = request.send().await else { return false };
    let first = response.chunk().await.ok().flatten().unwrap_or_default();
    String::from_utf8_lossy(&first)
        .lines()
        .any(|line| line.trim_start().starts_with("event: endpoint") || line == "event:endpoint")
}

/// Opens a connection over HTTP with this handshake.
async fn http_opened(
    server: &Server,
    client: reqwest::Client,
    era: ProtocolEra,
    token: &CancellationToken,
) -> Result<Connection, NotOpened> {
    let ServerTransport::Http { url, headers, bearer } = &server.transport else {
        return Err("it has no address".to_owned().into());
    };
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .custom_headers(headers.iter().cloned().collect());
    if let Some(bearer) = bearer {
        config = config.auth_header(bearer.expose());
    }
    config.retry_config = retries();
    let client = PacedClient::new(RepairingClient::new(client));
    let transport = StreamableHttpClientTransport::with_client(client, config);
    within(server, token, Connection::open(transport, era, server.elicitation)).await
}

/// Runs one child process. Returns the reason of the end, and true if its connection was
/// established.
async fn as_child(
    server: &Server,
    environment: &Environment,
    era: ProtocolEra,
    source: &ConnectedSource,
    token: &CancellationToken,
) -> (String, bool) {
    let ServerTransport::Stdio { command, args, env } = &server.transport else {
        return ("it has no program".into(), false);
    };
    let mut all = environment.clone();
    all.extend(env.clone());
    let (child, stdout, stdin) = match ToolChild::spawn(command, args, &all) {
        Ok(spawned) => spawned,
        Err(error) => return (format!("cannot start `{command}`: {error}"), false),
    };
    let transport = StdioTransport::new(stdout, stdin, MAX_MESSAGE_BYTES);
    let opening = Connection::open(transport, era, server.elicitation);
    let ended = match within(server, token, opening).await {
        Ok(connection) => (serve(&server.name, source, Link::Mcp(connection), token).await, true),
        Err(failed) => (failed.reason, false),
    };
    let said = child.end().await;
    match (ended, said) {
        // Only if no call was made: later, standard error may contain users' words.
        ((reason, false), Some(said)) => (format!("{reason}; it said: {said}"), false),
        (ended, _) => ended,
    }
}
