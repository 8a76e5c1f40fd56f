//! JSON-RPC messages: anything is read or refused, and what is read is read again from what it is
//! written as; only an error without a code gets one.

use hearken_proto::jsonrpc::{Message, code};

/// Tries one input.
///
/// # Panics
/// Panics if a promise above is broken.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(mut message) = Message::decode(text) else { return };
    let again = Message::decode(&message.encode());
    if let Message::Response { outcome: Err(error), .. } = &mut message {
        error.code.get_or_insert(code::INTERNAL_ERROR);
    }
    assert_eq!(again, Ok(message));
}
