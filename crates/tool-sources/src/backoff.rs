//! Waits before another attempt at a tool server: to connect, and to open a stream. Not for what is
//! attempted.

use std::time::Duration;

/// First wait before another attempt; doubles while attempts fail.
pub(super) const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Maximum wait before another attempt.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Lifetime after which a connection or a stream counts as stable: the next wait is the first again.
const WELL_AFTER: Duration = Duration::from_secs(20);

/// Backoff of attempts, with its next wait.
pub(super) struct Backoff(pub(super) Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST_WAIT)
    }
}

impl Backoff {
    /// Returns the wait after a connection, a stream or an attempt that lasted this long.
    pub(super) fn next(&mut self, lasted: Duration) -> Duration {
        let wait = if lasted >= WELL_AFTER { FIRST_WAIT } else { self.0 };
        self.0 = (wait * 2).min(LONGEST_WAIT);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_restart_after_a_stable_connection() {
        let mut waits = Backoff::default();
        let short = Duration::from_secs(1);
        let grown: Vec<u128> = (0..8).map(|_| waits.next(short).as_millis()).collect();
        assert_eq!(grown, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert_eq!(waits.next(WELL_AFTER), FIRST_WAIT);
        assert_eq!(waits.next(short), FIRST_WAIT * 2);
    }
}
