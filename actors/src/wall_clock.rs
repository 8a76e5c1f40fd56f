//! The time of day as everything that is kept and told has it. Not for time-outs, which go by
//! tokio's clock.

use jiff::Timestamp;

/// Now, to the millisecond.
pub fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}
