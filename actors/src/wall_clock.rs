//! Time of day for everything that is stored or sent. Not for time-outs, which use tokio's clock.

use std::sync::Arc;

use jiff::Timestamp;

/// Source of the time of day, to the millisecond: [`now`], or in tests that of a virtual day.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Returns the current time, cut to the millisecond.
pub fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}
