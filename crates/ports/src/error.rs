//! Failures of providers: `kind` is for code, `source` for people, `provider` for both. Not for
//! interruptions, which are not errors.

use std::time::Duration;

pub use hearken_base::BoxError;

/// Failed call to a recogniser, a language model or a synthesiser.
#[derive(Debug, thiserror::Error)]
#[error("{provider}: {kind}{}", source.as_ref().map(|s| format!(": {s}")).unwrap_or_default())]
pub struct ProviderError {
    /// Name of the provider in the configuration.
    pub provider: &'static str,
    /// Kind of failure.
    pub kind: ProviderErrorKind,
    /// Time to wait before a retry, if the provider requested one.
    pub retry_after: Option<Duration>,
    #[source]
    source: Option<BoxError>,
}

/// Kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ProviderErrorKind {
    /// The key is missing or wrong.
    #[error("not authorised")]
    Unauthorized,
    /// Too many requests.
    #[error("rate limited")]
    RateLimited,
    /// The provider understood and refused the request. Another provider would refuse it as well.
    #[error("request refused")]
    BadRequest,
    /// The request is larger than this provider accepts.
    #[error("too large")]
    TooLarge,
    /// This provider cannot serve the request: unpaid account, no such model or address.
    #[error("not served")]
    NotServed,
    /// A deadline passed.
    #[error("timed out")]
    Timeout,
    /// The provider is unreachable, closed the connection, or reported that it is down or full.
    #[error("unavailable")]
    Unavailable,
    /// The provider failed on this request (status 500).
    #[error("internal error of the provider")]
    Fault,
    /// The response violates the provider's protocol.
    #[error("protocol violation")]
    Protocol,
}

impl ProviderErrorKind {
    /// Returns true if the failure is caused by the request, and not by the provider's health.
    pub fn is_of_the_request(self) -> bool {
        matches!(self, Self::BadRequest | Self::TooLarge)
    }

    /// Returns true if a retry of the same call may succeed.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::RateLimited | Self::Timeout | Self::Unavailable | Self::Fault)
    }
}

impl ProviderError {
    /// Creates a failure without a source.
    pub fn new(provider: &'static str, kind: ProviderErrorKind) -> Self {
        Self { provider, kind, retry_after: None, source: None }
    }

    /// Creates a failure with its cause (an error or text).
    pub fn because(
        provider: &'static str,
        kind: ProviderErrorKind,
        source: impl Into<BoxError>,
    ) -> Self {
        Self { provider, kind, retry_after: None, source: Some(source.into()) }
    }

    /// Sets the wait that the provider requested.
    #[must_use]
    pub fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }
}
