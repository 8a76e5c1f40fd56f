//! The server's port: HTTP and TLS on its connections, with the middleware before the routes. Not
//! for the handlers of routes, nor for the numbers of connections.

use std::fmt::Debug;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use actix_http::{HttpService, Request, TlsAcceptorConfig};
use actix_server::GracefulShutdownSignal;
use actix_service::{IntoServiceFactory, ServiceFactoryExt as _, map_config};
use actix_tls::accept::max_concurrent_tls_connect;
use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::body::MessageBody;
use actix_web::dev::{AppConfig, Server, Service, ServiceFactory, ServiceResponse};
use actix_web::rt::net::TcpStream;
use actix_web::{App, Error, HttpResponse};
use anyhow::Context as _;
use hearken_base::Secret;
use socket2::{Domain, Protocol, Socket, Type};

use super::connections::{self, Connections};
use super::frontends::FrontendRoutes;
use super::threads;
use crate::config::{AuthRequired, Config, TrustedProxies};
use crate::http::kept_connections::watch;
use crate::http::{self, MiddlewareState};
use crate::liveness::Liveness;
use crate::tls::Certificate;

/// Maximum time for a TLS handshake; small devices need several seconds.
const TLS_HANDSHAKE: Duration = Duration::from_secs(10);
/// Maximum time for a peer to read pending data before its connection is closed.
const DISCONNECT: Duration = Duration::from_secs(1);
/// Maximum number of connections that the system queues before they are accepted.
const BACKLOG: i32 = 1_024;

/// Binds the port and returns the server, which serves once awaited, and the liveness marks of its threads.
pub(super) fn listen(
    config: &Config,
    certificate: Option<&Arc<Certificate>>,
    routes: FrontendRoutes,
) -> anyhow::Result<(Server, SocketAddr, Liveness)> {
    let liveness = Liveness::default();
    let middleware = Arc::new(MiddlewareState::new(
        &config.http,
        own_names(config),
        tokens(config)?,
        TrustedProxies::new(config),
        &routes.health.cluster,
    ));
    let marks = liveness.clone();
    let app = move || {
        marks.begin();
        let routes = routes.clone();
        http::behind(App::new(), Arc::clone(&middleware))
            .configure(|services| routes.configure(services))
    };
    let tls = certificate.map(Certificate::server_config).transpose()?;
    let connections = Connections::new(config);
    let idle = Connections::idle(config);
    // Handshakes are limited in the same way as connections. At a separate limit, connections would
    // be neither accepted nor refused.
    max_concurrent_tls_connect(connections::most(config) + 1);
    let mut server = Server::build()
        .workers(threads(config).0)
        .disable_signals()
        .shutdown_timeout(config.server.shutdown_timeout_ms.div_ceil(1_000));
    let (listeners, first) = listeners(config)?;
    for (listener, secure) in listeners {
        let http = Http {
            address: listener.local_addr()?,
            secure,
            next_request: config.http.next_request,
            idle: idle.clone(),
            stopping: server.graceful_shutdown_signal(),
        };
        let app = app.clone();
        let connections = connections.clone();
        let name = http.address.to_string();
        server = match tls.clone().filter(|_| secure) {
            None => server.listen(name, listener, move || {
                let service = http.clone().service(app(), plain);
                connections.clone().limit(service.tcp())
            }),
            Some(tls) => server.listen(name, listener, move || {
                let service = http.clone().service(app(), within_tls);
                let handshake = TlsAcceptorConfig::default().handshake_timeout(TLS_HANDSHAKE);
                connections.clone().limit(service.rustls_0_23_with_config(tls.clone(), handshake))
            }),
        }?;
    }
    Ok((server.run(), first, liveness))
}

