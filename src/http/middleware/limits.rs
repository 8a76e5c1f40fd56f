//! Limits per address: rates of requests, of boots and of WebSocket handshakes, and requests in
//! progress. Not for guesses of secrets, which are counted together with the check of the secret,
//! nor for the address of a client.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::{Method, header};
use hearken_base::Secret;
use hearken_base::slots::{Slot, Slots};
use hearken_cluster::{Cluster, RateLimit};

use crate::config::{HttpConfig, TrustedProxies};
use crate::http::paths::routed;
use crate::http::peer::{Peer, address_of};
use crate::http::request_identity::{session_of, shows};

/// Factor between the limit of one client and the limit of an address whose clients send a valid token.
const CLIENTS_AN_ADDRESS: u32 = 10;
/// Prefix of the paths of booting devices: the report, the activation and the images.
const OTA_PATH: &str = "/xiaozhi/ota";
/// Paths whose requests in progress are counted separately: monitoring must work while others at the
/// same address, such as that of a container network, use up their limit.
const MONITORING: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Paths of WebSockets, without a trailing slash, besides those of tools and chat sessions.
const SOCKETS: [&str; 3] = ["", "/xiaozhi/v1", "/mcp_endpoint/mcp"];

/// Limits of one address. Clients are identified by their address, because session ids and tokens
/// can be invented. Programs on this machine and clients with a valid token are exempt, except from
/// the rate of requests to `/api`.
pub(super) struct Limits {
    /// Rate of requests to `/api`; `None` for no limit.
    api: Option<ApiLimits>,
    /// Rate of requests of booting devices; `None` for no limit.
    boots: Option<Arc<dyn RateLimit>>,
    /// Rate of WebSocket handshakes; `None` for no limit.
    upgrades: Option<Arc<dyn RateLimit>>,
    /// Requests in progress, except those of [`MONITORING`].
    requests: Slots,
    /// Requests in progress of [`MONITORING`].
    monitoring: Slots,
    tokens: Vec<Secret>,
    proxies: TrustedProxies,
}

/// Rate limits of `/api`. A client with a valid token, such as a backend with many users, is
/// identified by its session. Its address then has a separate, several times larger limit.
struct ApiLimits {
    client: Arc<dyn RateLimit>,
    address: Arc<dyn RateLimit>,
}

/// Reason of a refusal.
#[derive(Debug)]
pub(super) enum OverLimit {
    /// The rate limit is exceeded; contains the time until the next request is accepted.
    TooOften(Duration),
    /// The address has too many requests in progress.
    TooManyAtOnce,
}

impl Limits {
    /// Creates the limits. `tokens` are those of administrators and applications; empty ones are
    /// left out. Behind one of the proxies, addresses are taken from its header.
    pub(super) fn new(
        config: &HttpConfig,
        tokens: Vec<Secret>,
        proxies: TrustedProxies,
        cluster: &Cluster,
    ) -> Self {
        let limit = |name, per_minute| Some(cluster.limit(name, NonZeroU32::new(per_minute)?));
        let for_address = config.requests_per_minute.saturating_mul(CLIENTS_AN_ADDRESS);
        let clients = limit("client", config.requests_per_minute);
        let addresses = limit("address", for_address);
        Self {
            api: clients.zip(addresses).map(|(client, address)| ApiLimits { client, address }),
            boots: limit("boot", config.boots_per_minute),
            upgrades: limit("upgrade", config.upgrades_per_minute),
            requests: Slots::new(usize::MAX, config.requests_at_once),
            monitoring: Slots::new(usize::MAX, config.requests_at_once),
            tokens: tokens.into_iter().filter(|token| !token.is_empty()).collect(),
            proxies,
        }
    }

    /// Counts one request, unless its kind is exempt, and returns its slot among those in progress.
    pub(super) async fn admit(&self, request: &HttpRequest) -> Result<Option<Slot>, OverLimit> {
        let path = routed(request);
        let trusted = self.is_trusted(request);
        let upgrade = is_handshake(request);
        if upgrade && !trusted {
            self.take(self.upgrades.as_ref(), request).await?;
        } else if path.starts_with(OTA_PATH) && !trusted {
            self.take(self.boots.as_ref(), request).await?;
        } else if path.starts_with("/api/") && !upgrade {
            self.take_api(request).await?;
        }
        if upgrade || trusted {
            return Ok(None);
        }
        let slots = if MONITORING.contains(&path) { &self.monitoring } else { &self.requests };
        let slot = slots.take(Some(&self.address_of(request)));
        slot.map(Some).map_err(|_| OverLimit::TooManyAtOnce)
    }

