//! Client for JSON from external services, with limits of time and size. Not for the requests
//! themselves.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hearken_outbound::http as wire;
use hearken_ports::{ProviderError, ProviderErrorKind};
use hearken_proto::json::weighed;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::settings::{BuiltinError, address};

/// Maximum size of a response, in bytes.
const MAX_ANSWER_BYTES: usize = 256 << 10;
/// Maximum wait for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(4);

/// Client of a service at one address; clones share its connections.
#[derive(Clone)]
pub(super) struct JsonClient {
    /// Purpose of the service, for messages to users and the model.
    what: &'static str,
    url: Url,
    /// Created on first use: the server then starts even on a machine without certificates.
    client: Arc<OnceLock<Result<reqwest::Client, String>>>,
}

impl JsonClient {
    /// Creates a client for `what`, with the address from the setting `key`.
    pub(super) fn new(
        what: &'static str,
        key: &'static str,
        url: &str,
    ) -> Result<Self, BuiltinError> {
        Ok(Self { what, url: address(key, url)?, client: Arc::default() })
    }

    /// Requests JSON with these query parameters, until `by`.
    ///
    /// # Errors
    /// The service cannot be reached, refuses, is late, or responds with something else; the
    /// message is for the model.
    pub(super) async fn get_json(
        &self,
        query: &[(&str, &str)],
        by: Instant,
    ) -> Result<Value, String> {
        let failed = |error: ProviderError| {
            tracing::warn!(service = self.what, %error, "a request of a built-in tool failed");
            let what = self.what;
            match error.kind {
                ProviderErrorKind::Protocol => {
                    format!("the {what} service gave an answer that cannot be read")
                }
                ProviderErrorKind::BadRequest
                | ProviderErrorKind::TooLarge
                | ProviderErrorKind::NotServed
                | ProviderErrorKind::Unauthorized => {
                    format!("the {what} service refused the question")
                }
                kind => format!("the {what} service cannot be reached ({kind})"),
            }
        };
        let body = self.body(query, by).await.map_err(failed)?;
        weighed(&body)
            .map_err(|e| failed(ProviderError::because("builtin", ProviderErrorKind::Protocol, e)))
    }

    async fn body(&self, query: &[(&str, &str)], by: Instant) -> Result<Vec<u8>, ProviderError> {
        let client = self.client.get_or_init(|| {
            wire::client(&self.url, CONNECT_WITHIN).map_err(|error| error.to_string())
        });
        let client = client.as_ref().map_err(|reason| {
            let kind = ProviderErrorKind::Unavailable;
            let why = format!("no HTTP client: {reason}");
            ProviderError::because("builtin", kind, why)
        })?;
        let mut url = self.url.clone();
        url.query_pairs_mut().extend_pairs(query);
        let response = timeout_at(by, client.get(url).send())
            .await
            .map_err(|_| wire::timed_out("builtin", "no answer within the deadline"))?
            .map_err(|e| wire::transport("builtin", e))?;
        if !response.status().is_success() {
            return Err(wire::refusal("builtin", response).await);
        }
        wire::body("builtin", response, MAX_ANSWER_BYTES, by).await
    }
}
