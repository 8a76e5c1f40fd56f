//! Rate limits of clients: identification of a client, and the counting. Not for guesses of
//! secrets, which are counted where the secrets are checked, nor for the address of a client.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::header;
use hearken_base::Secret;
use hearken_cluster::{Cluster, RateLimit};

use crate::auth::same;
use crate::http::peer::address_of;
use crate::http::request_identity::{bearer, session_of};

/// Factor between the limit of an address whose clients send a valid token and that of one client.
const CLIENTS_AN_ADDRESS: u32 = 10;

/// Rate limits of `/api`. A client is its address: anybody can invent any number of session ids and
/// tokens. Only a client that sends a valid token, such as a backend with many users, is identified
/// by its session. Its address then has a limit too, which is several times larger.
pub(super) struct Limits {
    client: Arc<dyn RateLimit>,
    address: Arc<dyn RateLimit>,
    tokens: Vec<Secret>,
}

impl Limits {
    /// Creates the limits; `None` if there is no limit. `tokens` are those of administrators and
    /// applications; empty ones are left out.
    pub(super) fn new(per_minute: u32, tokens: Vec<Secret>, cluster: &Cluster) -> Option<Self> {
        let client = NonZeroU32::new(per_minute)?;
        let address = client.saturating_mul(NonZeroU32::new(CLIENTS_AN_ADDRESS)?);
        Some(Self {
            client: cluster.limit("client", client),
            address: cluster.limit("address", address),
            tokens: tokens.into_iter().filter(|token| !token.is_empty()).collect(),
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
        match session_of(request).filter(|_| self.has_valid_token(request)) {
            None => self.client.take(&address).await,
            Some(session) => {
                self.address.take(&address).await?;
                self.client.take(&format!("session {session}")).await
            }
        }
    }

    fn has_valid_token(&self, request: &HttpRequest) -> bool {
        let sent = bearer(request);
        self.tokens.iter().any(|token| same(&sent, token.expose()))
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn request(from: &str, headers: &[(&'static str, &str)]) -> HttpRequest {
        let request = TestRequest::with_uri("/api/v1/sessions");
        let request = request.peer_addr(format!("{from}:1").parse().unwrap());
        let with = |request: TestRequest, (name, value): &(_, _)| {
            TestRequest::insert_header(request, (*name, *value))
        };
        headers.iter().fold(request, with).to_http_request()
    }

    #[tokio::test]
    async fn invented_sessions_and_tokens_do_not_raise_the_limit() {
        let limits =
            Limits::new(2, vec![Secret::new("valid"), Secret::new("")], &Cluster::alone()).unwrap();
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
                admitted[i] +=
                    i32::from(limits.take(&request(from, &headers), false).await.is_ok());
            }
        }
        assert_eq!(admitted, [2, 2, 10]);
    }
}
