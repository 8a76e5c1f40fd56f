//! The server's port: middleware before the routes, TLS, and socket options. Not for the handlers
//! of the routes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::dev::Server;
use actix_web::rt::net::TcpStream;
use actix_web::{App, HttpServer};
use anyhow::Context as _;
use hearken_base::Secret;
use socket2::SockRef;

use super::{Frontends, threads};
use crate::config::{AuthRequired, Config};
use crate::http::kept_connections::watch;
use crate::http::{self, MiddlewareState};
use crate::tls::Certificate;

/// Time after which a peer that accepts no data is disconnected (`TCP_USER_TIMEOUT`).
const SOCKET_STALL: Duration = Duration::from_secs(20);

/// Longest time for a TLS handshake: small devices need some seconds.
const TLS_HANDSHAKE: Duration = Duration::from_secs(10);

/// Binds the port and returns the server, which serves once it is awaited.
pub(super) fn listen(
    config: &Config,
    certificate: Option<&Arc<Certificate>>,
    frontends: Frontends,
) -> anyhow::Result<(Server, SocketAddr)> {
    let middleware = Arc::new(MiddlewareState::new(
        &config.http,
        own_names(config),
        tokens(config)?,
        config.ota.trust_proxy,
        &frontends.health.cluster,
    ));
    let factory = move || {
        let frontends = frontends.clone();
        http::behind(App::new(), Arc::clone(&middleware))
            .configure(|services| frontends.routes(services))
    };
    let next_request = config.http.next_request;
    let at = (config.server.host.as_str(), config.server.port);
    let taken =
        || format!("cannot listen on {}:{}: is another server running? (CLOUD_PORT)", at.0, at.1);
    let server = HttpServer::new(factory)
        .workers(threads(config).0)
        .on_connect(move |connection, extensions| {
            if let Some(stream) = tcp(connection) {
                tune(stream);
                watch(stream, extensions, next_request);
            }
        })
        // A client that closes its side does not wait for the response: its request is cancelled.
        .h1_allow_half_closed(false)
        .disable_signals()
        .shutdown_timeout(config.server.shutdown_timeout_ms.div_ceil(1_000))
        .tls_handshake_timeout(TLS_HANDSHAKE);
    let server = match certificate {
        None => server.bind(at),
        Some(certificate) => server.bind_rustls_0_23(at, certificate.server_config()?),
    };
    let server = server.with_context(taken)?;
    let address = *server.addrs().first().context("there is no address to listen on")?;
    Ok((server.run(), address))
}

/// Returns the names of this server in configured addresses.
fn own_names(config: &Config) -> Vec<String> {
    let urls = [&config.ota.websocket_url, &config.vision.url];
    let name = |url: &String| Some(url::Url::parse(url).ok()?.host_str()?.to_owned());
    urls.into_iter().filter_map(name).collect()
}

/// Returns the tokens of administrators and applications.
fn tokens(config: &Config) -> anyhow::Result<Vec<Secret>> {
    let mut tokens = vec![config.chat.token.clone(), config.museum.token.clone()];
    if config.auth.required != AuthRequired::Never {
        tokens.push(http::admin_token(&config.auth, &config.server.data_dir)?);
    }
    Ok(tokens)
}

/// Returns the TCP stream of a connection, with TLS or without.
fn tcp(connection: &dyn std::any::Any) -> Option<&TcpStream> {
    let secure = || Some(connection.downcast_ref::<TlsStream<TcpStream>>()?.get_ref().0);
    connection.downcast_ref::<TcpStream>().or_else(secure)
}

/// Sets socket options: small packets are sent at once, and a stalled peer is disconnected.
fn tune(stream: &TcpStream) {
    let socket = SockRef::from(stream);
    let tuned = socket.set_tcp_nodelay(true);
    if let Err(error) = tuned.and_then(|()| socket.set_tcp_user_timeout(Some(SOCKET_STALL))) {
        tracing::debug!(%error, "cannot set the options of a socket");
    }
}
