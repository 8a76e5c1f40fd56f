//! Recorded sessions: anything is read or refused, and what is read is read again from what it is
//! written as.

use hearken_proto::recording::Recording;

/// Tries one input.
///
/// # Panics
/// Panics if a promise above is broken.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(recording) = Recording::parse(text) else { return };
    assert_eq!(Recording::parse(&recording.render()), Ok(recording));
}
