//! LiteMCP messages: anything is read or refused, and what is read is read again from what it is
//! written as.

use hearken_proto::litemcp::Envelope;

/// Tries one input.
///
/// # Panics
/// Panics if a promise above is broken.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(envelope) = Envelope::decode(text) else { return };
    let id = envelope.id;
    let Ok(body) = envelope.body() else { return };
    let again = Envelope::decode(&body.encode(id)).and_then(Envelope::body);
    assert_eq!(again, Ok(body));
}
