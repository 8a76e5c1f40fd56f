//! The time of day as everything that is kept and told has it. Not for time-outs, which go by
//! tokio's clock.

use std::sync::Arc;

use jiff::Timestamp;

/// Tells the time of day, to the millisecond: [`now`], or in tests that of a virtual day.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Now, to the millisecond.
pub fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}
