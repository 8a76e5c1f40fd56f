//! Rate limits of clients: identification of a client, and the counting. Not for guesses of
//! secrets, which are counted where the secrets are checked.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::header;
use hearken_cluster::{Cluster, RateLimit};
use sha2::{Digest as _, Sha256};

use crate::http::request_identity::{bearer, session_of};

/// Factor between the limit of an address and that of one client.
const CLIENTS_AN_ADDRESS: u32 = 10;

/// Rate limits of `/api`. A client is identified by its session or its token, which are not
/// verified yet. For that reason its address has a limit too, which is several times larger.
pub(super) struct Limits {
    client: Arc<dyn RateLimit>,
    address: Arc<dyn RateLimit>,
}

impl Limits {
    /// Creates the limits; `None` if there is no limit.
    pub(super) fn new(per_minute: u32, cluster: &Cluster) -> Option<Self> {
        let client = NonZeroU32::new(per_minute)?;
        let address = client.saturating_mul(NonZeroU32::new(CLIENTS_AN_ADDRESS)?);
        Some(Self {
            client: cluster.limit("client", client),
            address: cluster.limit("address", address),
        })
    }

    /// Counts one request, unless its kind is exempt. The error is the time to wait.
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

/// Returns the identity that a client claims, if any. A token is stored as a hash only.
fn name_of(request: &HttpRequest) -> Option<String> {
    if let Some(session) = session_of(request) {
        return Some(format!("session {session}"));
    }
    let token = bearer(request);
    (!token.is_empty()).then(|| format!("token {:x}", Sha256::digest(token)))
}

/// Returns the address of a client: behind a trusted proxy the last address in the proxy's header,
/// which the proxy itself has seen.
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
