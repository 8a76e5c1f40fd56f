//! Why a provider failed: `kind` is for code, `source` for people, `provider` for both. Not for
//! being interrupted, which is no error anywhere.

use std::time::Duration;

/// Any error, boxed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A failed call to a recogniser, a language model or a synthesiser.
#[derive(Debug, thiserror::Error)]
#[error("{provider}: {kind}{}", source.as_ref().map(|s| format!(": {s}")).unwrap_or_default())]
pub struct ProviderError {
    /// Which provider, by its name in the configuration.
    pub provider: &'static str,
    /// What sort of failure.
    pub kind: ProviderErrorKind,
    /// How long to wait before trying again, where the provider says so.
    pub retry_after: Option<Duration>,
    #[source]
    source: Option<BoxError>,
}

/// Sorts of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ProviderErrorKind {
    /// The key is missing or wrong.
    #[error("not authorised")]
    Unauthorized,
    /// Too many requests.
    #[error("rate limited")]
    RateLimited,
    /// The provider understood and refused; another would refuse as well.
    #[error("request refused")]
    BadRequest,
    /// The request is longer than this provider takes.
    #[error("too large")]
    TooLarge,
    /// This provider does not serve: unpaid, no such model or address.
    #[error("not served")]
    NotServed,
    /// A deadline passed.
    #[error("timed out")]
    Timeout,
    /// It cannot be reached, broke off, or said that it is down or full.
    #[error("unavailable")]
    Unavailable,
    /// It broke over this request: status 500.
    #[error("failed inside")]
    Fault,
    /// It answered with something that is not its protocol.
    #[error("protocol violation")]
    Protocol,
}

impl ProviderErrorKind {
    /// It says something of the request, and nothing of whether the provider works.
    pub fn is_of_the_request(self) -> bool {
        matches!(self, Self::BadRequest | Self::TooLarge)
    }

    /// The same call may succeed if made again.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::RateLimited | Self::Timeout | Self::Unavailable | Self::Fault)
    }
}

impl ProviderError {
    /// A failure with nothing behind it.
    pub fn new(provider: &'static str, kind: ProviderErrorKind) -> Self {
        Self { provider, kind, retry_after: None, source: None }
    }

    /// A failure and what caused it (an error, or words).
    pub fn because(
        provider: &'static str,
        kind: ProviderErrorKind,
        source: impl Into<BoxError>,
    ) -> Self {
        Self { provider, kind, retry_after: None, source: Some(source.into()) }
    }

    /// The same failure with a wait that the provider asked for.
    #[must_use]
    pub fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }
}
