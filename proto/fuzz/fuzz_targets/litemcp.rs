//! LiteMCP messages: anything is read or refused, and what is read is read again from what it is
//! written as.
#![no_main]

use hearken_proto::litemcp::Envelope;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(envelope) = Envelope::decode(text) else { return };
    let id = envelope.id;
    let Ok(body) = envelope.body() else { return };
    let again = Envelope::decode(&body.encode(id)).and_then(Envelope::body);
    assert_eq!(again, Ok(body));
});
