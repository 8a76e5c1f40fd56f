//! Reads and writes a time as a whole number of milliseconds: `#[serde(with = "ms")]` on a field
//! whose key ends in `_ms`. Not for other units.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

/// Returns the time in whole milliseconds.
pub fn in_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Writes the time as a number of milliseconds.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(in_ms(*time))
}

/// Reads the time from a number of milliseconds.
///
/// # Errors
/// The value is not an integer, or negative.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}