    async fn take(
        &self,
        limit: Option<&Arc<dyn RateLimit>>,
        request: &HttpRequest,
    ) -> Result<(), OverLimit> {
        let Some(limit) = limit else { return Ok(()) };
        limit.take(&self.address_of(request)).await.map_err(OverLimit::TooOften)
    }

    async fn take_api(&self, request: &HttpRequest) -> Result<(), OverLimit> {
        let Some(api) = &self.api else { return Ok(()) };
        match session_of(request).filter(|_| self.has_valid_token(request)) {
            None => self.take(Some(&api.client), request).await,
            Some(session) => {
                self.take(Some(&api.address), request).await?;
                let session = format!("session {session}");
                api.client.take(&session).await.map_err(OverLimit::TooOften)
            }
        }
    }

    /// Returns the proxies whose headers are trusted.
    pub(super) fn proxies(&self) -> &TrustedProxies {
        &self.proxies
    }

    /// Returns the address of a client.
    pub(super) fn address_of(&self, request: &HttpRequest) -> String {
        address_of(request, &self.proxies)
    }

    /// Returns true for programs on this machine, and clients with a valid token.
    pub(super) fn is_trusted(&self, request: &HttpRequest) -> bool {
        Peer::of(request) == Peer::Machine || self.has_valid_token(request)
    }

    fn has_valid_token(&self, request: &HttpRequest) -> bool {
        self.tokens.iter().any(|token| shows(request, token))
    }
}

