//! LiteMCP messages: any input is read or refused, and a value that is read survives a round trip.

use hearken_proto::litemcp::Envelope;

/// Runs one input.
///
/// # Panics
/// Panics if a property above is violated.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(envelope) = Envelope::decode(text) else { return };
    let id = envelope.id;
    let Ok(body) = envelope.body() else { return };
    let again = Envelope::decode(&body.encode(id)).and_then(Envelope::body);
    assert_eq!(again, Ok(body));
}
