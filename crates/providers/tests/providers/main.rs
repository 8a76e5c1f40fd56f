//! Every provider against its stub vendor over real sockets: one contract per port, the same for
//! all implementations, and the particularities of each protocol; and the client of state servers.
//! Not for the pipeline behind them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asr;
mod closing;
mod finish_reasons;
mod funasr;
mod llm;
mod llm_anthropic;
mod llm_broken_off;
mod llm_fallback;
mod llm_returned;
mod pool;
mod several;
mod state;
mod tts;

use std::time::{Duration, Instant};

use hearken_ports::{ProviderError, ProviderErrorKind};
use hearken_test_support::vendors::Behaviour;

/// Address without a listener: servers do not use this port.
const DEAD: &str = "ws://127.0.0.1:1";

/// Failures that every provider must distinguish, and their kinds.
fn failures() -> Vec<(Behaviour, ProviderErrorKind, Option<u64>)> {
    use ProviderErrorKind::{
        Fault, NotServed, Protocol, RateLimited, Timeout, Unauthorized, Unavailable,
    };
    vec![
        (Behaviour::Refuse, Unavailable, None),
        (Behaviour::ResetMidStream, Unavailable, None),
        (Behaviour::Silent, Timeout, None),
        (Behaviour::Garbage, Protocol, None),
        (Behaviour::HttpStatus(401, None), Unauthorized, None),
        (Behaviour::HttpStatus(404, None), NotServed, None),
        (Behaviour::HttpStatus(429, Some(7)), RateLimited, Some(7)),
        (Behaviour::HttpStatus(503, None), Unavailable, None),
        (Behaviour::HttpStatus(500, None), Fault, None),
    ]
}

/// Checks that the failure is the expected one, and arrived within its deadline.
fn check_failure<T: std::fmt::Debug>(
    began: Instant,
    outcome: Result<T, ProviderError>,
    behaviour: Behaviour,
    kind: ProviderErrorKind,
    retry_after_s: Option<u64>,
) {
    let error = outcome.expect_err(&format!("{behaviour:?} must fail"));
    assert_eq!(error.kind, kind, "{behaviour:?}: {error}");
    assert_eq!(error.retry_after, retry_after_s.map(Duration::from_secs), "{behaviour:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "{behaviour:?}: {:?}", began.elapsed());
}