/// Returns true for the handshake of a WebSocket. The header `Upgrade` is not sufficient: any
/// request may have it, and would then escape the limit of requests in progress.
fn is_handshake(request: &HttpRequest) -> bool {
    let path = routed(request);
    let opens_socket = SOCKETS.contains(&path.trim_end_matches('/'))
        || path.starts_with("/litemcp/")
        || path.starts_with("/api/sessions/") && path.ends_with("/ws");
    if !opens_socket {
        return false;
    }
    let upgrade = request.headers().get(header::UPGRADE).and_then(|value| value.to_str().ok());
    request.method() == Method::GET
        && upgrade.is_some_and(|value| value.to_ascii_lowercase().contains("websocket"))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;
    use crate::http::paths::tests::ways_to_write;

    /// These paths, and the other ways to write them.
    fn however_written(paths: &[&str]) -> Vec<String> {
        let ways = |path: &&str| [vec![(*path).to_owned()], ways_to_write(path)].concat();
        paths.iter().flat_map(ways).collect()
    }

    fn limits(config: &HttpConfig) -> Limits {
        let tokens = vec![Secret::new("valid"), Secret::new("")];
        Limits::new(config, tokens, TrustedProxies::None, &Cluster::alone())
    }

    fn request(from: &str, headers: &[(&'static str, &str)]) -> HttpRequest {
        request_to("/api/v1/sessions", from, headers)
    }

    fn request_to(path: &str, from: &str, headers: &[(&'static str, &str)]) -> HttpRequest {
        let request = TestRequest::with_uri(path);
        let request = request.peer_addr(format!("{from}:1").parse().unwrap());
        let with = |request: TestRequest, (name, value): &(_, _)| {
            TestRequest::insert_header(request, (*name, *value))
        };
        headers.iter().fold(request, with).to_http_request()
    }

    #[tokio::test]
    async fn invented_sessions_and_tokens_do_not_raise_the_limit() {
        let limits = limits(&HttpConfig { requests_per_minute: 2, ..HttpConfig::default() });
        let mut admitted = [0, 0, 0];
        for n in 0..10 {
            let session = ("session-id", &*format!("s{n}"));
            let invented = ("authorization", &*format!("Bearer t{n}"));
            let valid = ("authorization", "Bearer valid");
            for (i, (from, headers)) in [
                ("192.0.2.1", vec![session]),
                ("192.0.2.2", vec![session, invented]),
                ("192.0.2.3", vec![session, valid]),
            ]
            .into_iter()
            .enumerate()
            {
                admitted[i] += i32::from(limits.admit(&request(from, &headers)).await.is_ok());
            }
        }
        assert_eq!(admitted, [2, 2, 10]);
    }

    /// Sends 20 requests of a kind that is limited to 3, from each of three clients: an unknown
    /// one, one with a valid token, and a program on this machine. Returns how many were admitted.
    async fn admitted(config: HttpConfig, path: &str, header: (&'static str, &str)) -> [usize; 3] {
        let limits = limits(&config);
        let mut admitted = [0; 3];
        let mut in_progress = Vec::new();
        for _ in 0..20 {
            let valid = ("authorization", "Bearer valid");
            for (i, request) in [
                request_to(path, "192.0.2.1", &[header]),
                request_to(path, "192.0.2.2", &[header, valid]),
                request_to(path, "127.0.0.1", &[header]),
            ]
            .iter()
            .enumerate()
            {
                if let Ok(slot) = limits.admit(request).await {
                    admitted[i] += 1;
                    in_progress.push(slot);
                }
            }
        }
        admitted
    }

    #[tokio::test]
    async fn monitoring_works_while_an_address_has_too_many_other_requests_in_progress() {
        let limits = limits(&HttpConfig { requests_at_once: 2, ..HttpConfig::default() });
        let mut in_progress = Vec::new();
        for path in ["/console/", "/test_client.html", "/healthz", "/metrics"] {
            in_progress.push(limits.admit(&request_to(path, "192.0.2.1", &[])).await.unwrap());
        }
        assert!(in_progress.iter().all(Option::is_some));
        for path in however_written(&["/console/", "/healthz", "/readyz", "/metrics"]) {
            let refused = limits.admit(&request_to(&path, "192.0.2.1", &[])).await;
            assert!(matches!(refused, Err(OverLimit::TooManyAtOnce)), "{path}");
            assert!(limits.admit(&request_to(&path, "192.0.2.2", &[])).await.is_ok(), "{path}");
        }
        drop(in_progress);
        assert!(limits.admit(&request_to("/metrics", "192.0.2.1", &[])).await.is_ok());
    }

    #[tokio::test]
    async fn unknown_clients_have_limits_of_each_kind_and_trusted_ones_have_none() {
        let none = || HttpConfig {
            requests_per_minute: 0,
            boots_per_minute: 0,
            upgrades_per_minute: 0,
            requests_at_once: 1_000,
            ..HttpConfig::default()
        };
        let plain = ("x", "y");
        let upgrade = ("upgrade", "websocket");
        let boots = HttpConfig { boots_per_minute: 3, ..none() };
        let paths = ["/xiaozhi/ota/", "/xiaozhi/ota", "/xiaozhi/ota/activate"];
        for path in however_written(&paths) {
            assert_eq!(admitted(boots.clone(), &path, plain).await, [3, 20, 20], "{path}");
        }
        let upgrades = HttpConfig { upgrades_per_minute: 3, ..none() };
        let paths = ["/", "/xiaozhi/v1/", "/mcp_endpoint/mcp", "/api/sessions/x/ws", "/litemcp/x"];
        for path in however_written(&paths) {
            assert_eq!(admitted(upgrades.clone(), &path, upgrade).await, [3, 20, 20], "{path}");
        }
        let api = HttpConfig { requests_per_minute: 3, ..none() };
        for path in however_written(&["/api/sessions", "/api/docs/", "/api/openapi.json"]) {
            assert_eq!(admitted(api.clone(), &path, plain).await, [3, 3, 3], "{path}");
        }
        let at_once = HttpConfig { requests_at_once: 3, ..none() };
        for path in ["/api/sessions", "/vision/explain", "/xiaozhi/ota/", "/test_client.html"] {
            assert_eq!(admitted(at_once.clone(), path, plain).await, [3, 20, 20], "{path}");
        }
        let path = "/api/sessions";
        let other = ("upgrade", "x");
        assert_eq!(admitted(at_once.clone(), path, other).await, [3, 20, 20]);
        for path in ["/api/sessions/x/messages", "/xiaozhi/ota/firmware/x", "/api/openapi.json"] {
            assert_eq!(admitted(at_once.clone(), path, upgrade).await, [3, 20, 20], "{path}");
        }
        let post = TestRequest::post().uri(path).peer_addr("192.0.2.1:1".parse().unwrap());
        assert!(!is_handshake(&post.insert_header(upgrade).to_http_request()));
        for path in however_written(&MONITORING) {
            assert_eq!(admitted(at_once.clone(), &path, plain).await, [3, 20, 20], "{path}");
        }
        assert_eq!(admitted(none(), "/xiaozhi/ota/", upgrade).await, [20; 3]);
    }
}
