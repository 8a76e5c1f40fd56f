//! Virtual time of a test, and its unit.

use std::time::Duration;

/// Returns a duration in milliseconds.
pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Makes time virtual, once per test: each test runs on its own thread.
pub fn freeze() {
    thread_local!(static FROZEN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    if !FROZEN.replace(true) {
        tokio::time::pause();
    }
}
