//! Circuit breaker of one service: after a failure the service is skipped for a while, longer after
//! each further failure. Not for choosing among services.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Usual time for which the service is skipped, and the upper bound of the backoff.
pub(super) const OPEN_FOR: Duration = Duration::from_secs(30);

/// Upper bound of a pause that the service requests.
const LONGEST_PASSED_OVER: Duration = Duration::from_secs(300);

/// Circuit breaker of one service.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    /// Pause after a first failure. It doubles with each further one, up to [`PASSED_OVER`].
    first: Duration,
    state: Mutex<BreakerState>,
}

#[derive(Debug, Default)]
struct BreakerState {
    /// Time of the next attempt, after a failure.
    retry_at: Option<Instant>,
    /// Time of the last failure.
    failed_at: Option<Instant>,
    /// Failures since the last success.
    failures: u32,
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self::new(OPEN_FOR)
    }
}

impl CircuitBreaker {
    /// Creates a closed circuit breaker with this pause after the first failure.
    pub(super) fn new(first: Duration) -> Self {
        Self { first, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, BreakerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the service works, and for one trial request after each pause. Other
    /// requests are refused until that trial has an outcome.
    pub(super) fn try_acquire(&self) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        match state.retry_at {
            None => true,
            Some(then) if then <= now => {
                state.retry_at = Some(now + OPEN_FOR);
                true
            }
            Some(_) => false,
        }
    }

    /// Returns the time of the next attempt; none while the service works.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.state().retry_at
    }

    /// Records a success.
    pub(super) fn worked(&self) {
        *self.state() = BreakerState::default();
    }

    /// Records the success of a request that started at `asked_at`. Returns false if the service
    /// has failed since: then the success proves nothing.
    pub(super) fn worked_since(&self, asked_at: Instant) -> bool {
        let mut state = self.state();
        if state.failed_at.is_some_and(|failed_at| failed_at > asked_at) {
            return false;
        }
        *state = BreakerState::default();
        true
    }

    /// Records that the service can be reached again. The failure count stays until a request
    /// succeeds.
    pub(super) fn reached(&self) {
        self.state().retry_at = None;
    }

    /// Records the failure of a request that started at `asked_at`. Concurrent requests fail
    /// together: they count as one failure with the longest of their pauses. They count as none if
    /// the service was reached since.
    pub(super) fn failed_since(&self, asked_at: Instant, asked: Option<Duration>) {
        let mut state = self.state();
        if state.failed_at.is_none_or(|failed_at| failed_at <= asked_at) {
            return self.count(&mut state, asked);
        }
        if let (Some(then), Some(asked)) = (&mut state.retry_at, asked) {
            *then = (*then).max(Instant::now() + asked.min(LONGEST_PASSED_OVER));
        }
    }

    /// Records a failure. `asked` is the minimum pause, if one is known.
    pub(super) fn failed(&self, asked: Option<Duration>) {
        self.count(&mut self.state(), asked);
    }

    fn count(&self, state: &mut BreakerState, asked: Option<Duration>) {
        let pause = self.first.saturating_mul(1 << state.failures.min(16)).min(OPEN_FOR);
        state.failures = state.failures.saturating_add(1);
        let pause = asked.unwrap_or_default().clamp(pause, LONGEST_PASSED_OVER);
        let now = Instant::now();
        (state.failed_at, state.retry_at) = (Some(now), Some(now + pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the remaining pause, in seconds.
    fn left(circuit: &CircuitBreaker) -> Option<u64> {
        circuit.retry_at().map(|then| (then - Instant::now()).as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_a_bound_until_the_service_works() {
        let circuit = CircuitBreaker::new(Duration::from_secs(1));
        assert_eq!(left(&circuit), None);
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            circuit.failed(None);
            assert_eq!(left(&circuit), Some(pause));
            circuit.reached();
            assert_eq!(left(&circuit), None);
        }
        circuit.worked();
        circuit.failed(Some(Duration::from_secs(7)));
        assert_eq!(left(&circuit), Some(7), "the requested pause is respected");
        circuit.failed(Some(Duration::from_secs(1)));
        assert_eq!(left(&circuit), Some(2));
        circuit.failed(Some(Duration::from_secs(3_600)));
        assert_eq!(left(&circuit), Some(300));
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_of_an_older_request_is_ignored() {
        let circuit = CircuitBreaker::default();
        let before = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        circuit.failed(None);
        assert!(!circuit.worked_since(before) && circuit.retry_at().is_some());
        assert!(circuit.worked_since(Instant::now()) && circuit.retry_at().is_none());
        assert!(circuit.worked_since(before));
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_failures_count_once() {
        let circuit = CircuitBreaker::new(Duration::from_secs(1));
        let before = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        for _ in 0..10 {
            circuit.failed_since(before, None);
            assert_eq!(left(&circuit), Some(1));
        }
        circuit.failed_since(before, Some(Duration::from_secs(7)));
        circuit.failed_since(before, Some(Duration::from_secs(5)));
        assert_eq!(left(&circuit), Some(7), "the longest of the requested pauses");
        circuit.reached();
        circuit.failed_since(before, Some(Duration::from_secs(7)));
        assert_eq!(left(&circuit), None, "it was reached since then");
        circuit.failed_since(Instant::now(), None);
        assert_eq!(left(&circuit), Some(2), "and failed again");
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_enters_after_each_pause() {
        let circuit = CircuitBreaker::default();
        assert!(circuit.try_acquire() && circuit.try_acquire());
        circuit.failed(None);
        assert!(!circuit.try_acquire());
        tokio::time::advance(OPEN_FOR).await;
        assert!(circuit.try_acquire() && !circuit.try_acquire());
    }
}
