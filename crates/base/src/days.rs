//! Reads and writes a time as a whole number of days: `#[serde(with = "days")]` on a field whose key
//! ends in `_days`. Not for other units.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

const DAY_S: u64 = 24 * 60 * 60;

/// Returns the time in whole days.
pub fn in_days(time: Duration) -> u64 {
    time.as_secs() / DAY_S
}

/// Writes the time as a number of days.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(in_days(*time))
}

/// Reads the time from a number of days.
///
/// # Errors
/// The value is not an integer, negative, or above 4,294,967,295.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u32::deserialize(deserializer).map(|days| Duration::from_secs(u64::from(days) * DAY_S))
}
