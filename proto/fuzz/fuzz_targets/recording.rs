//! Recorded sessions: anything is read or refused, and what is read is read again from what it is
//! written as.
#![no_main]

use hearken_proto::recording::Recording;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(recording) = Recording::parse(text) else { return };
    assert_eq!(Recording::parse(&recording.render()), Ok(recording));
});
