//! Recorded sessions: any input is read or refused, and a value that is read survives a round trip.

use hearken_proto::recording::Recording;

/// Runs one input.
///
/// # Panics
/// Panics if a property above is violated.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(recording) = Recording::parse(text) else { return };
    assert_eq!(Recording::parse(&recording.render()), Ok(recording));
}
