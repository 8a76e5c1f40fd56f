//! The server's port: middleware before the routes, TLS, and socket options. Not for the handlers
//! of the routes.

use std::net::{IpAddr, Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::dev::Server;
use actix_web::rt::net::TcpStream;
use actix_web::{App, HttpServer};
use anyhow::Context as _;
use hearken_actors::slots::{NoSlot, Slot, Slots};
use hearken_base::Secret;
use socket2::SockRef;

use super::{Frontends, threads};
use crate::config::{AuthRequired, Config};
use crate::http::kept_connections::watch;
use crate::http::{self, MiddlewareState};
use crate::liveness::Liveness;
use crate::tls::Certificate;

/// Time after which a peer that accepts no data is disconnected (`TCP_USER_TIMEOUT`).
const SOCKET_STALL: Duration = Duration::from_secs(20);

/// Longest time for a TLS handshake: small devices need some seconds.
const TLS_HANDSHAKE: Duration = Duration::from_secs(10);

/// Most TCP connections besides those of devices and text clients: requests, watchers, tools.
const OTHER_CONNECTIONS: usize = 2_000;

/// Binds the port and returns the server, which serves once it is awaited, and the marks of its
/// threads.
pub(super) fn listen(
    config: &Config,
    certificate: Option<&Arc<Certificate>>,
    frontends: Frontends,
) -> anyhow::Result<(Server, SocketAddr, Liveness)> {
    let liveness = Liveness::default();
    let middleware = Arc::new(MiddlewareState::new(
        &config.http,
        own_names(config),
        tokens(config)?,
        config.ota.trust_proxy,
        &frontends.health.cluster,
    ));
    let marks = liveness.clone();
    let factory = move || {
        marks.begin();
        let frontends = frontends.clone();
        http::behind(App::new(), Arc::clone(&middleware))
            .configure(|services| frontends.routes(services))
    };
    let next_request = config.http.next_request;
    let connections = Connections::new(config);
    let at = (config.server.host.as_str(), config.server.port);
    let taken =
        || format!("cannot listen on {}:{}: is another server running? (CLOUD_PORT)", at.0, at.1);
    let server = HttpServer::new(factory)
        .workers(threads(config).0)
        .on_connect(move |connection, extensions| {
            let Some(stream) = tcp(connection) else { return };
            match connections.slot(stream.peer_addr().ok().map(|peer| peer.ip())) {
                Ok(slot) => {
                    extensions.insert(Arc::new(slot));
                    tune(stream);
                    watch(stream, extensions, next_request);
                }
                Err(full) => refuse(stream, full),
            }
        })
        // The default of 256 handshakes in progress would let one address keep all others out.
        .max_connection_rate(most_connections(config))
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
    Ok((server.run(), address, liveness))
}

/// Limits of TCP connections, in all and of one address. Programs on this machine are exempt from
/// the latter; so is, where proxies are trusted, a proxy in a private network.
#[derive(Clone)]
struct Connections {
    slots: Slots,
    trust_proxy: bool,
}

impl Connections {
    fn new(config: &Config) -> Self {
        let slots = Slots::with_share(most_connections(config), config.http.address_percent);
        Self { slots, trust_proxy: config.ota.trust_proxy }
    }

    fn slot(&self, peer: Option<IpAddr>) -> Result<Slot, NoSlot> {
        let limited = peer.filter(|peer| match http::Peer::at(*peer) {
            http::Peer::Machine => false,
            http::Peer::Network => !self.trust_proxy,
            http::Peer::Elsewhere => true,
        });
        self.slots.take(limited.map(|peer| http::network_of(peer).to_string()).as_deref())
    }
}

/// Returns the most TCP connections: those that become sockets of devices and of text clients, and
/// a number of others.
fn most_connections(config: &Config) -> usize {
    let sockets = config.server.max_connections.saturating_add(config.gateway.max_connections);
    sockets.saturating_add(OTHER_CONNECTIONS)
}

/// Closes a connection beyond the limits.
fn refuse(stream: &TcpStream, full: NoSlot) {
    tracing::debug!(%full, "refused a connection");
    if let Err(error) = SockRef::from(stream).shutdown(Shutdown::Both) {
        tracing::debug!(%error, "cannot close a refused connection");
    }
}

/// Returns the names of this server in configured addresses.
fn own_names(config: &Config) -> Vec<String> {
    let urls = [&config.ota.websocket_url, &config.vision.url];
    let name = |url: &String| Some(url::Url::parse(url).ok()?.host_str()?.to_owned());
    urls.into_iter().filter_map(name).collect()
}

/// Returns the tokens of administrators and applications.
fn tokens(config: &Config) -> anyhow::Result<Vec<Secret>> {
    let faces = [&config.gateway.token, &config.chat.token, &config.museum.token];
    let mut tokens: Vec<Secret> = faces.into_iter().cloned().collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of a thousand connections from this address are accepted.
    fn accepted(trust_proxy: bool, peer: &str) -> usize {
        let connections = Connections { slots: Slots::with_share(100, 20), trust_proxy };
        let peer = Some(peer.parse().unwrap());
        (0..1_000).map_while(|_| connections.slot(peer).ok()).collect::<Vec<_>>().len()
    }

    #[test]
    fn an_address_has_a_share_of_the_connections() {
        for peer in ["203.0.113.7", "2001:db8::1", "::ffff:203.0.113.7"] {
            assert_eq!([false, true].map(|trust| accepted(trust, peer)), [20, 20], "{peer}");
        }
        for peer in ["192.168.1.2", "fd00::1"] {
            assert_eq!([false, true].map(|trust| accepted(trust, peer)), [20, 100], "{peer}");
        }
        for peer in ["127.0.0.1", "::1"] {
            assert_eq!([false, true].map(|trust| accepted(trust, peer)), [100, 100], "{peer}");
        }
    }
}
