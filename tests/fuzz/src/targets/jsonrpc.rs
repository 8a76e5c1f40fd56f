//! JSON-RPC messages: any input is read or refused, and a value that is read survives a round trip,
//! except that an error without a code gets one.

use hearken_proto::jsonrpc::{Message, code};

/// Runs one input.
///
/// # Panics
/// Panics if a property above is violated.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(mut message) = Message::decode(text) else { return };
    let again = Message::decode(&message.encode());
    if let Message::Response { outcome: Err(error), .. } = &mut message {
        error.code.get_or_insert(code::INTERNAL_ERROR);
    }
    assert_eq!(again, Ok(message));
}
