//! How often a client may ask: who counts as one, and the counting. Not for guesses at secrets,
//! which are counted where the secrets are.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::header;
use futures_util::future::BoxFuture;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};
use sha2::{Digest as _, Sha256};

use crate::bus::Fleet;
use crate::http::caller::{bearer, session_of};

/// Clients behind one address, as far as the address's own limit goes.
const CLIENTS_AN_ADDRESS: u32 = 10;
/// Clients that are known by name at once; beyond, several share a count.
const MAX_CLIENTS: usize = 100_000;
/// Counts that are shared then.
const SHARED: u64 = 4_096;
/// Clients that ask no more are forgotten every so many requests.
const FORGET_EVERY: u32 = 1_024;

/// Counts requests, in this process or for several.
pub trait RateLimit: Send + Sync {
    /// Takes one request of this client.
    ///
    /// # Errors
    /// The client has had as many as it may; the time after which it may ask again.
    fn take<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<(), Duration>>;
}

/// Counts the requests of this process: so many at once, and so many a minute.
pub struct LocalLimit {
    limiter: DefaultKeyedRateLimiter<String>,
    clock: DefaultClock,
    taken: AtomicU32,
    full: AtomicBool,
}

impl LocalLimit {
    /// So many a minute.
    pub fn new(per_minute: NonZeroU32) -> Self {
        Self {
            limiter: DefaultKeyedRateLimiter::dashmap(Quota::per_minute(per_minute)),
            clock: DefaultClock::default(),
            taken: AtomicU32::new(0),
            full: AtomicBool::new(false),
        }
    }

    fn check(&self, client: &str) -> Result<(), Duration> {
        if self.taken.fetch_add(1, Ordering::Relaxed) % FORGET_EVERY == FORGET_EVERY - 1 {
            self.limiter.retain_recent();
            self.full.store(self.limiter.len() >= MAX_CLIENTS, Ordering::Relaxed);
        }
        let client = if self.full.load(Ordering::Relaxed) {
            let mut hasher = DefaultHasher::new();
            client.hash(&mut hasher);
            format!("shared {}", hasher.finish() % SHARED)
        } else {
            client.to_owned()
        };
        let checked = self.limiter.check_key(&client);
        checked.map_err(|until| until.wait_time_from(self.clock.now()))
    }
}

impl RateLimit for LocalLimit {
    fn take<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<(), Duration>> {
        Box::pin(std::future::ready(self.check(client)))
    }
}

/// The limits of `/api`. A client names itself by its session or its token, which nobody has
/// checked yet: so its address has a limit too, of several clients.
pub(super) struct Limits {
    client: Arc<dyn RateLimit>,
    address: Arc<dyn RateLimit>,
}

impl Limits {
    /// None where there is no limit.
    pub(super) fn new(per_minute: u32, fleet: &Fleet) -> Option<Self> {
        let client = NonZeroU32::new(per_minute)?;
        let address = client.saturating_mul(NonZeroU32::new(CLIENTS_AN_ADDRESS)?);
        Some(Self {
            client: fleet.limit("client", client),
            address: fleet.limit("address", address),
        })
    }

    /// Takes one request, if it is one that counts.
    pub(super) async fn take(
        &self,
        request: &HttpRequest,
        trust_proxy: bool,
    ) -> Result<(), Duration> {
        if !request.path().starts_with("/api/") || request.headers().contains_key(header::UPGRADE) {
            return Ok(());
        }
        let address = address_of(request, trust_proxy);
        match name_of(request) {
            None => self.client.take(&address).await,
            Some(name) => {
                self.address.take(&address).await?;
                self.client.take(&name).await
            }
        }
    }
}

/// As whom a client shows itself, where it does. A token is not kept as it is.
fn name_of(request: &HttpRequest) -> Option<String> {
    if let Some(session) = session_of(request) {
        return Some(format!("session {session}"));
    }
    let token = bearer(request);
    (!token.is_empty()).then(|| format!("token {:x}", Sha256::digest(token)))
}

/// Where a client is: of a trusted proxy's list the last address, which the proxy saw itself.
pub(super) fn address_of(request: &HttpRequest, trust_proxy: bool) -> String {
    let forwarded = request.headers().get_all("x-forwarded-for").last().filter(|_| trust_proxy);
    let forwarded = forwarded.and_then(|v| v.to_str().ok()?.rsplit(',').next().map(str::trim));
    match forwarded.filter(|address| !address.is_empty() && address.len() <= 64) {
        Some(address) => format!("address {address}"),
        None => match request.peer_addr() {
            Some(peer) => format!("address {}", peer.ip()),
            None => "address".into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn a_client_has_its_requests_at_once_and_then_waits() {
        let limit = LocalLimit::new(NonZeroU32::new(3).unwrap());
        for _ in 0..3 {
            assert_eq!(limit.check("a"), Ok(()));
        }
        let wait = limit.check("a").unwrap_err();
        assert!(wait > Duration::from_secs(18) && wait <= Duration::from_secs(20), "{wait:?}");
        assert_eq!(limit.check("b"), Ok(()), "others have their own");
    }

    #[test]
    fn who_names_itself_anew_each_time_shares_a_count_in_the_end() {
        let limit = LocalLimit::new(NonZeroU32::new(1).unwrap());
        let refused = (0..MAX_CLIENTS + 20_000).filter(|n| limit.check(&n.to_string()).is_err());
        assert!(refused.count() > 10_000);
        assert!(limit.limiter.len() <= MAX_CLIENTS + usize::try_from(SHARED).unwrap() + 1_024);
    }

    #[test]
    fn a_client_is_its_session_then_its_token_then_its_address() {
        let request = || TestRequest::default().peer_addr("192.0.2.7:1".parse().unwrap());
        let token = request().insert_header(("authorization", "Bearer t"));
        let both = request()
            .insert_header(("authorization", "Bearer t"))
            .insert_header(("session-id", "s"));
        assert_eq!(name_of(&both.to_http_request()).as_deref(), Some("session s"));
        let named = name_of(&token.to_http_request()).unwrap();
        assert!(named.starts_with("token ") && named.len() > 60, "{named}");
        let forwarded = request().insert_header(("x-forwarded-for", "203.0.113.1, 198.51.100.2"));
        let forwarded = forwarded.to_http_request();
        assert_eq!(name_of(&forwarded), None);
        assert_eq!(address_of(&forwarded, false), "address 192.0.2.7");
        assert_eq!(address_of(&forwarded, true), "address 198.51.100.2");
    }
}
