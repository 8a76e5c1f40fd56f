//! Whether a service is worth asking: one that failed is passed over for a while, longer each time
//! that it fails again. Not for choosing among services.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long one that failed is passed over, as a rule and at most.
pub(super) const PASSED_OVER: Duration = Duration::from_secs(30);

/// Longest time for which one is passed over that asked for a longer pause.
const LONGEST_PASSED_OVER: Duration = Duration::from_secs(300);

/// What is known of one service.
#[derive(Debug)]
pub(super) struct Circuit {
    /// The pause after a first failure; it doubles with each further one, up to [`PASSED_OVER`].
    first: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// It failed, and may be tried from then on.
    again_at: Option<Instant>,
    /// When it failed for the last time.
    failed_at: Option<Instant>,
    /// Failures since it worked for the last time.
    failures: u32,
}

impl Default for Circuit {
    fn default() -> Self {
        Self::new(PASSED_OVER)
    }
}

impl Circuit {
    /// A service that is passed over for so long after its first failure.
    pub(super) fn new(first: Duration) -> Self {
        Self { first, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True where it works, and for one request after each pause: the others go on passing it
    /// over until that one has come to something.
    pub(super) fn enter(&self) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        match state.again_at {
            None => true,
            Some(then) if then <= now => {
                state.again_at = Some(now + PASSED_OVER);
                true
            }
            Some(_) => false,
        }
    }

    /// When it may be tried again; none while it works.
    pub(super) fn again_at(&self) -> Option<Instant> {
        self.state().again_at
    }

    /// It did what it was asked.
    pub(super) fn worked(&self) {
        *self.state() = State::default();
    }

    /// It did what it was asked at that time. Where it failed since, that proves nothing: false.
    pub(super) fn worked_since(&self, asked_at: Instant) -> bool {
        let mut state = self.state();
        if state.failed_at.is_some_and(|failed_at| failed_at > asked_at) {
            return false;
        }
        *state = State::default();
        true
    }

    /// It can be reached again. What it failed by is not forgotten until it works.
    pub(super) fn reached(&self) {
        self.state().again_at = None;
    }

    /// It failed at what it was asked at that time. Many that were asked of it then fail together:
    /// that is one failure, of which only the longest pause counts, and none once it was reached.
    pub(super) fn failed_since(&self, asked_at: Instant, asked: Option<Duration>) {
        let mut state = self.state();
        if state.failed_at.is_none_or(|failed_at| failed_at <= asked_at) {
            return self.count(&mut state, asked);
        }
        if let (Some(then), Some(asked)) = (&mut state.again_at, asked) {
            *then = (*then).max(Instant::now() + asked.min(LONGEST_PASSED_OVER));
        }
    }

    /// It failed; `asked` is the shortest pause, where one is known.
    pub(super) fn failed(&self, asked: Option<Duration>) {
        self.count(&mut self.state(), asked);
    }

    fn count(&self, state: &mut State, asked: Option<Duration>) {
        let pause = self.first.saturating_mul(1 << state.failures.min(16)).min(PASSED_OVER);
        state.failures = state.failures.saturating_add(1);
        let pause = asked.unwrap_or_default().clamp(pause, LONGEST_PASSED_OVER);
        let now = Instant::now();
        (state.failed_at, state.again_at) = (Some(now), Some(now + pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long it is passed over from now on.
    fn left(circuit: &Circuit) -> Option<u64> {
        circuit.again_at().map(|then| (then - Instant::now()).as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_until_it_works_and_have_their_bounds() {
        let circuit = Circuit::new(Duration::from_secs(1));
        assert_eq!(left(&circuit), None);
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            circuit.failed(None);
            assert_eq!(left(&circuit), Some(pause));
            circuit.reached();
            assert_eq!(left(&circuit), None);
        }
        circuit.worked();
        circuit.failed(Some(Duration::from_secs(7)));
        assert_eq!(left(&circuit), Some(7), "the pause that it asks for is kept");
        circuit.failed(Some(Duration::from_secs(1)));
        assert_eq!(left(&circuit), Some(2));
        circuit.failed(Some(Duration::from_secs(3_600)));
        assert_eq!(left(&circuit), Some(300));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_asked_before_a_failure_proves_nothing() {
        let circuit = Circuit::default();
        let before = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        circuit.failed(None);
        assert!(!circuit.worked_since(before) && circuit.again_at().is_some());
        assert!(circuit.worked_since(Instant::now()) && circuit.again_at().is_none());
        assert!(circuit.worked_since(before));
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_together_is_one_failure() {
        let circuit = Circuit::new(Duration::from_secs(1));
        let before = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        for _ in 0..10 {
            circuit.failed_since(before, None);
            assert_eq!(left(&circuit), Some(1));
        }
        circuit.failed_since(before, Some(Duration::from_secs(7)));
        circuit.failed_since(before, Some(Duration::from_secs(5)));
        assert_eq!(left(&circuit), Some(7), "the longest pause that one of them asks for");
        circuit.reached();
        circuit.failed_since(before, Some(Duration::from_secs(7)));
        assert_eq!(left(&circuit), None, "it was reached since");
        circuit.failed_since(Instant::now(), None);
        assert_eq!(left(&circuit), Some(2), "and failed again");
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_enters_after_each_pause() {
        let circuit = Circuit::default();
        assert!(circuit.enter() && circuit.enter());
        circuit.failed(None);
        assert!(!circuit.enter());
        tokio::time::advance(PASSED_OVER).await;
        assert!(circuit.enter() && !circuit.enter());
    }
}
