//! TCP connections: their maximum numbers, in total and per address, and their socket options. A
//! connection is counted before any work is done for it, including the TLS handshake. Not for
//! requests.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use actix_web::dev::{Service, ServiceFactory, fn_factory, forward_ready};
use actix_web::rt::net::TcpStream;
use futures_util::future::LocalBoxFuture;
use hearken_base::slots::{NoSlot, Slot, Slots};
use socket2::SockRef;

use crate::config::{Config, TrustedProxies};
use crate::http;

/// Time after which a peer that accepts no data is disconnected (`TCP_USER_TIMEOUT`).
const SOCKET_STALL: Duration = Duration::from_secs(20);

/// Maximum number of TCP connections besides those of devices and text clients: requests, watchers, tools.
const OTHER_CONNECTIONS: usize = 2_000;

/// Maximum number of connections without a request in progress, in total and per address.
/// actix-http buffers at most 128 KiB of a request head for each: 512 MiB in total, 64 MiB per
/// address.
const MOST_IDLE: usize = 4_096;
const MOST_IDLE_OF_ADDRESS: usize = 512;

/// Limits of TCP connections. Programs on this machine and trusted proxies are exempt from the limit
/// per address.
#[derive(Clone)]
pub(super) struct Connections {
    slots: Slots,
    proxies: TrustedProxies,
}

impl Connections {
    pub(super) fn new(config: &Config) -> Self {
        let slots = Slots::with_share(most(config), config.http.address_percent);
        Self { slots, proxies: TrustedProxies::new(config) }
    }

    /// Creates the limits of connections without a request in progress; each may buffer part of a request head.
    pub(super) fn idle(config: &Config) -> Self {
        let slots = Slots::new(MOST_IDLE, MOST_IDLE_OF_ADDRESS);
        Self { slots, proxies: TrustedProxies::new(config) }
    }

    pub(super) fn slot(&self, peer: Option<IpAddr>) -> Result<Slot, NoSlot> {
        let is_limited = |peer: &IpAddr| {
            http::Peer::at(*peer) != http::Peer::Machine
                && !http::is_trusted_proxy(*peer, &self.proxies)
        };
        let limited = peer.filter(is_limited);
        self.slots.take(limited.map(|peer| http::network_of(peer).to_string()).as_deref())
    }

    /// Restricts a service to connections within the limits; further connections are closed unread.
    /// A connection holds its slot until the service is done with it.
    pub(super) fn limit<F>(
        self,
        factory: F,
    ) -> impl ServiceFactory<TcpStream, Config = (), Response = (), InitError = F::InitError>
    where
        F: ServiceFactory<TcpStream, Config = (), Response = ()> + 'static,
    {
        let factory = Rc::new(factory);
        fn_factory(move || {
            let making = factory.new_service(());
            let connections = self.clone();
            async move { Ok(Limited { service: making.await?, connections }) }
        })
    }
}

/// Returns the maximum number of TCP connections: those of devices and text clients, and a number of others.
pub(super) fn most(config: &Config) -> usize {
    let sockets = config.server.max_connections.saturating_add(config.gateway.max_connections);
    sockets.saturating_add(OTHER_CONNECTIONS)
}

struct Limited<S> {
    service: S,
    connections: Connections,
}

impl<S> Service<TcpStream> for Limited<S>
where
    S: Service<TcpStream, Response = ()>,
    S::Future: 'static,
{
    type Response = ();
    type Error = S::Error;
    type Future = LocalBoxFuture<'static, Result<(), S::Error>>;

    forward_ready!(service);

    fn call(&self, stream: TcpStream) -> Self::Future {
        // The slot is taken before the TLS handshake: otherwise one address could occupy all
        // handshakes. Decision 0045.
        match self.connections.slot(stream.peer_addr().ok().map(|peer| peer.ip())) {
            Ok(slot) => {
                tune(&stream);
                let serving = self.service.call(stream);
                Box::pin(async move {
                    let served = serving.await;
                    drop(slot);
                    served
                })
            }
            Err(full) => {
                tracing::debug!(%full, "refused a connection");
                Box::pin(async { Ok(()) })
            }
        }
    }
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
    use actix_web::dev::fn_service;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    use super::*;

    /// Returns how many of a thousand connections from this address are accepted.
    fn accepted(trust_proxy: bool, peer: &str) -> usize {
        let proxies = if trust_proxy { TrustedProxies::Near } else { TrustedProxies::None };
        let connections = Connections { slots: Slots::with_share(100, 20), proxies };
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

    async fn connect(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let (client, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (client.unwrap(), accepted.unwrap().0)
    }

    #[tokio::test]
    async fn a_connection_is_counted_until_its_service_is_done_with_it() {
        let connections = Connections { slots: Slots::new(1, 1), proxies: TrustedProxies::None };
        let slots = connections.slots.clone();
        // Simulates a peer whose TLS handshake does not end.
        let silent = fn_service(|_: TcpStream| std::future::pending::<Result<(), ()>>());
        let service = connections.limit(silent).new_service(()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (_first, stream) = connect(&listener).await;
        let serving = service.call(stream);
        assert_eq!(slots.in_use(), 1, "counted before the service has begun");
        let (mut second, stream) = connect(&listener).await;
        assert!(service.call(stream).await.is_ok());
        assert_eq!(second.read(&mut [0]).await.unwrap(), 0, "closed");
        drop(serving);
        assert_eq!(slots.in_use(), 0);
    }
}