/// Returns the listeners, each with a flag for TLS, and the address of the server's port.
fn listeners(config: &Config) -> anyhow::Result<(Vec<(TcpListener, bool)>, SocketAddr)> {
    let host = config.server.host.as_str();
    let on = |port: u16, key: &str| {
        bind(host, port).with_context(|| {
            format!("cannot listen on {host}:{port}: is another server running? (`{key}`)")
        })
    };
    let usual = on(config.server.port, "server.port, CLOUD_PORT")?;
    let first = usual.first().context("there is no address to listen on")?.local_addr()?;
    let secure = config.tls.is_on();
    let mut listeners: Vec<_> = usual.into_iter().map(|listener| (listener, secure)).collect();
    if let Some(port) = config.tls.own_port() {
        listeners.extend(on(port, "tls.port")?.into_iter().map(|listener| (listener, true)));
        tracing::info!(port, "listening for HTTPS");
    }
    Ok((listeners, first))
}

/// Returns a listener for each address of a host.
fn bind(host: &str, port: u16) -> io::Result<Vec<TcpListener>> {
    let one = |address: SocketAddr| {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener::from(socket))
    };
    let (bound, failed): (Vec<_>, Vec<_>) =
        (host, port).to_socket_addrs()?.map(one).partition(Result::is_ok);
    // A name may have an address that this machine does not serve, such as an IPv6 address.
    match failed.into_iter().find_map(Result::err) {
        Some(error) if bound.is_empty() => Err(error),
        _ => bound.into_iter().collect(),
    }
}

/// HTTP settings of one address.
#[derive(Clone)]
struct Http {
    address: SocketAddr,
    secure: bool,
    next_request: Duration,
    /// Limits of connections without a request in progress.
    idle: Connections,
    stopping: GracefulShutdownSignal,
}

impl Http {
    /// Returns the service of an app on connections of this kind.
    fn service<T, A, B>(
        self,
        app: impl IntoServiceFactory<A, Request>,
        tcp: fn(&T) -> &TcpStream,
    ) -> HttpService<
        T,
        impl ServiceFactory<
            Request,
            Config = (),
            Response = ServiceResponse<B>,
            Error = HttpResponse,
            InitError = A::InitError,
            Service: Service<Request, Future: 'static>,
            Future: 'static,
        >,
        B,
    >
    where
        T: 'static,
        B: MessageBody + 'static,
        A: ServiceFactory<
                Request,
                Config = AppConfig,
                Response = ServiceResponse<B>,
                Error = Error,
                InitError: Debug,
                Service: Service<Request, Future: 'static>,
                Future: 'static,
            > + 'static,
    {
        let Self { address, secure, next_request, idle, stopping } = self;
        // `HttpServer` passes these values to its app in the same way; there is no public way.
        let config = move |()| AppConfig::__priv_test_new(secure, address.to_string(), address);
        let app = app.into_factory().map_err(|error: Error| error.error_response());
        HttpService::build()
            .client_disconnect_timeout(DISCONNECT)
            // A client that closes its side does not wait for the response: its request is cancelled.
            .h1_allow_half_closed(false)
            .local_addr(address)
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            })
            .on_connect_ext(move |stream, extensions| {
                let stream = tcp(stream);
                let peer = stream.peer_addr().ok().map(|peer| peer.ip());
                let idle = idle.clone();
                let take_idle = Box::new(move || idle.slot(peer).ok());
                watch(stream, extensions, next_request, take_idle);
            })
            .finish(map_config(app, config))
    }
}

fn plain(stream: &TcpStream) -> &TcpStream {
    stream
}

fn within_tls(stream: &TlsStream<TcpStream>) -> &TcpStream {
    stream.get_ref().0
}

/// Returns the names of this server in configured addresses.
fn own_names(config: &Config) -> Vec<String> {
    let urls = [&config.ota.websocket_url, &config.vision.url];
    let name = |url: &String| Some(url::Url::parse(url).ok()?.host_str()?.to_owned());
    urls.into_iter().filter_map(name).collect()
}

/// Returns the tokens of administrators and applications.
fn tokens(config: &Config) -> anyhow::Result<Vec<Secret>> {
    let of_frontends = [&config.gateway.token, &config.chat.token, &config.museum.token];
    let mut tokens: Vec<Secret> = of_frontends.into_iter().cloned().collect();
    if config.auth.required != AuthRequired::Never {
        tokens.push(http::admin_token(&config.auth, &config.server.data_dir)?);
    }
    Ok(tokens)
}
