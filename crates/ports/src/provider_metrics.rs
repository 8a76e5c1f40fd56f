//! Metrics of the services behind a turn, each labelled by its port and its position in the
//! configuration. Not for calling them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Unit, counter, gauge, histogram};

use crate::ProviderErrorKind;

/// Name of the histogram of providers' response times, in seconds.
pub const PROVIDER_SECONDS: &str = "hearken_provider_seconds";

const PROVIDER_REQUESTS: &str = "hearken_provider_requests_total";
const PROVIDER_IN_FLIGHT: &str = "hearken_provider_in_flight";
const PROVIDER_UP: &str = "hearken_provider_up";

/// Outcome of a request to a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderEnd {
    /// A complete answer.
    Answered,
    /// Cancelled: no caller waits for it any more.
    Cancelled,
    /// A failure of this kind.
    Failed(ProviderErrorKind),
}

impl ProviderEnd {
    const ALL: [Self; 11] = [
        Self::Answered,
        Self::Cancelled,
        Self::Failed(ProviderErrorKind::Unauthorized),
        Self::Failed(ProviderErrorKind::RateLimited),
        Self::Failed(ProviderErrorKind::BadRequest),
        Self::Failed(ProviderErrorKind::TooLarge),
        Self::Failed(ProviderErrorKind::NotServed),
        Self::Failed(ProviderErrorKind::Timeout),
        Self::Failed(ProviderErrorKind::Unavailable),
        Self::Failed(ProviderErrorKind::Fault),
        Self::Failed(ProviderErrorKind::Protocol),
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Answered => "ok",
            Self::Cancelled => "cancelled",
            Self::Failed(ProviderErrorKind::Unauthorized) => "unauthorized",
            Self::Failed(ProviderErrorKind::RateLimited) => "rate_limited",
            Self::Failed(ProviderErrorKind::BadRequest) => "bad_request",
            Self::Failed(ProviderErrorKind::TooLarge) => "too_large",
            Self::Failed(ProviderErrorKind::NotServed) => "not_served",
            Self::Failed(ProviderErrorKind::Timeout) => "timeout",
            Self::Failed(ProviderErrorKind::Unavailable) => "unavailable",
            Self::Failed(ProviderErrorKind::Fault) => "fault",
            Self::Failed(ProviderErrorKind::Protocol) => "protocol",
        }
    }
}

/// Metric handles of one service, created once.
pub struct ProviderMetrics {
    ends: [(ProviderEnd, Counter); 11],
    seconds: Histogram,
    in_flight: Gauge,
    up: Gauge,
    is_up: AtomicBool,
}

impl ProviderMetrics {
    /// Creates the handles of the service at position `place` in the list of `port` (`asr`, `llm`,
    /// `tts` or `state`). It counts as up.
    pub fn new(port: &'static str, place: usize) -> Self {
        static DESCRIBED: std::sync::Once = std::sync::Once::new();
        DESCRIBED.call_once(describe_providers);
        let labels = [("port", port.to_owned()), ("backend", place.to_string())];
        let ends = ProviderEnd::ALL.map(|end| {
            let [port, backend] = labels.clone();
            (end, counter!(PROVIDER_REQUESTS, &[port, backend, ("end", end.label().to_owned())]))
        });
        let meters = Self {
            ends,
            seconds: histogram!(PROVIDER_SECONDS, &labels),
            in_flight: gauge!(PROVIDER_IN_FLIGHT, &labels),
            up: gauge!(PROVIDER_UP, &labels),
            is_up: AtomicBool::new(true),
        };
        meters.up(true);
        meters
    }

    /// Records the start of a request.
    pub fn begun(&self) {
        self.in_flight.increment(1);
    }

    /// Records the response time `after`: until the transcript, the first words, the first audio,
    /// or the answer of a state server.
    pub fn answered(&self, after: Duration) {
        self.seconds.record(after);
    }

    /// Records the end of a request.
    pub fn ended(&self, end: ProviderEnd) {
        self.in_flight.decrement(1);
        if let Some((_, counter)) = self.ends.iter().find(|(of, _)| *of == end) {
            counter.increment(1);
        }
    }

    /// Records that the service is considered up, or down.
    pub fn up(&self, up: bool) {
        self.is_up.store(up, Ordering::Relaxed);
        self.up.set(if up { 1.0 } else { 0.0 });
    }

    /// Returns true if the service is considered up.
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }
}

fn describe_providers() {
    use metrics::{describe_counter, describe_gauge, describe_histogram};
    describe_counter!(
        PROVIDER_REQUESTS,
        Unit::Count,
        "requests (utterances, prompts, sentences, state requests) to a service, by outcome"
    );
    describe_histogram!(
        PROVIDER_SECONDS,
        Unit::Seconds,
        "response time: until the transcript, the first words, the first audio, or the state server's answer"
    );
    describe_gauge!(PROVIDER_IN_FLIGHT, Unit::Count, "requests in progress at a service");
    describe_gauge!(
        PROVIDER_UP,
        Unit::Count,
        "1 while a service is considered up, 0 after a failure"
    );
}
